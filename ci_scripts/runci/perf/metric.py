"""What is measured: metrics, their directions, and the machine that a series belongs to."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

SCHEMA = 1  # of every file that these stages hand on
EXACT = "exact"  # the unit of a metric that passes or fails
SMALLEST, LARGEST = 1e-30, 1e30  # of a figure: sums, ratios and squares of such stay finite


class Direction(str, enum.Enum):
    """Which way is better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, order=True)
class SeriesId:
    """One series of nights: a metric on one kind of machine, by one version of a benchmark.

    `driver_major` is the first number of the driver's version, such as 580.
    """

    metric: str
    benchmark: str
    version: str
    gpu: str
    driver_major: int

    @property
    def machine_key(self) -> str:
        """The part that is not the metric: `NVIDIA GeForce RTX 5090/580/sm120_ba_gemm/1`."""
        return f"{self.gpu}/{self.driver_major}/{self.benchmark}/{self.version}"

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for this series: in marks of issues, page anchors."""
        exact = [self.metric, self.benchmark, self.version, self.gpu, self.driver_major]
        return hashlib.sha256(json.dumps(exact).encode()).hexdigest()[:16]


def worse_by(ratio: float, direction: Direction) -> float:
    """How much worse `ratio` (new over old, above 0) is: 0.05 is 5 % more time, or 5 % less speed.

    Negative where it is better.
    """
    return ratio - 1.0 if direction is Direction.LOWER else 1.0 - ratio


def is_figure(value: float) -> bool:
    """Whether a time, rate or size can be this; NaN never."""
    return SMALLEST <= value <= LARGEST


def are_figures(values: Sequence[float]) -> bool:
    """Whether all of them, one or more, are figures: a history has millions."""
    return min(values) >= SMALLEST and max(values) <= LARGEST and not math.isnan(sum(values))


def anchor(series: SeriesId) -> str:
    """The id of the series' section on the page, for links to it."""
    return f"metric-{series.digest}"


def slug(text: str) -> str:
    """A file name's part: lower-case letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-.") or "x"
