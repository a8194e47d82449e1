"""A night's figures: medians, ratios and spread of each metric; pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from runci.perf.measure.again import value
from runci.perf.record import Measurement, Summary


def summarize(measurements: Iterable[Measurement]) -> tuple[Summary, ...]:
    """One summary a metric, in their order."""
    by_name = {one.metric: one for one in measurements}
    return tuple(_summary(one, by_name.get(one.reference or "")) for one in by_name.values())


def _summary(one: Measurement, reference: Measurement | None) -> Summary:
    ours = _median(one.candidate)
    against = _median(reference.candidate) if reference is not None else None
    return Summary(
        one.metric,
        one.unit,
        candidate=ours,
        baseline=_median(one.baseline),
        ratio=value(one.candidate, one.baseline) if one.baseline else None,
        to_reference=ours / against if ours is not None and against else None,
        spread=spread(one),
    )


def spread(one: Measurement) -> float | None:
    """The distance between the quartiles of a night's pairs, over their median; None for one.

    Of the candidate's repetitions where there is no baseline.
    """
    figures = [
        figure
        for number, values in enumerate(one.candidate)
        if (figure := value([values], one.baseline[number : number + 1])) is not None
    ]
    if len(figures) < 2:
        return None
    low, middle, high = statistics.quantiles(figures, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else None


def _median(runs: Sequence[Sequence[float]]) -> float | None:
    return value(runs, ())
