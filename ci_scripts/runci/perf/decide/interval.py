"""The bootstrap interval of a change: the one call of scipy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

Interval = Callable[[Sequence[float], Sequence[float]], tuple[float, float]]

RESAMPLES = 1000
SEED = 0  # the same history always gives the same verdict
CONFIDENCE = 0.95


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
