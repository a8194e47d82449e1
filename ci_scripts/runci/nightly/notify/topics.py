"""What there is to tell: missing nights, and what got worse, one topic for each cause; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.nightly.bisect import Searched
from runci.nightly.history.lines import SuiteNight
from runci.nightly.history.read import newest_names
from runci.nightly.notify.issue import (
    BISECT,
    MOST_LISTED,
    Issue,
    Links,
    Memory,
    Now,
    Stage,
    Topic,
    bisected,
    evidence,
    failures,
    is_suite,
    key_of,
    listed,
    main_issue,
    reproduce,
    said_of,
    short_digests,
    standing,
    title,
)
from runci.nightly.page import words
from runci.nightly.record import EXACT, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Ended, Status, Verdict, Verdicts, cause
from runci.text.markdown import block, code, escaped, one_line
from runci.text.tables import render_markdown
from runci.text.wording import plural, some

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
        names = some([code(v.id.metric) for v in now.gone])
        parts.append(f"{plural(len(now.gone), 'metrics')}, {names}")
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


MOST_NEW = 10  # more new causes on one machine in one night are one, the machine, rather than many
_OVER = (Status.RECOVERED, Status.STEADY, Status.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Context:
    """What topics are made with.

    `suites` are the night's, `renames` those of perf.yml, `searched` the bisections of this run.
    `taken` are the series of older drivers that a series goes on with.
    """

    issues: Sequence[Issue]
    links: Links
    suites: Sequence[SuiteNight]
    renames: Mapping[str, str]
    min_change: float
    searched: Sequence[Searched] = ()
    taken: Mapping[SeriesId, tuple[SeriesId, ...]] = field(default_factory=dict)


def now_of(verdict: Verdict) -> Now:
    """Only what is confirmed opens an issue, and only a clear answer closes one."""
    if verdict.status is Status.REGRESSION:
        return Now.UNKNOWN if verdict.confirmed_by is Confirmed.NOT_YET else Now.BAD
    if verdict.accepted:
        return Now.OVER
    return Now.OVER if verdict.status in _OVER and not verdict.watch else Now.UNKNOWN


@dataclass(frozen=True, slots=True)
class Told:
    """An open issue, or one to open, and what it tells of: what is bad, over, or not known.

    `ended` are series that get no verdict any more, `issue` is None for one to open.
    """

    key: str
    issue: Issue | None
    bad: tuple[Verdict, ...]
    others: tuple[Verdict, ...] = ()
    ended: tuple[Ended, ...] = ()


def series_topics(verdicts: Verdicts, context: Context) -> Iterable[Topic]:
    """What issues tell of already, then what is new, worst first, then suites."""
    suites = [v for v in verdicts.verdicts if is_suite(v.id)]
    keys = {v.id.digest for v in suites} | {KEY}
    opened = [
        i for i in context.issues if i.memory.stage is Stage.OPEN and i.memory.key not in keys
    ]
    measured = [v for v in verdicts.verdicts if not is_suite(v.id)]
    for told in everything_told(measured, verdicts.ended, opened, context):
        yield _bisected(_topic(told, verdicts.night, context), told, context)
    for verdict in suites:
        yield _series(verdict, context)


def everything_told(
    verdicts: Sequence[Verdict],
    ended: Sequence[Ended],
    opened: Sequence[Issue],
    context: Context,
) -> list[Told]:
    """What each open issue tells of, and which issues to open; a series is told in one place.

    What is new joins the issue whose cause it shares; alone, it has an issue of its own.
    """
    rest = list(verdicts)
    found = []
    for issue in sorted(opened, key=lambda issue: issue.number):
        mine = [v for v in rest if tells(issue, v.id, context)]
        if not mine and any(tells(issue, v.id, context) for v in verdicts):
            continue  # an older issue tells of the same
        rest = [v for v in rest if v not in mine]
        heirs = {v.id for v in mine}
        gone = tuple(e for e in ended if e.heir not in heirs and tells(issue, e.id, context))
        bad = tuple(v for v in mine if now_of(v) is Now.BAD)
        others = tuple(v for v in mine if v not in bad)
        found.append(Told(issue.memory.key, issue, bad, others, gone))
    new = [v for v in rest if now_of(v) is Now.BAD]
    for i, told in enumerate(found):
        known = {cause(v) for v in told.bad} - {None}
        joining = tuple(v for v in new if cause(v) in known)
        new = [v for v in new if v not in joining]
        found[i] = replace(told, bad=told.bad + joining)
    opening = _new(new, found)
    return [*found, *opening]


def _new(bad: Sequence[Verdict], found: list[Told]) -> list[Told]:
    """The issues to open; more than `MOST_NEW` on one machine are one, which may be in `found`."""
    groups: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in bad:
        groups.setdefault(cause(verdict) or (verdict.id.digest,), []).append(verdict)
    machines = Counter(those[0].id.machine_key for those in groups.values())
    opening: dict[str, list[Verdict]] = {}
    for parts, those in groups.items():
        machine = those[0].id.machine_key
        key = those[0].id.digest if len(those) == 1 else key_of("cause", *parts)
        key = machine_key(machine) if machines[machine] > MOST_NEW else key
        opening.setdefault(key, []).extend(those)
    for i, told in enumerate(found):
        joining = tuple(opening.pop(told.key, ()))
        found[i] = replace(told, bad=told.bad + joining)
    return [Told(key, None, tuple(those)) for key, those in opening.items()]


def machine_key(machine: str) -> str:
    """The key of a machine's issue."""
    return key_of("machine", machine)


def tells(issue: Issue, series: SeriesId, context: Context) -> bool:
    """Whether an issue is about a series, under this or a former name, alone or with others."""
    digests = (series.digest, *_former(series, context))
    return issue.memory.key in digests or bool(
        set(short_digests(digests)) & {*issue.memory.members}
    )


def _topic(told: Told, night: str, context: Context) -> Topic:
    whole = (*told.bad, *told.others)
    if len(whole) == 1 and told.key in (whole[0].id.digest, *_former(whole[0].id, context)):
        return _series(whole[0], context)
    if not told.bad and not any(now_of(v) is Now.UNKNOWN for v in told.others):
        return Topic(told.key, Now.OVER, night, over=_all_over(told, night))
    return _cause(told, night, context)


def _bisected(topic: Topic, told: Told, context: Context) -> Topic:
    """With what bisections found, now or when the issue was last told."""
    if topic.now is not Now.BAD:
        return topic
    bad = {digest for v in told.bad for digest in (v.id.digest, *_former(v.id, context))}
    links = context.links
    said = [one for one in context.searched if one.series.digest in bad]
    culprit = next((one.culprit for one in reversed(said) if one.culprit), "")
    culprit = culprit or (told.issue.memory.culprit if told.issue else "")
    found = [f"**Found by bisecting:** {links.commit(culprit)}"] if culprit else []
    return replace(
        topic,
        facts=(*found, *topic.facts),
        culprit=culprit,
        bisected="\n\n".join(bisected(one, links) for one in said),
    )


def _all_over(told: Told, night: str) -> str:
    """Why nothing of what an issue tells of is bad any more."""
    if told.others:
        said = (
            "all of them recovered, were accepted or ended."
            if told.ended
            else ("all of them recovered or were accepted.")
        )
        return f"**Over** on {code(night)}: {said}"
    reasons = list(dict.fromkeys(escaped(one.reason) for one in told.ended))
    why = "; ".join(reasons) or "the history of the nightly has no such series any more"
    return f"**Ended:** on {code(night)} there is no verdict on it any more: {why}."


def _series(verdict: Verdict, context: Context) -> Topic:
    """A series or suite with an issue of its own."""
    suites = [suite for suite in context.suites if is_about(verdict, suite)]
    issue = _issue(verdict, context)
    links = context.links.for_issue(issue)
    told = issue is not None and issue.memory.stage is Stage.OPEN
    now = now_of(verdict)
    if now is Now.BAD and told and not _is_fresh(verdict, suites):
        now = Now.UNKNOWN  # the evidence of the last night that had any stays
    failed = short_digests(name for suite in suites for name in suite.failures)
    known = issue.memory.members if issue and told else ()
    summary = f"{said_of(verdict)}, seen on {code(verdict.night)}"
    range_ = links.range(verdict.last_good, verdict.since_commit)
    return Topic(
        key=verdict.id.digest,
        aliases=_former(verdict.id, context),
        now=now,
        night=verdict.night,
        title=title(verdict),
        facts=tuple(evidence(verdict, suites, links)),
        standing=standing(verdict),
        over=_over(verdict),
        back=f"**It is back:** {summary}{f', in {range_}' if range_ else ''}.",
        news="\n\n".join(["**More tests fail** since this was last told.", *failures(suites)])
        if set(failed) - set(known)
        else "",
        change=verdict.change,
        min_change=context.min_change,
        # A test that fails every other night is news once.
        members=tuple({*failed, *known}),
        page=links.page,
    )


def _is_fresh(verdict: Verdict, suites: Sequence[SuiteNight]) -> bool:
    """Whether there is anything of this night; of a benchmark's checks that cannot be known."""
    if is_suite(verdict.id):
        return bool(suites)
    return verdict.unit == EXACT or verdict.value is not None


def is_about(verdict: Verdict, suite: SuiteNight) -> bool:
    """Whether a verdict stands for a suite of nightly tests."""
    return is_suite(verdict.id) and verdict.id.metric == f"suite {suite.suite}"


def _over(verdict: Verdict) -> str:
    name, reason = code(verdict.id.metric), escaped(verdict.reason)
    what = "Accepted" if verdict.accepted else "Recovered"
    level = f" at {words.ratio(verdict.value)}" if verdict.value is not None else ""
    return f"**{what}:** {name}, night {code(verdict.night)}{level}. {reason}".rstrip()


def _former(series: SeriesId, context: Context) -> tuple[str, ...]:
    """The keys of a series' former names, and of what it goes on with."""
    names = newest_names(context.renames).items()
    old = [name for name, new in names if new == series.metric]
    taken = context.taken.get(series, ())
    return tuple(
        digest
        for one in (series, *taken)
        for name in (one.metric, *old)
        if (digest := replace(one, metric=name).digest) != series.digest
    )


def _issue(verdict: Verdict, context: Context) -> Issue | None:
    return main_issue(context.issues, verdict.id.digest, _former(verdict.id, context))


def _cause(told: Told, night: str, context: Context) -> Topic:
    """Several metrics with one cause: the topic of a commit, or of a machine."""
    links = context.links.for_issue(told.issue)
    silent = [v for v in told.others if now_of(v) is Now.UNKNOWN]
    worst = max((v.change for v in told.bad if v.change is not None), default=None)
    count = plural(len(told.bad), "metrics")
    of = code((*told.bad, *told.others)[0].id.machine_key)
    first = min((v.since for v in told.bad if v.since), default="")
    since = f" since the night {first}" if first else ""
    least = f"; the worst is {words.change(worst)}" if worst is not None else ""
    return Topic(
        key=told.key,
        now=Now.BAD if told.bad else Now.UNKNOWN,
        night=max((v.night for v in told.bad), default=night),
        title=_title(told),
        facts=tuple(_cause_facts(told, links)),
        standing=f"**Open on {night}: {count}** of {of} got worse{since}{least}.",
        back=f"**It is back** on {code(night)}: {count} got worse.",
        news=f"**More metrics** got worse by {code(night)}: it is {count} now.",
        change=worst,
        min_change=context.min_change,
        members=short_digests(v.id.digest for v in (*told.bad, *silent)),
        page=links.page,
    )


def _title(told: Told) -> str:
    """Plain text; the commit in it is what the page's link looks for."""
    if not told.bad:
        return ""
    machine = told.bad[0].id
    if told.key == machine_key(machine.machine_key):
        return one_line(f"Nightly regression: many metrics on {machine.machine_key}", 200)
    commit = words.short(told.bad[0].since_commit or "")
    count = plural(len(told.bad), "metrics")
    return one_line(f"Nightly regression: {count} since {commit} on {machine.gpu}", 200)


def _cause_facts(told: Told, links: Links) -> Iterable[str]:
    causes = dict.fromkeys((v.last_good, v.since_commit) for v in told.bad)
    if len(causes) == 1:
        ((good, bad),) = causes
        yield (
            f"They share the commits after which they got worse: {links.range(good, bad)}, of "
            f"which {links.commit(bad)} is the first that was measured."
        )
    elif told.bad:
        yield (
            f"More than {MOST_NEW} metrics of one machine got worse in one night, so one cause is "
            "likelier than many. Begin with the machine. The report has its state, and the times "
            "of the pinned baseline: what slowed the machine down slowed that down as well."
        )
    yield _metrics(told.bad, links, one_cause=len(causes) == 1)
    if links.page:
        yield f"All of them: {links.report()}."
    commands = dict.fromkeys(line for v in told.bad for line in reproduce(v))
    yield f"To see them again, on this machine:\n\n{block(list(commands)[:8], 'sh')}"
    if len(causes) == 1:
        yield BISECT
    yield "`runci perf accept METRIC... --reason TEXT` takes them as they are now."


def _metrics(bad: Sequence[Verdict], links: Links, *, one_cause: bool) -> str:
    """A row a metric, worst first."""
    ordered = sorted(bad, key=lambda v: (-(v.change or 0.0), v.id))
    rows = [
        (
            f"[{code(v.id.metric)}]({links.page}#{anchor(v.id)})"
            if links.page
            else code(v.id.metric),
            words.change(v.change) if v.change is not None else "fails",
            words.interval(v.low, v.high),
            code(v.since or "not known"),
            links.range(v.last_good, v.since_commit) or "not known",
        )[: 4 if one_cause else 5]
        for v in ordered[: 2 * MOST_LISTED]
    ]
    headers = ("metric", "change", "95 % confidence", "since", "commits")[
        : len(rows[0]) if rows else 5
    ]
    more = len(bad) - len(rows)
    table = render_markdown(headers, rows, "<>><<"[: len(headers)]).rstrip()
    return table + (f"\n\nand {more:,} more" if more > 0 else "")
