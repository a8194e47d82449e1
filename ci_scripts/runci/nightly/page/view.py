"""Exactly what the page shows: the night, its rows, a part for each metric and each run; pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runci.nightly.figures import night_value
from runci.nightly.history.lines import (
    Accept,
    Event,
    History,
    Night,
    Point,
    Series,
    SuiteNight,
    one_per_night,
)
from runci.nightly.page import words
from runci.nightly.page.curve import OLD, RECENT, Curve, Pairs, curve, median, pairs, value, why_not
from runci.nightly.page.headline import Headline, headline
from runci.nightly.page.words import Link, commit_link, issue_link, run_link
from runci.nightly.record import EXACT, Check, Measurement, Record, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Status, Verdict, Verdicts, grouped

NIGHTS = 30  # in the table of a metric
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
class NightRow:
    """A night in a metric's table. `usable` is «yes» or the reasons why not."""

    night: str
    commit: Link
    candidate: str
    baseline: str
    ratio: str
    temperature: str
    clock: str
    usable: str


@dataclass(frozen=True, slots=True)
class Decision:
    """An event or an acceptance: `what` happened, said in `text`."""

    night: str
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """All of one metric. `open`: not folded away, since something is to be seen."""

    anchor: str
    metric: str
    kind: str
    status: str
    machine: str
    unit: str
    better: str
    exact: bool
    open: bool
    value: str
    change: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    curve: Curve | None
    pairs: Pairs | None
    nights: tuple[NightRow, ...]
    decisions: tuple[Decision, ...]
    command: str
    note: str


def section(
    verdict: Verdict,
    series: Series | None,
    record: Record | None,
    run_url: str,
    min_change: float,
) -> Section:
    """What is known of one series: its history may be missing, and so may last night's record."""
    points = series.points if series else ()
    exact = verdict.unit == EXACT
    measurement = _measurement(verdict, record)
    last = next((p for p in reversed(points) if p.candidate), None)
    given = measurement or last
    return Section(
        anchor=anchor(verdict.id),
        metric=verdict.id.metric,
        kind=verdict.status.name.lower().replace("_", "-"),
        status=verdict.status.value,
        machine=verdict.id.machine_key,
        unit="" if exact else words.unit_name(verdict.unit),
        better="must hold exactly" if exact else words.better(verdict.direction),
        exact=exact,
        open=verdict.status is not Status.STEADY or verdict.watch,
        value=shown_value(verdict, series),
        change=words.change(verdict.change),
        reason=verdict.reason,
        facts=tuple(_facts(verdict, points, measurement, min_change)),
        curve=curve(verdict, series, min_change) if series else None,
        pairs=pairs(given, verdict.unit) if given else None,
        nights=tuple(_night(p, verdict.unit, run_url) for p in reversed(points[-NIGHTS:])),
        decisions=tuple(_decisions(series)) if series else (),
        command=reproduce(verdict, record),
        note=_note(series, measurement, last, exact),
    )


def _measurement(verdict: Verdict, record: Record | None) -> Measurement | None:
    given = record.measurements if record else ()
    return next((m for m in given if m.metric == verdict.id.metric), None)


def shown_value(verdict: Verdict, series: Series | None) -> str:
    """The night's figure: a ratio to the baseline, an amount without one, passed or failed."""
    points = reversed(series.points) if series else ()
    last = next((p for p in points if p.night == verdict.night), None)
    if verdict.unit == EXACT:
        return words.NONE if last is None else _outcome(last)
    if last is not None and not last.baseline:
        return words.amount(verdict.value, verdict.unit)
    return words.ratio(verdict.value)


def _outcome(point: Point) -> str:
    return words.NONE if point.passed is None else "passed" if point.passed else "failed"


def _facts(
    verdict: Verdict,
    points: tuple[Point, ...],
    measurement: Measurement | None,
    min_change: float,
) -> Iterable[tuple[str, str]]:
    compared = any(p.baseline for p in points[-NIGHTS:])
    show = words.ratio if compared else lambda v: words.amount(v, verdict.unit)
    exact = verdict.unit == EXACT
    if not exact:
        yield ("ratio to baseline" if compared else "median"), show(verdict.value)
        yield "accepted level", f"{show(verdict.level)} ± {words.percent(min_change)}"
        yield (
            "change, 95 % interval",
            (f"{words.change(verdict.change)} ({words.interval(verdict.low, verdict.high)})"),
        )
    last = points[-1] if points else None
    if last is not None and not exact:
        yield "candidate", words.amount(median(last.candidate), verdict.unit)
        if last.baseline:
            yield "baseline", words.amount(median(last.baseline), verdict.unit)
            yield "baseline commit", words.short(last.baseline_commit)
        for name, figures in last.arms:
            yield f"ratio to {name}", words.ratio(night_value(last.candidate, figures))
        if last.reference is not None:
            name = (measurement.reference if measurement else None) or "the reference"
            yield f"ratio to {name}", words.ratio(last.reference)
    if last is not None and last.detail:
        yield "checked", last.detail
    yield "usable nights", f"{verdict.points:,}"
    if verdict.last_good:
        yield "last good commit", words.short(verdict.last_good)


def _night(point: Point, unit: str, run_url: str) -> NightRow:
    if unit == EXACT:
        candidate, baseline, ratio = _outcome(point), words.NONE, words.NONE
    else:
        candidate = words.amount(median(point.candidate), unit)
        baseline = words.amount(median(point.baseline), unit)
        ratio = words.ratio(value(point)) if point.baseline else words.NONE
    return NightRow(
        night=point.night,
        commit=commit_link(point.run_url or run_url, point.commit),
        candidate=candidate,
        baseline=baseline,
        ratio=ratio,
        temperature=words.NONE if point.temperature is None else f"{point.temperature} °C",
        clock=words.NONE if point.sm_clock is None else f"{point.sm_clock:,} MHz",
        usable=why_not(point) or "yes",
    )


def _decisions(series: Series) -> Iterable[Decision]:
    """Newest first, in the order in which they were written down."""
    lines: list[Event | Accept] = [*series.events, *series.accepts]
    for line in sorted(lines, key=lambda line: line.at, reverse=True):
        if isinstance(line, Accept):
            text = f"level accepted from {line.night} on by {line.by}: {line.reason}"
            yield Decision(line.at[:10], "accepted", text)
        else:
            text = (
                f"{words.change(line.change)} ({words.interval(line.low, line.high)}) since "
                f"{line.since}, commit {words.short(line.since_commit)}, last good "
                f"{words.short(line.last_good)}; confirmed by {line.confirmed_by}"
            )
            yield Decision(line.night, line.turn.value, text)


def _note(
    series: Series | None, measurement: Measurement | None, last: Point | None, exact: bool
) -> str:
    """What is missing from this part, and why."""
    if series is None or not series.points:
        return "The history has no nights of this metric."
    if exact or measurement is not None:
        return ""
    if last is None:
        return "The history has no figures of this metric."
    return (
        f"No record of this metric was given: the distribution shows the medians of {last.night} "
        "that the history keeps."
    )


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of `runci perf measure` said of itself."""

    benchmark: str
    machine: str
    facts: tuple[tuple[str, str], ...]
    commit: Link
    run: Link
    states: tuple[tuple[str, str, str, str], ...]  # what, before, while measuring, after
    versions: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    order: str
    command: str
    unusable: tuple[str, ...]


def run_view(record: Record) -> Run:
    """The record without its samples."""
    return Run(
        benchmark=f"{record.benchmark}, version {record.version}",
        machine=f"{record.machine.gpu}, driver {record.machine.driver}",
        facts=tuple(_run_facts(record)),
        commit=commit_link(record.run_url, record.commit),
        run=run_link(record.run_url, record.run_id),
        states=tuple(_states(record)),
        versions=tuple(sorted(record.versions.items())),
        checks=record.checks,
        order=" ".join(word[:1].upper() for word in record.order) or words.NONE,
        command=shlex.join(record.command),
        unusable=record.unusable,
    )


def _run_facts(record: Record) -> Iterable[tuple[str, str]]:
    machine = record.machine
    yield "host", machine.host or words.NONE
    yield "processor", machine.cpu or words.NONE
    if machine.capability:
        yield "compute capability", machine.capability
    yield "started", record.started
    yield "finished", record.finished
    yield "baseline commit", words.short(record.baseline_commit)
    yield "seed", str(record.seed)


def _states(record: Record) -> Iterable[tuple[str, str, str, str]]:
    before, after = record.before, record.after
    for name, unit, what in (
        ("at", "", "time"),
        ("sm_clock", " MHz", "SM clock"),
        ("memory_clock", " MHz", "memory clock"),
        ("temperature", " °C", "temperature"),
        ("power", " W", "power"),
        ("memory_used", " MiB", "memory used"),
        ("load", "", "load of the host, one minute"),
    ):
        known = [seen for state in record.during if (seen := getattr(state, name)) is not None]
        highest = _state(max(known), unit) if known and name != "at" else words.NONE
        yield what, _state(getattr(before, name), unit), highest, _state(getattr(after, name), unit)
    for name, what in (
        ("throttled", "clocks held down by"),
        ("processes", "other processes on the GPU"),
    ):
        seen = tuple(dict.fromkeys(n for state in record.during for n in getattr(state, name)))
        during = _names(seen) if record.during else words.NONE
        yield what, _names(getattr(before, name)), during, _names(getattr(after, name))


def _state(value: int | float | str | None, unit: str) -> str:
    if value is None:
        return "not known"
    if isinstance(value, float):
        return f"{value:,.1f}{unit}"
    return f"{value:,}{unit}" if isinstance(value, int) else value


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def reproduce(verdict: Verdict, record: Record | None) -> str:
    """The commands that measure a metric's benchmark again, on a machine of the same kind."""
    commit = (record.commit if record else "") or verdict.commit
    measure = ["runci", "perf", "measure", verdict.id.benchmark, "--output", "record.json"]
    if record is not None:
        pairs = max((len(m.candidate) for m in record.measurements), default=0)
        measure += ["--repetitions", str(pairs)] if pairs else []
        measure += ["--seed", str(record.seed)]
        measure += ["--baseline", record.baseline_commit] if record.baseline_commit else []
    checkout = f"git checkout {shlex.quote(commit)}\n" if commit else ""
    return checkout + shlex.join(measure)


@dataclass(frozen=True, slots=True)
class MissingNight:
    """A night without figures, or several one after the other of which nothing is known.

    `run` links to the run, where there was one; `why` is what is known.
    """

    night: str
    run: Link
    why: str


def missing_nights(missing: Sequence[str], nights: Sequence[Night]) -> tuple[MissingNight, ...]:
    """Newest first; nights without a run that follow each other as one line."""
    ran = {night.night: night for night in nights}
    groups: list[list[str]] = []
    for night in sorted(missing, reverse=True):
        before = groups[-1][-1] if groups else ""
        if night not in ran and before not in ran and _follows(night, before):
            groups[-1].append(night)
        else:
            groups.append([night])
    return tuple(_missing_night(group, ran.get(group[0])) for group in groups)


def _follows(night: str, newer: str) -> bool:
    one, other = words.day(night), words.day(newer)
    return one is not None and other is not None and other - one == 1


def _missing_night(group: Sequence[str], found: Night | None) -> MissingNight:
    if found is None:
        several = len(group) > 1
        name = f"{group[-1]} to {group[0]}, {len(group)} nights" if several else group[0]
        return MissingNight(name, Link(words.NONE), "no run")
    why = "; ".join(found.unusable) or "the run measured nothing"
    return MissingNight(found.night, run_link(found.run_url, found.run_id), why)


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
