"""The history as text: a table of its series, one metric night by night, CSV; pure."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Sequence

from runci.nightly.figures import middle, night_value
from runci.nightly.history.lines import Accept, Event, Point, Series, one_per_night
from runci.nightly.record import EXACT, SeriesId
from runci.text.tables import render_table
from runci.text.terminal import printable, wrap

_LISTED = ("metric", "nights", "first", "last", "last value", "ratio")
_FIGURES = ("night", "commit", "candidate", "baseline", "ratio")
_EXACT = ("night", "commit", "result")
_ID = ("metric", "benchmark", "version", "gpu", "driver_major")
_RUN = ("night", "at", "run_id", "commit", "baseline_commit")
_MORE = ("reference", "passed", "detail", "temperature", "sm_clock", "run_url")
_MEDIANS = ("candidate", "baseline", "again_candidate", "again_baseline")
COLUMNS = (
    *_ID,
    *("unit", "direction"),
    *_RUN,
    *("value", "baseline_value", "ratio"),
    *_MORE,
    "unusable",
    *_MEDIANS,
)


def listing(series: Iterable[Series], width: int) -> str:
    """A table for each machine key, by metric."""
    parts = []
    ordered = sorted(series, key=lambda one: (one.id.machine_key, one.id.metric))
    for machine, those in itertools.groupby(ordered, key=lambda one: one.id.machine_key):
        rows = [_row(one) for one in those]
        parts.append(f"{printable(machine)}\n{render_table(_LISTED, rows, '<><<>>', width)}")
    return "\n".join(parts)


def by_night(series: Series, width: int) -> str:
    """Every point of a series, and below its night what was said of it."""
    exact = series.unit == EXACT
    counts = set(map(id, one_per_night(series.points)))
    heading = f"{series.id.metric} on {series.id.machine_key}, {series.unit}"
    better = "" if exact else f", {series.direction.value} is better"
    if not series.points:
        return f"{printable(heading)}{better}: no point\n"
    rows = [_exact_cells(p) if exact else _figure_cells(p) for p in series.points]
    align = "<<<" if exact else "<<>>>"
    table = render_table(_EXACT if exact else _FIGURES, rows, align, width).splitlines()
    said = _said(series)
    lines = [f"{printable(heading)}{better}", *table[:2]]
    for point, line in zip(series.points, table[2:], strict=True):
        while said and said[0][0] < point.night:
            lines += _wrapped(said.pop(0)[1], width)
        lines.append(line)
        lines += _wrapped(_about(point, id(point) in counts), width)
    for _, text in said:
        lines += _wrapped(text, width)
    return "\n".join(lines) + "\n"


def as_csv(series: Iterable[Series]) -> str:
    """Every point, one row each, as the history has it.

    `value`, `baseline_value` and `ratio` are a night's medians; the last four columns have what
    they are made of, separated by spaces.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in sorted(series, key=lambda one: one.id):
        for point in one.points:
            writer.writerow(_csv_row(one, point))
    return stream.getvalue()


def _ratio(point: Point) -> float | None:
    """The night's value where it is a ratio to the baseline."""
    return night_value(point.candidate, point.baseline) if point.baseline else None


def _row(series: Series) -> Sequence[str]:
    points = one_per_night(series.points)
    if not points:
        return (series.id.metric, "0", "", "", "", "")
    last = points[-1]
    figure = f"{_number(middle(last.candidate))} {series.unit}"
    shown = _result(last) if series.unit == EXACT else figure
    return (
        series.id.metric,
        str(len(points)),
        points[0].night,
        last.night,
        f"{shown}{'?' if last.unusable else ''}",
        _number(_ratio(last)),
    )


def _figure_cells(point: Point) -> Sequence[str]:
    figures = (middle(point.candidate), middle(point.baseline), _ratio(point))
    return (point.night, point.commit[:9], *map(_number, figures))


def _exact_cells(point: Point) -> Sequence[str]:
    return (point.night, point.commit[:9], _result(point))


def _result(point: Point) -> str:
    return {True: "passed", False: "failed", None: "unknown"}[point.passed]


def _about(point: Point, counts: bool) -> str:
    """Why a point does not count, or what failed."""
    parts = []
    if point.unusable:
        parts.append(f"unusable: {'; '.join(point.unusable)}")
    elif not counts:
        parts.append("does not count: a later run of this night does")
    if point.passed is False and point.detail:
        parts.append(point.detail)
    return "; ".join(parts)


def _said(series: Series) -> list[tuple[str, str]]:
    """Acceptances and events with the night after whose points they are shown."""
    said = [(accept.night, _accepted(accept)) for accept in series.accepts]
    said += [(event.night, _happened(event)) for event in series.events]
    return sorted(said, key=lambda one: one[0])


def _accepted(accept: Accept) -> str:
    return f"accepted from {accept.night} on by {accept.by} ({accept.at[:10]}): {accept.reason}"


def _happened(event: Event) -> str:
    return (
        f"{event.turn.value} since {event.since} ({event.since_commit[:9]}): {event.change:+.1%} "
        f"({event.low:+.1%} to {event.high:+.1%}), confirmed by {event.confirmed_by}"
    )


def _wrapped(text: str, width: int) -> list[str]:
    if not text:
        return []
    first, *others = wrap(printable(text), width - 6)
    return [f"    {first}", *(f"      {line}" for line in others)]


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:#.4g}".rstrip(".")


def _csv_row(series: Series, point: Point) -> dict[str, object]:
    return {
        **_fields(series.id, _ID),
        "unit": series.unit,
        "direction": series.direction.value,
        **_fields(point, (*_RUN, *_MORE)),
        "value": middle(point.candidate),
        "baseline_value": middle(point.baseline),
        "ratio": _ratio(point),
        "unusable": "; ".join(point.unusable),
        **{name: " ".join(map(repr, getattr(point, name))) for name in _MEDIANS},
    }


def _fields(of: SeriesId | Point, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(of, name) for name in names}
