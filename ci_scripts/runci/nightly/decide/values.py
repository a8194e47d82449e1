"""Points → the nights that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from runci.nightly.figures import are_figures, is_figure, middle, ratios
from runci.nightly.history.lines import Point, one_per_night

MIN_PAIRS = 3  # fewer say nothing of their own spread


@dataclass(frozen=True, slots=True)
class Value:
    """One usable night. `value` is the median of `pairs`, candidate over baseline.

    Without a baseline the pairs are the candidate's medians themselves. `again` are the pairs of
    the re-run, `own` and `base` the two arms' medians in the metric's unit, `pin` the baseline's
    commit, `driver` the first number of the driver's version.
    """

    night: str
    commit: str
    value: float
    pairs: tuple[float, ...]
    own: float
    again: tuple[float, ...] = ()
    base: float | None = None
    pin: str = ""
    driver: int = 0


@dataclass(frozen=True, slots=True)
class Nights:
    """Usable nights in order, and of the others why they are not."""

    usable: tuple[Value, ...]
    unusable: dict[str, str]


def read_nights(points: Iterable[Point], until: str, driver: int = 0) -> Nights:
    """The nights of a series up to `until`, a date, and including it."""
    usable, unusable = [], {}
    for point in one_per_night(points, until):
        reason = why_unusable(point)
        if reason is None:
            usable.append(_value(point, driver))
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


def _value(point: Point, driver: int) -> Value:
    pairs = ratios(point.candidate, point.baseline)
    return Value(
        night=point.night,
        commit=point.commit,
        value=median(pairs),
        pairs=pairs,
        own=median(point.candidate),
        again=_again(point),
        base=middle(point.baseline),
        pin=point.baseline_commit,
        driver=driver,
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
