"""One topic for each cause of which the verdicts speak: a commit, or a machine of many; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runci.nightly.bisect import Searched
from runci.nightly.cause import cause
from runci.nightly.history.lines import SuiteNight
from runci.nightly.history.read import newest_names
from runci.nightly.notify import facts
from runci.nightly.notify.body import Links, key_of, short_digests
from runci.nightly.notify.model import Issue, Now, Stage, Topic, main_issue
from runci.nightly.notify.nights import KEY
from runci.nightly.page import words
from runci.nightly.record import EXACT, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Ended, Status, Verdict, Verdicts
from runci.text.markdown import block, code, escaped, one_line
from runci.text.tables import render_markdown
from runci.text.wording import plural

MOST_NEW = 10  # more new causes on one machine in one night are one, the machine, rather than many
_OVER = (Status.RECOVERED, Status.STEADY, Status.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Context:
    """What topics are made with. `suites` are the night's, `renames` those of perf.yml,
    `searched` the bisections of this run."""

    issues: Sequence[Issue]
    links: Links
    suites: Sequence[SuiteNight]
    renames: Mapping[str, str]
    min_change: float
    searched: Sequence[Searched] = ()


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
    suites = [v for v in verdicts.verdicts if facts.is_suite(v.id)]
    keys = {v.id.digest for v in suites} | {KEY}
    opened = [
        i for i in context.issues if i.memory.stage is Stage.OPEN and i.memory.key not in keys
    ]
    measured = [v for v in verdicts.verdicts if not facts.is_suite(v.id)]
    for told in everything_told(measured, verdicts.ended, opened, context.renames):
        yield _bisected(_topic(told, verdicts.night, context), told, context)
    for verdict in suites:
        yield _series(verdict, context)


def everything_told(
    verdicts: Sequence[Verdict],
    ended: Sequence[Ended],
    opened: Sequence[Issue],
    renames: Mapping[str, str],
) -> list[Told]:
    """What each open issue tells of, and which issues to open; a series is told in one place.

    What is new joins the issue whose cause it shares; alone, it has an issue of its own.
    """
    rest = list(verdicts)
    found = []
    for issue in sorted(opened, key=lambda issue: issue.number):
        mine = [v for v in rest if _tells(issue, v.id, renames)]
        if not mine and any(_tells(issue, v.id, renames) for v in verdicts):
            continue  # an older issue tells of the same
        rest = [v for v in rest if v not in mine]
        gone = tuple(one for one in ended if _tells(issue, one.id, renames))
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


def _tells(issue: Issue, series: SeriesId, renames: Mapping[str, str]) -> bool:
    digests = (series.digest, *_former(series, renames))
    return issue.memory.key in digests or bool(
        set(short_digests(digests)) & {*issue.memory.members}
    )


def _topic(told: Told, night: str, context: Context) -> Topic:
    whole = (*told.bad, *told.others)
    if len(whole) == 1 and told.key in (whole[0].id.digest, *_former(whole[0].id, context.renames)):
        return _series(whole[0], context)
    if not told.bad and not any(now_of(v) is Now.UNKNOWN for v in told.others):
        return Topic(told.key, Now.OVER, night, over=_all_over(told, night))
    return _cause(told, night, context)


def _bisected(topic: Topic, told: Told, context: Context) -> Topic:
    """With what bisections found, now or when the issue was last told."""
    if topic.now is not Now.BAD:
        return topic
    bad = {digest for v in told.bad for digest in (v.id.digest, *_former(v.id, context.renames))}
    links = context.links
    said = [one for one in context.searched if one.series.digest in bad]
    culprit = next((one.culprit for one in reversed(said) if one.culprit), "")
    culprit = culprit or (told.issue.memory.culprit if told.issue else "")
    found = [f"**Found by bisecting:** {links.commit(culprit)}"] if culprit else []
    return replace(
        topic,
        facts=(*found, *topic.facts),
        culprit=culprit,
        bisected="\n\n".join(facts.bisected(one, links) for one in said),
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
    summary = f"{facts.summary(verdict)}, seen on {code(verdict.night)}"
    range_ = links.range(verdict.last_good, verdict.since_commit)
    return Topic(
        key=verdict.id.digest,
        aliases=_former(verdict.id, context.renames),
        now=now,
        night=verdict.night,
        title=facts.title(verdict),
        facts=tuple(facts.evidence(verdict, suites, links)),
        standing=facts.standing(verdict),
        over=_over(verdict),
        back=f"**It is back:** {summary}{f', in {range_}' if range_ else ''}.",
        news="\n\n".join(["**More tests fail** since this was last told.", *facts.failures(suites)])
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
    if facts.is_suite(verdict.id):
        return bool(suites)
    return verdict.unit == EXACT or verdict.value is not None


def is_about(verdict: Verdict, suite: SuiteNight) -> bool:
    """Whether a verdict stands for a suite of nightly tests."""
    return facts.is_suite(verdict.id) and verdict.id.metric == f"suite {suite.suite}"


def _over(verdict: Verdict) -> str:
    name, reason = code(verdict.id.metric), escaped(verdict.reason)
    what = "Accepted" if verdict.accepted else "Recovered"
    level = f" at {words.ratio(verdict.value)}" if verdict.value is not None else ""
    return f"**{what}:** {name}, night {code(verdict.night)}{level}. {reason}".rstrip()


def _former(series: SeriesId, renames: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of a series' former names."""
    old = [name for name, new in newest_names(renames).items() if new == series.metric]
    return tuple(replace(series, metric=name).digest for name in old)


def _issue(verdict: Verdict, context: Context) -> Issue | None:
    return main_issue(context.issues, verdict.id.digest, _former(verdict.id, context.renames))


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
    commands = dict.fromkeys(line for v in told.bad for line in facts.reproduce(v))
    yield f"To see them again, on this machine:\n\n{block(list(commands)[:8], 'sh')}"
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
        for v in ordered[: 2 * facts.MOST_LISTED]
    ]
    headers = ("metric", "change", "95 % confidence", "since", "commits")[
        : len(rows[0]) if rows else 5
    ]
    more = len(bad) - len(rows)
    table = render_markdown(headers, rows, "<>><<"[: len(headers)]).rstrip()
    return table + (f"\n\nand {more:,} more" if more > 0 else "")
