"""Figures of a night: what can be one, and what is computed of several; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

SMALLEST, LARGEST = 1e-30, 1e30  # of a figure: sums, ratios and squares of such stay finite


def is_figure(value: float) -> bool:
    """Whether a time, rate or size can be this; NaN never."""
    return SMALLEST <= value <= LARGEST


def are_figures(values: Sequence[float]) -> bool:
    """Whether all of them, one or more, are figures: a history has millions."""
    return min(values) >= SMALLEST and max(values) <= LARGEST and not math.isnan(sum(values))


def medians(repetitions: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """The median of each repetition that has values."""
    return tuple(median(values) for values in repetitions if values)


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return median(values) if values else None


def ratios(candidate: Sequence[float], baseline: Sequence[float]) -> tuple[float, ...]:
    """Each pair's ratio; the candidate's own figures without a baseline; none of what is no pairs.

    Both are medians by repetition, pair by pair.
    """
    if not baseline:
        return tuple(candidate)
    if len(candidate) != len(baseline) or not are_figures(baseline):
        return ()
    return tuple(c / b for c, b in zip(candidate, baseline, strict=True))


def night_value(candidate: Sequence[float], baseline: Sequence[float]) -> float | None:
    """What a night says of a metric: the median of its `ratios`; None without any."""
    return middle(ratios(candidate, baseline))


def quartiles(figures: Sequence[float]) -> tuple[float, float]:
    """The first and the third, interpolated linearly."""
    ordered = sorted(figures)
    return _quantile(ordered, 0.25), _quantile(ordered, 0.75)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(figures: Sequence[float]) -> float:
    """The distance between the quartiles, relative to the median."""
    first, third = quartiles(figures)
    return (third - first) / median(figures)
