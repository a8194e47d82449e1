"""Exactly what the page shows: verdicts, history and records, formatted once; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runci.nightly.cause import grouped
from runci.nightly.history.lines import History, Series, SuiteNight, one_per_night
from runci.nightly.page import words
from runci.nightly.page.curve import OLD, RECENT
from runci.nightly.page.headline import Headline, headline
from runci.nightly.page.section import (
    MissingNight,
    Run,
    Section,
    missing_nights,
    run_view,
    section,
    shown_value,
)
from runci.nightly.page.words import Link, commit_link, issue_link
from runci.nightly.record import Record, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Status, Verdict, Verdicts

SYMBOLS: Mapping[Status, str] = {
    Status.REGRESSION: "✗",
    Status.MISSING: "∅",
    Status.NOISY: "≈",
    Status.TOO_LITTLE: "…",
    Status.RECOVERED: "↺",
    Status.IMPROVEMENT: "★",
    Status.STEADY: "✓",
}
_ORDER = list(Status)  # worst first


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table of verdicts. `kind` is the status as a class of the style sheet."""

    kind: str
    symbol: str
    status: str
    metric: str
    machine: str
    anchor: str
    value: str
    change: str
    interval: str
    since: str
    since_commit: Link
    confirmed: str
    reason: str
    watch: bool
    accepted: bool
    issue: Link


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one cause with a row that stands for them, or one row alone."""

    lead: Row | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page, in the order in which it is read."""

    night: str
    at: str
    machines: tuple[str, ...]
    commits: tuple[Link, ...]
    headline: Headline
    counts: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    missing: tuple[MissingNight, ...]
    suites: tuple[SuiteNight, ...]
    sections: tuple[Section, ...]
    runs: tuple[Run, ...]
    messages: tuple[str, ...]
    thinned: str

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row a metric."""
        return tuple(row for group in self.groups for row in group.rows)


@dataclass(frozen=True, slots=True)
class _Around:
    """What rows are made with. `urls` are runs by night; `several` says that machines differ."""

    series: Mapping[SeriesId, Series]
    urls: Mapping[str, str]
    issues: Mapping[SeriesId, int]
    several: bool


def view(
    verdicts: Verdicts,
    history: History,
    records: Sequence[Record] = (),
    min_change: float = 0.03,
    issues: Mapping[SeriesId, int] | None = None,
) -> Page:
    """What there is to show. `min_change` is the rule's: the width of the band around a level.

    `issues` are the numbers of those that tell of a series already.
    """
    ordered = sorted(verdicts.verdicts, key=lambda v: _ORDER.index(v.status))
    known, odd = _by_machine(records)
    urls = _run_urls(history)
    series = {v.id: _until(found, v.night) for v in ordered if (found := history.series.get(v.id))}
    several = len({v.id.machine_key for v in ordered}) > 1
    around = _Around(series, urls, issues or {}, several)
    sections = tuple(
        section(v, series.get(v.id), known.get(v.id.machine_key), urls.get(v.night, ""), min_change)
        for v in ordered
    )
    said = (*verdicts.messages, *history.messages, *odd, *_gaps(verdicts, history, records))
    return Page(
        night=verdicts.night,
        at=verdicts.at,
        machines=_machines(ordered, records),
        commits=_commits(ordered, records, urls.get(verdicts.night, "")),
        headline=headline(verdicts),
        counts=_counts(ordered),
        groups=tuple(_group(those, around) for those in grouped(ordered)),
        missing=missing_nights(verdicts.missing, history.nights),
        suites=verdicts.suites,
        sections=sections,
        runs=tuple(run_view(record) for record in records),
        messages=tuple(dict.fromkeys(said)),  # each once
        thinned=_thinned(sections),
    )


def _until(series: Series, night: str) -> Series:
    """As it was on a night: a report may be made again later."""
    return replace(
        series,
        points=one_per_night(series.points, night),
        accepts=tuple(line for line in series.accepts if line.night <= night),
        events=tuple(line for line in series.events if line.night <= night),
    )


def _by_machine(records: Sequence[Record]) -> tuple[dict[str, Record], list[str]]:
    """The records by what their series have in common, and what is wrong with them."""
    found: dict[str, Record] = {}
    odd = []
    for record in records:
        if record.machine.driver.split(".")[0].isdecimal():
            found[record.series_id("").machine_key] = record
        else:
            odd.append(f"the record of {record.benchmark} has the driver {record.machine.driver!r}")
    return found, odd


def _run_urls(history: History) -> dict[str, str]:
    """The run of each night; points know it, too, but their nights may have been run twice."""
    return {night.night: night.run_url for night in history.nights if night.run_url}


def _machines(ordered: Sequence[Verdict], records: Sequence[Record]) -> tuple[str, ...]:
    if records:
        named = [f"{r.machine.gpu}, driver {r.machine.driver}" for r in records]
    else:
        named = [f"{v.id.gpu}, driver {v.id.driver_major}" for v in ordered]
    return tuple(dict.fromkeys(named))


def _commits(
    ordered: Sequence[Verdict], records: Sequence[Record], run_url: str
) -> tuple[Link, ...]:
    named = [r.commit for r in records] or [v.commit for v in ordered if v.commit]
    return tuple(commit_link(run_url, commit) for commit in dict.fromkeys(named))


def _counts(ordered: Sequence[Verdict]) -> tuple[tuple[str, int], ...]:
    counts = Counter(v.status for v in ordered)
    return tuple((status.value, counts[status]) for status in Status if counts[status])


def _group(verdicts: Sequence[Verdict], around: _Around) -> Group:
    ordered = sorted(verdicts, key=lambda v: -(v.change or 0.0))
    rows = tuple(_row(v, around) for v in ordered)
    if len(rows) == 1:
        return Group(None, rows)
    confirmed = dict.fromkeys(row.confirmed for row in rows)
    lead = replace(
        rows[0],
        metric=f"{len(rows)} metrics",
        value=words.NONE,
        change=f"up to {rows[0].change}" if rows[0].change != words.NONE else words.NONE,
        interval=words.NONE,
        since=min(row.since for row in rows),
        since_commit=replace(rows[0].since_commit, text=_range(verdicts[0])),
        confirmed=", ".join(confirmed),
        reason="all between the same two commits",
        watch=False,
        accepted=False,
    )
    # What they share stands in the row above.
    nothing = Link(words.NONE)
    return Group(
        lead,
        tuple(
            replace(
                row,
                since=words.NONE if row.since == lead.since else row.since,
                since_commit=nothing,
                confirmed=words.NONE,
                reason="",
            )
            for row in rows
        ),
    )


def _range(verdict: Verdict) -> str:
    return f"{words.short(verdict.last_good)}...{words.short(verdict.since_commit)}"


def _row(verdict: Verdict, around: _Around) -> Row:
    run_url = around.urls.get(verdict.night, "")
    return Row(
        kind=verdict.status.name.lower().replace("_", "-"),
        symbol=SYMBOLS[verdict.status],
        status=verdict.status.value,
        metric=verdict.id.metric,
        machine=verdict.id.machine_key if around.several else "",
        anchor=anchor(verdict.id),
        value=shown_value(verdict, around.series.get(verdict.id)),
        change=words.change(verdict.change),
        interval=words.interval(verdict.low, verdict.high),
        since=verdict.since or words.NONE,
        since_commit=commit_link(run_url, verdict.since_commit, verdict.last_good),
        confirmed=_confirmed(verdict),
        reason=verdict.reason,
        watch=verdict.watch,
        accepted=verdict.accepted,
        issue=_issue(verdict, run_url, around.issues.get(verdict.id)),
    )


def _issue(verdict: Verdict, run_url: str, number: int | None) -> Link:
    """Its issue. A new one is opened after the page is written, so it is searched by its commit."""
    if verdict.status is not Status.REGRESSION:
        return Link(words.NONE)
    return issue_link(run_url, verdict.since_commit, number)


def _confirmed(verdict: Verdict) -> str:
    changed = verdict.status in (Status.REGRESSION, Status.IMPROVEMENT, Status.RECOVERED)
    if not changed and not verdict.watch:
        return words.NONE
    return verdict.confirmed_by.value if changed else Confirmed.NOT_YET.value


def _gaps(verdicts: Verdicts, history: History, records: Sequence[Record]) -> Iterable[str]:
    """What does not fit together."""
    for verdict in verdicts.verdicts:
        if verdict.id not in history.series:
            yield f"{verdict.id.metric}: a verdict, but no history on {verdict.id.machine_key}"
    for record in records:
        if record.night != verdicts.night:
            yield (
                f"a record of {record.benchmark} is of {record.night}, "
                f"but the verdicts are of {verdicts.night}"
            )
        if record.unusable:
            reasons = "; ".join(record.unusable)
            yield f"the figures of {record.benchmark} do not count tonight: {reasons}"


def _thinned(sections: Sequence[Section]) -> str:
    spans = {s.curve.span for s in sections if s.curve and s.curve.span}
    if not spans:
        return ""
    weeks = " or ".join(f"{span // 7} week{'s' if span > 7 else ''}" for span in sorted(spans))
    return (
        f"Plots draw the last {RECENT} nights of a series one by one. Older nights are thinned to "
        f"at most {OLD} groups of {weeks}: the line is the median of a group's usable nights, the "
        "shade reaches from the smallest to the largest."
    )
