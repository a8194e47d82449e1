"""The verdicts of a night as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from runci.nightly.history.lines import SuiteNight
from runci.nightly.verdict import Confirmed, Status, Verdict, Verdicts
from runci.text.tables import render_table
from runci.text.terminal import printable, wrap
from runci.text.wording import plural

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
    shown = ", ".join(problems[:5]) + (f" and {len(problems) - 5} more" if problems[5:] else "")
    return f"suite {suite.suite}: {suite.failed} failed of {suite.executed}: {shown}"
