"""One topic for each series that the verdicts speak of, or one for a machine of many; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runci.nightly.history.lines import SuiteNight
from runci.nightly.history.read import newest_names
from runci.nightly.notify import facts
from runci.nightly.notify.body import Links, key_of, short_digests
from runci.nightly.notify.model import Issue, Now, Stage, Topic, main_issue
from runci.nightly.page import words
from runci.nightly.record import EXACT, SeriesId
from runci.nightly.verdict import Confirmed, Status, Verdict
from runci.text.markdown import block, code, escaped, one_line
from runci.text.tables import render_markdown
from runci.text.wording import plural

MOST_NEW = 10  # more new ones on one machine in one night have one cause rather than many
_OVER = (Status.RECOVERED, Status.STEADY, Status.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Context:
    """What topics are made with. `suites` are the night's, `renames` those of perf.yml."""

    issues: Sequence[Issue]
    links: Links
    suites: Sequence[SuiteNight]
    renames: Mapping[str, str]
    min_change: float


def now_of(verdict: Verdict) -> Now:
    """Only what is confirmed opens an issue, and only a clear answer closes one."""
    if verdict.status is Status.REGRESSION:
        return Now.UNKNOWN if verdict.confirmed_by is Confirmed.NOT_YET else Now.BAD
    if verdict.accepted:
        return Now.OVER
    return Now.OVER if verdict.status in _OVER and not verdict.watch else Now.UNKNOWN


def series_topics(verdicts: Sequence[Verdict], context: Context) -> Iterable[Topic]:
    """The machines that have or need an issue of their own, then every other series."""
    together: set[SeriesId] = set()
    for machine in sorted({verdict.id.machine_key for verdict in verdicts}):
        those = [verdict for verdict in verdicts if verdict.id.machine_key == machine]
        held = _held(machine, those, context)
        together |= {verdict.id for verdict in held}
        topic = _machine(machine, those, held, context)
        if topic is not None:
            yield topic
    for verdict in verdicts:
        if verdict.id not in together:
            yield _series(verdict, context)


def _series(verdict: Verdict, context: Context) -> Topic:
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


def _held(machine: str, verdicts: Sequence[Verdict], context: Context) -> list[Verdict]:
    """The series that the machine's issue tells of, worst first.

    Those that it told of already and that still are bad; and more than MOST_NEW that nobody was
    told of yet.
    """
    issue = main_issue(context.issues, machine_key(machine))
    members = issue.memory.members if issue and issue.memory.stage is Stage.OPEN else ()
    bad = [v for v in verdicts if now_of(v) is Now.BAD and not _is_told(v, context)]
    held = [v for v in bad if set(_digests(v, context)) & set(members)]
    new = [v for v in bad if v not in held]
    return bad if len(new) > MOST_NEW else held


def machine_key(machine: str) -> str:
    """The key of a machine's issue."""
    return key_of("machine", machine)


def _is_told(verdict: Verdict, context: Context) -> bool:
    issue = _issue(verdict, context)
    return issue is not None and issue.memory.stage is Stage.OPEN


def _digests(verdict: Verdict, context: Context) -> tuple[str, ...]:
    return short_digests((verdict.id.digest, *_former(verdict.id, context.renames)))


def _machine(
    machine: str, verdicts: Sequence[Verdict], held: Sequence[Verdict], context: Context
) -> Topic | None:
    issue = main_issue(context.issues, machine_key(machine))
    if issue is None and not held:
        return None
    links = context.links.for_issue(issue)
    told = set(issue.memory.members) if issue and issue.memory.stage is Stage.OPEN else set()
    silent = [v for v in verdicts if now_of(v) is Now.UNKNOWN and told & set(_digests(v, context))]
    night = max(verdict.night for verdict in verdicts)
    count = plural(len(held), "metrics")
    return Topic(
        key=machine_key(machine),
        now=Now.BAD if held else Now.UNKNOWN if silent else Now.OVER,
        night=night,
        title=one_line(f"Nightly regression: many metrics on {machine}", 200),
        facts=tuple(_machine_facts(held, links)),
        standing=f"**Open on {night}: {count}** of {code(machine)} got worse.",
        over=f"**Over** on {code(night)}: all of them recovered or were accepted.",
        back=f"**It is back** on {code(night)}: {count} got worse.",
        news=f"**More metrics** got worse by {code(night)}: it is {count} now.",
        min_change=context.min_change,
        members=short_digests(v.id.digest for v in (*held, *silent)),
        page=links.page,
    )


def _machine_facts(held: Sequence[Verdict], links: Links) -> Iterable[str]:
    commits = {verdict.since_commit for verdict in held} - {None, ""}
    first = "the commit that they share" if len(commits) == 1 else "the machine"
    yield (
        f"More than {MOST_NEW} metrics of one machine got worse in one night, so one cause is "
        f"likelier than many. Begin with {first}. The report has the machine's state, and the "
        "times of the pinned baseline: what slowed the machine down slowed that down as well."
    )
    rows = [
        (
            code(v.id.metric),
            words.change(v.change) if v.change is not None else "fails",
            code(v.since or "not known"),
            links.range(v.last_good, v.since_commit) or "not known",
        )
        for v in held[: 2 * facts.MOST_LISTED]
    ]
    table = render_markdown(("metric", "change", "since", "commits"), rows, "<><<").rstrip()
    more = len(held) - len(rows)
    yield table + (f"\n\nand {more:,} more" if more > 0 else "")
    if links.page:
        yield f"All of them: {links.report()}."
    commands = dict.fromkeys(line for v in held for line in facts.reproduce(v))
    yield f"To see them again, on this machine:\n\n{block(list(commands)[:8], 'sh')}"
    yield "`runci perf accept METRIC --reason TEXT` takes one as it is now."
