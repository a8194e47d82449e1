"""Points → the nights that can be compared; and the only calls of Otava and scipy on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from runci.config.perf import Rule
from runci.nightly.figures import are_figures, is_figure, middle, ratios, spread
from runci.nightly.history.lines import Point, one_per_night

MIN_PAIRS = 3  # fewer say nothing of their own spread
RESAMPLES = 1000
SEED = 0  # the same history always gives the same verdict
CONFIDENCE = 0.95
Interval = Callable[[Sequence[float], Sequence[float]], tuple[float, float]]
ChangePoints = Callable[[Sequence[float]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Value:
    """One usable night. `value` is the median of `pairs`, candidate over baseline.

    Without a baseline the pairs are the candidate's medians themselves. `again` are the pairs of
    the re-run, `base` the baseline's own median in the metric's unit, `pin` its commit.
    """

    night: str
    commit: str
    value: float
    pairs: tuple[float, ...]
    again: tuple[float, ...] = ()
    base: float | None = None
    pin: str = ""

    @property
    def spread(self) -> float:
        """The distance between the quartiles of the pairs, relative to their median."""
        return spread(self.pairs)


@dataclass(frozen=True, slots=True)
class Nights:
    """Usable nights in order, and of the others why they are not."""

    usable: tuple[Value, ...]
    unusable: dict[str, str]


def read_nights(points: Iterable[Point], until: str) -> Nights:
    """The nights of a series up to `until`, a date, and including it."""
    usable, unusable = [], {}
    for point in one_per_night(points, until):
        reason = why_unusable(point)
        if reason is None:
            usable.append(_value(point))
        else:
            unusable[point.night] = reason
    return Nights(tuple(usable), unusable)


def why_unusable(point: Point) -> str | None:
    """Why a point's figures cannot be compared; None where they can."""
    if point.unusable:
        return "; ".join(point.unusable)
    if not point.candidate:
        return "no samples"
    figures = (*point.candidate, *point.baseline)
    if not are_figures(figures):
        odd = next(figure for figure in figures if not is_figure(figure))
        return f"a sample is {odd:g}, which is no measurement"
    if point.baseline and len(point.baseline) != len(point.candidate):
        sizes = f"{len(point.candidate)} of the candidate, {len(point.baseline)} of the baseline"
        return f"runs that are no pairs: {sizes}"
    if point.baseline_commit and not point.baseline:
        return "no samples of the baseline"
    if len(point.candidate) < MIN_PAIRS:
        return f"{len(point.candidate)} of at least {MIN_PAIRS} repetitions"
    return None


def bootstrap_interval() -> Interval:
    """A function from new and old figures to the 95 % interval of median(new) / median(old).

    Both are resampled, so that a level known from few nights makes the interval wider; `old` of one
    figure is taken as exact. Imports numpy and scipy.
    """
    import numpy as np
    from scipy.stats import bootstrap

    def ratio(new: Any, old: Any, axis: int = -1) -> Any:
        return np.median(new, axis=axis) / np.median(old, axis=axis)

    def interval(new: Sequence[float], old: Sequence[float]) -> tuple[float, float]:
        samples = [
            [float(f) for f in figures] * (1 + (len(figures) == 1)) for figures in (new, old)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # figures that are all alike
            found = bootstrap(
                samples,
                ratio,
                n_resamples=RESAMPLES,
                confidence_level=CONFIDENCE,
                method="percentile",
                vectorized=True,
                random_state=SEED,
            ).confidence_interval
        return float(found.low), float(found.high)

    return interval


def otava(rule: Rule) -> ChangePoints:
    """A function from values to the indices at which a new level begins, in order.

    The values are finite and above 0: one NaN silences Otava without a word. Imports Otava, which
    lives in the environment of the extra `perf`.
    """
    from otava.analysis import compute_change_points

    def change_points(values: Sequence[float]) -> tuple[int, ...]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two levels without any noise divide by zero
            found, _ = compute_change_points(
                [float(value) for value in values],  # it takes no arrays
                window_len=rule.window,
                max_pvalue=rule.max_pvalue,
                min_magnitude=rule.min_change,
            )
        # The second list is the same object here: candidates that were merged away are in neither.
        return tuple(sorted(int(point.index) for point in found))

    return change_points


def _value(point: Point) -> Value:
    pairs = ratios(point.candidate, point.baseline)
    return Value(
        point.night,
        point.commit,
        median(pairs),
        pairs,
        _again(point),
        middle(point.baseline),
        point.baseline_commit,
    )


def _again(point: Point) -> tuple[float, ...]:
    """The re-run's pairs; none where it was made in another way, or is no measurement."""
    figures = (*point.again_candidate, *point.again_baseline)
    if not figures:
        return ()
    paired = len(point.again_baseline) == (len(point.again_candidate) if point.baseline else 0)
    if not are_figures(figures) or not paired or len(point.again_candidate) < MIN_PAIRS:
        return ()
    return ratios(point.again_candidate, point.again_baseline)
