"""One metric's part of the page: what is drawn, the last nights, what was decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runci.nightly.figures import night_value
from runci.nightly.history.lines import Accept, Event, Point, Series
from runci.nightly.page import words
from runci.nightly.page.curve import Curve, Pairs, curve, median, pairs, value, why_not
from runci.nightly.page.runs import reproduce
from runci.nightly.page.words import Link, commit_link
from runci.nightly.record import EXACT, Measurement, Record, anchor
from runci.nightly.verdict import Status, Verdict

NIGHTS = 30  # in the table of a metric


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
