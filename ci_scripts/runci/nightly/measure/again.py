"""Whether a night looks changed, so that it is measured again at once; pure.

This is no verdict: it decides only whether the doubt is worth as many minutes again.
"""

from __future__ import annotations

import statistics

from runci.nightly.figures import medians, night_value
from runci.nightly.history.lines import History, Series
from runci.nightly.record import Record

MOST = 20  # points that make a level
LEAST = 3  # fewer are none


def level(series: Series, baseline_commit: str | None) -> float | None:
    """The median of its last points since its last turn, against the same baseline; None: none."""
    turns = [one.since for one in series.events] + [one.night for one in series.accepts]
    since = max(turns, default="")
    found = [
        figure
        for point in series.points
        if point.night >= since
        and not point.unusable
        and (point.baseline_commit if point.baseline else None) == baseline_commit
        and (figure := night_value(point.candidate, point.baseline)) is not None
    ][-MOST:]
    return statistics.median(found) if len(found) >= LEAST else None


def left_level(record: Record, history: History, min_change: float) -> tuple[str, ...]:
    """What left its level by `min_change` (relative) or more, each as a sentence."""
    found = []
    for one in record.measurements:
        series = history.series.get(record.series_id(one.metric))
        baseline = record.baseline_commit if one.baseline else None
        known = level(series, baseline) if series is not None else None
        figure = night_value(medians(one.candidate), medians(one.baseline))
        if known and figure is not None and abs(figure / known - 1) >= min_change:
            found.append(f"{one.metric}: {figure / known - 1:+.1%} from its level")
    return tuple(found)
