"""The history as CSV; pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from statistics import median

from runci.perf.history.show import ratio, value
from runci.perf.lines import Point, Series
from runci.perf.metric import SeriesId

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
            writer.writerow(_row(one, point))
    return stream.getvalue()


def _row(series: Series, point: Point) -> dict[str, object]:
    return {
        **_fields(series.id, _ID),
        "unit": series.unit,
        "direction": series.direction.value,
        **_fields(point, (*_RUN, *_MORE)),
        "value": value(point),
        "baseline_value": median(point.baseline) if point.baseline else None,
        "ratio": ratio(point),
        "unusable": "; ".join(point.unusable),
        **{name: " ".join(map(repr, getattr(point, name))) for name in _MEDIANS},
    }


def _fields(of: SeriesId | Point, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(of, name) for name in names}
