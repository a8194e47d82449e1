"""What a person sees of a decision: sentences, and the table of a night; the place that rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runci.nightly.decide.turns import Change, Turns
from runci.nightly.history.lines import Event, SuiteNight, Turn
from runci.nightly.verdict import Confirmed, Status, Step, Verdict, Verdicts
from runci.text.tables import render_table
from runci.text.terminal import printable, wrap
from runci.text.wording import plural, some

WITHIN = "within its level"
HEADERS = ("status", "metric", "change, %", "since", "by")
_CHANGED = (Status.REGRESSION, Status.RECOVERED, Status.IMPROVEMENT)
# Short words leave most of 80 columns to the metric; the sentences below the table say it all.
_BY = {
    Confirmed.SECOND_NIGHT: "2nd night",
    Confirmed.PAIRED: "re-run",
    Confirmed.BASELINE: "baseline",
    Confirmed.BUDGET: "budget",
    Confirmed.EXACT: "exact",
    Confirmed.NOT_YET: "not yet",
}
_STATUS = {Status.TOO_LITTLE: "too little"}


def percent(change: float) -> str:
    """«5.1 %», without a sign."""
    return f"{abs(change) * 100:.1f} %"


def moved(change: float) -> str:
    """«5.1 % worse»."""
    return f"{percent(change)} {'worse' if change > 0 else 'better'}"


def short(commit: str) -> str:
    """A commit's first nine digits."""
    return commit[:9] or "an unknown commit"


def changed(change: Change, steps: Sequence[Step], by: str) -> str:
    """An open regression: all of it, then each step where it has several."""
    span = f"{change.low * 100:+.1f} to {change.high * 100:+.1f} %"
    first = steps[0]
    text = f"{moved(change.change)} ({span}) since {first.since} ({short(first.since_commit)})"
    if len(steps) > 1:
        parts = (f"{s.change:+.1%} since {s.since} ({short(s.since_commit)})" for s in steps)
        text += f", in {len(steps)} steps: {', '.join(parts)}"
    text += f", confirmed by {by}"
    for step in steps:
        if step.driver:
            text += (
                f"; driver {step.driver} came on {step.since}, too: it and the commits are equally "
                "suspect until both are measured again on one driver"
            )
    return text


def to_watch(change: float, again: float | None) -> str:
    """A change that nothing has confirmed yet; `again` is what a re-run of tonight says."""
    rerun = f" (measured again at once: {moved(again)})" if again is not None else ""
    return f"{moved(change)} tonight{rerun}; not confirmed yet, nothing is claimed"


def noisy(visible: float, tonight: float, nights: int) -> str:
    """A series that varies too much by itself."""
    return (
        f"the smallest step that {nights} nights could tell here is {percent(visible)}, since the "
        f"series varies as much by itself; tonight: {moved(tonight)}"
    )


def machine_moved(moved_by: float) -> str:
    """The baseline itself takes another time, and the ratio does not change."""
    more = "more" if moved_by > 0 else "less"
    return (
        f"the pinned baseline itself reads {percent(moved_by)} {more} than on the nights before: "
        "the machine changed, the code did not"
    )


def baseline_moved(moved_by: float, change: float) -> str:
    """The ratio moved because the baseline did."""
    more = "more" if moved_by > 0 else "less"
    return (
        f"{moved(change)} by the ratio, but the pinned baseline itself reads {percent(moved_by)} "
        f"{more} than before and the candidate does not: nothing is claimed unless it lasts"
    )


def too_little(points: int, missing: int, turns: Turns) -> str:
    """A segment that is too short to say anything."""
    since = f" since the acceptance of {turns.accept.night}" if turns.accept else ""
    return f"{plural(points, 'usable nights')}{since}, {missing} more are needed"


def event(event: Event) -> str:
    """A change of the last week."""
    if event.turn is Turn.RECOVERED:
        return f"back at its level since {event.since} ({short(event.since_commit)})"
    return f"{moved(event.change)} since {event.since} ({short(event.since_commit)})"


def render(verdicts: Verdicts, width: int, messages: Iterable[str] = ()) -> str:
    """The table, worst first; then a sentence for each verdict that is not plainly steady; then
    missing nights, suites and messages."""
    several = len({verdict.id.machine_key for verdict in verdicts.verdicts}) > 1
    rows = [_row(verdict) for verdict in verdicts.verdicts]
    lines = [f"night of {verdicts.night}: {_counts(verdicts)}", ""]
    if rows:
        lines += [render_table(HEADERS, rows, width=width)]
    said = []
    for verdict in verdicts.verdicts:
        if verdict.status is not Status.STEADY or verdict.watch:
            where = f" on {verdict.id.machine_key}" if several else ""
            said.append(f"{verdict.id.metric}{where}: {verdict.status.value}: {verdict.reason}")
    said += [f"missing night: {night}" for night in verdicts.missing]
    said += [_suite(suite) for suite in verdicts.suites if suite.is_bad]
    said += [f"note: {message}" for message in (*verdicts.messages, *messages)]
    lines += [line for text in said for line in _wrapped(text, width)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    """A sentence, its later lines set in."""
    first, *others = wrap(printable(text), width - 2)
    return [first, *(f"  {line}" for line in others)]


def _counts(verdicts: Verdicts) -> str:
    statuses = [verdict.status for verdict in verdicts.verdicts]
    parts = [f"{statuses.count(s)} {s.value}" for s in Status if s in statuses]
    missing = plural(len(verdicts.missing), "nights") + " missing"
    return ", ".join([*(parts or ["no series"]), *([missing] if verdicts.missing else [])])


def _row(verdict: Verdict) -> tuple[str, ...]:
    status = _STATUS.get(verdict.status, verdict.status.value)
    if verdict.watch:
        status = f"{status}, watch"
    since = f"{verdict.since[5:]} {(verdict.since_commit or '')[:7]}" if verdict.since else ""
    by = _BY[verdict.confirmed_by] if verdict.status in _CHANGED or verdict.watch else ""
    return status, verdict.id.metric, _change(verdict), since, by


def _change(verdict: Verdict) -> str:
    if verdict.change is None or verdict.low is None or verdict.high is None:
        return ""
    low, high = verdict.low * 100, verdict.high * 100
    return f"{verdict.change * 100:+.1f} ({low:+.1f}, {high:+.1f})"


def _suite(suite: SuiteNight) -> str:
    problems = (*suite.failures, *suite.problems)
    return f"suite {suite.suite}: {suite.failed} failed of {suite.executed}: {some(problems, 5)}"
