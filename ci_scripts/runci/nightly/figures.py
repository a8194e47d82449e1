"""Figures of a night: what can be one, and what is computed of several; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

SMALLEST, LARGEST = 1e-30, 1e30  # of a figure above 0: sums, ratios and squares stay finite
NONE = 1e-3  # what zero is taken for as a ratio, so that a level of zero can be left again
_TIMES = frozenset({"ns", "us", "µs", "μs", "ms", "s", "sec", "seconds", "min", "h"})


def is_figure(value: float) -> bool:
    """Whether a time, rate, size or count can be this; NaN never."""
    return value == 0 or SMALLEST <= value <= LARGEST


def are_figures(values: Sequence[float]) -> bool:
    """Whether all of them, one or more, are figures: a history has millions."""
    if min(values) < SMALLEST:
        return all(map(is_figure, values))
    return max(values) <= LARGEST and not math.isnan(sum(values))


def may_be_zero(unit: str) -> bool:
    """Whether zero is a value in this unit: of counts and sizes, but of no time and no rate."""
    return unit.lower() not in _TIMES and "/" not in unit


def ratio(new: float, old: float) -> float:
    """`new` over `old`, always above 0 and finite: more of `new` is never less.

    Nothing beside nothing is 1; `n` more than nothing is `1 + n`.
    """
    if not old:
        return 1.0 + new
    return new / old if new else min(NONE, 0.5 / old)


def medians(repetitions: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """The median of each repetition that has values."""
    return tuple(median(values) for values in repetitions if values)


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return median(values) if values else None


def ratios(candidate: Sequence[float], baseline: Sequence[float]) -> tuple[float, ...]:
    """Each pair's `ratio`; the candidate's own figures without a baseline, zero as `NONE`.

    None where they are no pairs.

    Both are medians by repetition, pair by pair.
    """
    if not baseline:
        return tuple(figure or NONE for figure in candidate)
    if len(candidate) != len(baseline) or not are_figures(baseline):
        return ()
    return tuple(ratio(c, b) for c, b in zip(candidate, baseline, strict=True))


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
