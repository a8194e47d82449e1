"""The topic of nights that are missing, and of metrics that disappeared; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from runci.perf.notify.actions import main_issue
from runci.perf.notify.facts import is_suite, listed
from runci.perf.notify.links import Links
from runci.perf.notify.marks import key_of, short_digests
from runci.perf.notify.model import Issue, Memory, Now, Stage, Topic
from runci.perf.page import words
from runci.perf.verdict import Status, Verdict, Verdicts
from runci.report.markdown import code
from runci.report.summary import plural

KEY = key_of("missing nights")
_DUE = 2  # days after which a night without figures is surely known to be missing


@dataclass(frozen=True, slots=True)
class Seen:
    """What the verdicts say of one night. `missing` is sorted.

    `measured`: this night has figures. `gone` are metrics that it should have measured and did not.
    """

    night: str
    missing: tuple[str, ...]
    measured: bool
    gone: tuple[Verdict, ...]


def nights_topic(
    verdicts: Verdicts, issues: Sequence[Issue], links: Links, benchmarks: Collection[str]
) -> Topic:
    """Bad while the newest nights are missing or a metric is gone, and for any night not told.

    A night is told once: it is no news when it is before the newest one told of, or before one that
    was measured when the issue was closed. `benchmarks` are those of perf.yml.
    """
    issue = main_issue(issues, KEY)
    before = issue.memory if issue else Memory(KEY, Stage.OVER)
    now = seen(verdicts, benchmarks)
    tell_nights = _tell_nights(now, before)
    members = short_digests(v.id.digest for v in now.gone)
    if not now.measured and before.stage is Stage.OPEN:
        members = before.members  # what is gone cannot be known
    if tell_nights:
        members = tuple({*members, _member(now)})
    is_bad = tell_nights or bool(now.gone)
    told = [before.until, *now.missing, *([now.night] if now.measured and not is_bad else [])]
    counted = _counted(now)
    return Topic(
        key=KEY,
        now=Now.BAD if is_bad else Now.OVER if now.measured else Now.UNKNOWN,
        night=now.night,
        title="Nightly: nights are missing" if now.missing else "Nightly: metrics are missing",
        facts=tuple(_facts(now, links)),
        standing=f"**Missing**, as of {code(now.night)}: {counted}",
        over=f"**It runs again:** the night {code(now.night)} was measured, nothing is missing.",
        back=f"**Missing again**, as of {code(now.night)}: {counted}",
        news=f"**More is missing**, as of {code(now.night)}: {counted}",
        members=members,
        until=max(told),
    )


def _tell_nights(now: Seen, before: Memory) -> bool:
    if not now.missing:
        return False
    is_open = before.stage is Stage.OPEN
    newest = now.missing[-1]
    if newest > before.until:
        return True
    # The same verdicts once more must find the issue as the first time left it.
    again = is_open and before.night == now.night and _member(now) in before.members
    age = (words.day(now.night) or 0) - (words.day(newest) or 0)
    return again or (is_open and not now.measured and age <= _DUE)


def _member(now: Seen) -> str:
    """What stands for the last missing nights, however many more they become."""
    return short_digests([stretch(now.missing)[0]])[0]


def seen(verdicts: Verdicts, benchmarks: Collection[str]) -> Seen:
    """Sort out what was measured. Tests may run where nothing was measured: they do not count.

    A metric that was measured under another machine key, or whose benchmark is not in perf.yml any
    more, is not gone.
    """
    missing = tuple(sorted(set(verdicts.missing)))
    tonight = [v for v in verdicts.verdicts if _measured(v, verdicts.night)]
    measured = verdicts.night not in missing and any(not is_suite(v.id) for v in tonight)
    there = {(v.id.benchmark, v.id.metric) for v in tonight}
    gone = [
        v
        for v in verdicts.verdicts
        if v.status is Status.MISSING and (v.id.benchmark, v.id.metric) not in there
        if v.id.benchmark in benchmarks or is_suite(v.id)
    ]
    return Seen(verdicts.night, missing, measured, tuple(gone) if measured else ())


def _measured(verdict: Verdict, night: str) -> bool:
    """An open regression is one without figures too."""
    if verdict.night != night or verdict.status is Status.MISSING:
        return False
    return verdict.status is not Status.REGRESSION or verdict.value is not None


def stretch(missing: Sequence[str]) -> list[str]:
    """The last nights of `missing` (sorted, not empty) without a night between them."""
    found = [missing[-1]]
    for night in reversed(missing[:-1]):
        if (words.day(found[0]) or 0) - (words.day(night) or 0) != 1:
            break
        found.insert(0, night)
    return found


def _counted(now: Seen) -> str:
    parts = []
    if now.missing:
        last = stretch(now.missing)
        span = code(last[0]) if len(last) == 1 else f"{code(last[0])} to {code(last[-1])}"
        parts.append(f"{plural(len(last), 'nights')}, {span}")
    if now.gone:
        names = ", ".join(code(v.id.metric) for v in now.gone[:3])
        more = f" and {len(now.gone) - 3:,} more" if len(now.gone) > 3 else ""
        parts.append(f"{plural(len(now.gone), 'metrics')}, {names}{more}")
    return "; ".join(parts) + "."


def _facts(now: Seen, links: Links) -> Iterable[str]:
    if now.missing:
        newest = list(reversed(now.missing))
        yield "\n".join(["Nights without figures, newest first:", "", *listed(newest)])
        yield (
            "Where to look: is the machine's runner online; did the workflow run, and was it "
            "allowed to; is its schedule switched off, as GitHub does after 60 days without a "
            "commit? A run that measured nothing says why in its log."
        )
    if now.gone:
        names = [f"{v.id.metric} ({v.id.machine_key}): {v.reason}" for v in now.gone]
        yield "\n".join([f"Not measured on {code(now.night)}:", "", *listed(names)])
        yield (
            "A metric that got another name keeps its history when `renames` in perf.yml says so; "
            "for one that was dropped on purpose, close this issue."
        )
    if links.page:
        yield f"More in {links.report()}."
