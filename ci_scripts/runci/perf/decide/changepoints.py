"""Otava's change points: the one call of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from runci.perf.config import Rule

ChangePoints = Callable[[Sequence[float]], tuple[int, ...]]


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
