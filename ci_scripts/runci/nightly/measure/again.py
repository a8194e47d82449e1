"""Whether a night looks changed, so that it is measured again at once; pure.

This is no verdict: it decides only whether the doubt is worth as many minutes again.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from runci.nightly.history.lines import History, Point, Series
from runci.nightly.record import Measurement, Record

MOST = 20  # points that make a level
LEAST = 3  # fewer are none


def value(
    candidate: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]]
) -> float | None:
    """One night of a metric: the median over its pairs of candidate / baseline, by their medians.

    Without a baseline the median of the candidate's medians. None where there are no figures.
    """
    ours = [statistics.median(values) for values in candidate if values]
    if not baseline:
        return statistics.median(ours) if ours else None
    theirs = [statistics.median(values) for values in baseline if values]
    if not ours or len(ours) != len(theirs) or min(theirs) <= 0:
        return None
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))


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
        and (figure := _of_point(point)) is not None
    ][-MOST:]
    return statistics.median(found) if len(found) >= LEAST else None


def left_level(record: Record, history: History, min_change: float) -> tuple[str, ...]:
    """What left its level by `min_change` (relative) or more, each as a sentence."""
    found = []
    for one in record.measurements:
        series = history.series.get(record.series_id(one.metric))
        baseline = record.baseline_commit if one.baseline else None
        known = level(series, baseline) if series is not None else None
        figure = _of_measurement(one)
        if known and figure is not None and abs(figure / known - 1) >= min_change:
            found.append(f"{one.metric}: {figure / known - 1:+.1%} from its level")
    return tuple(found)


def _of_measurement(one: Measurement) -> float | None:
    return value(one.candidate, one.baseline)


def _of_point(point: Point) -> float | None:
    """A point has the median of each repetition."""
    return value([[v] for v in point.candidate], [[v] for v in point.baseline])
