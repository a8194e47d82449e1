"""The topic of nights that are missing, and of metrics that disappeared; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runci.nightly.notify.body import Links, key_of, short_digests
from runci.nightly.notify.facts import listed
from runci.nightly.notify.model import Issue, Memory, Now, Stage, Topic, main_issue
from runci.nightly.page import words
from runci.nightly.verdict import Status, Verdict, Verdicts
from runci.text.markdown import code
from runci.text.wording import plural

KEY = key_of("missing nights")
NIGHTS = short_digests(["nights"])[0]  # among the members while nights are what is told


@dataclass(frozen=True, slots=True)
class Seen:
    """What the verdicts say of one night. `missing` is sorted.

    `measured`: this night has figures. `gone` are metrics that it should have measured and did not.
    """

    night: str
    missing: tuple[str, ...]
    measured: bool
    gone: tuple[Verdict, ...]


def nights_topic(verdicts: Verdicts, issues: Sequence[Issue], links: Links) -> Topic:
    """Bad while no night is measured or a metric is gone, and once for any night not told of."""
    issue = main_issue(issues, KEY)
    before = issue.memory if issue else Memory(KEY, Stage.OVER)
    links = links.for_issue(issue)
    now = seen(verdicts)
    tell_nights = _tell_nights(now, before)
    members = short_digests(v.id.digest for v in now.gone)
    if not now.measured and before.stage is Stage.OPEN:
        members = before.members  # what is gone cannot be known
    if tell_nights:
        members = tuple({*members, NIGHTS})
    is_bad = tell_nights or bool(now.gone)
    shown = now if tell_nights else replace(now, missing=())
    counted = _counted(shown)
    missed = f" Missing: {_counted(now)}" if NIGHTS in before.members and now.missing else ""
    return Topic(
        key=KEY,
        now=Now.BAD if is_bad else Now.OVER if now.measured else Now.UNKNOWN,
        night=now.night,
        title="Nightly: nights are missing" if tell_nights else "Nightly: metrics are missing",
        facts=tuple(_facts(shown, links)),
        standing=f"**Missing**, as of {code(now.night)}: {counted}",
        over=f"**It runs again:** the night {code(now.night)} was measured in full.{missed}",
        back=f"**Missing again**, as of {code(now.night)}: {counted}",
        news=f"**More is missing**, as of {code(now.night)}: {counted}",
        members=members,
        until=max((before.until, *now.missing)),
        page=links.page,
    )


def _tell_nights(now: Seen, before: Memory) -> bool:
    """Whether there are missing nights to tell of, or to go on telling of."""
    if not now.missing:
        return False
    newest = now.missing[-1]
    if not now.measured:
        return newest > before.until
    telling = before.stage is Stage.OPEN and NIGHTS in before.members
    if before.night == now.night:
        # The same verdicts once more must find the issue as the first time left it.
        return telling and newest >= before.until
    return not telling and newest > before.until


def seen(verdicts: Verdicts) -> Seen:
    """Sort out what was measured: verdicts are of the newest night that ran, or should have."""
    missing = tuple(sorted(set(verdicts.missing)))
    measured = bool(verdicts.verdicts) and verdicts.night not in missing
    gone = [v for v in verdicts.verdicts if v.status is Status.MISSING] if measured else []
    return Seen(verdicts.night, missing, measured, tuple(gone))


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
            "`runci perf accept METRIC --reason TEXT` ends one that was dropped on purpose."
        )
    if links.page:
        yield f"More in {links.report()}."
