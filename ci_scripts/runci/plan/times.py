"""How long test files take: measured times where there are any, else estimates; pure.

Times are whole milliseconds, so that sums do not depend on their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runci.core.marks import SIGN
from runci.core.result import FileResult, Key, Outcome

# Planned for a file without an estimate in a suite without a default.
DEFAULT_MS = 60_000
# Fewer runs than this say little of the spread: a quarter is added to the longest.
FEW = 3
# A suite's estimates are corrected by one factor where this many of its files were measured ...
FIT_FILES = 5
# ... and the factor, in thousandths, is within these bounds: beyond them it explains nothing.
FIT_RANGE = (100, 10_000)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times (ms) of one file's whole, green runs in one suite, ascending."""

    runs: tuple[int, ...]

    @property
    def median(self) -> int:
        """The middle run; the mean of two."""
        half = len(self.runs) // 2
        if len(self.runs) % 2:
            return self.runs[half]
        return (self.runs[half - 1] + self.runs[half]) // 2

    @property
    def variance(self) -> float:
        """Of the sample, in seconds squared; 0 for a single run."""
        count = len(self.runs)
        if count < 2:
            return 0.0
        squares = count * sum(run * run for run in self.runs) - sum(self.runs) ** 2
        return squares / (count * (count - 1)) / 1e6

    @property
    def p90(self) -> int:
        """The 90th percentile by nearest rank; for few runs a quarter more than the longest."""
        if len(self.runs) < FEW:
            return -(-self.runs[-1] * 5 // 4)
        return self.runs[-(-9 * len(self.runs) // 10) - 1]


@dataclass(frozen=True, slots=True)
class Times:
    """Timings by backend, suite, path and tool. `unusable` results had no time that can be used."""

    timings: Mapping[Key, Timing]
    unusable: int = 0

    def of(self, backend: str, suite: str, path: str, under: str = "") -> Timing | None:
        """The timing of a file in a suite, without a tool or under one."""
        return self.timings.get((backend, suite, path, under))


def measured(results: Iterable[FileResult]) -> Times:
    """Timings from results. Only whole files that passed count: others ended early.

    Of a file whose tests are in suites by their marks, those of a suite are the whole.
    """
    runs: dict[Key, list[int]] = {}
    unusable = 0
    for result in results:
        if result.outcome is not Outcome.PASSED or not result.tests:
            continue
        if result.selected or not all(part.startswith(SIGN) for part in result.only):
            continue
        # A clock that jumped gives what no run can take.
        if not math.isfinite(result.seconds) or result.seconds <= 0:
            unusable += 1
            continue
        runs.setdefault(result.key, []).append(max(1, round(result.seconds * 1000)))
    return Times({key: Timing(tuple(sorted(of))) for key, of in runs.items()}, unusable)


@dataclass(frozen=True, slots=True)
class Fit:
    """The factor (in thousandths) from a suite's estimates to its times, and what to say of it."""

    factor: int = 1000
    note: str | None = None


def fit(pairs: Iterable[tuple[int, int]]) -> Fit:
    """The median of measured / estimated over (estimate, measured) pairs of milliseconds.

    One factor has no slope that could turn negative and no intercept that could exceed a budget;
    where it is degenerate the estimates stand as they are.
    """
    ratios = sorted(1000 * time // estimate for estimate, time in pairs if estimate > 0)
    if len(ratios) < FIT_FILES:
        return Fit()
    factor = ratios[len(ratios) // 2]
    low, high = FIT_RANGE
    if not low <= factor <= high:
        shown = f"{factor / 1000:g} times"
        return Fit(note=f"measured times are {shown} the estimates: estimates are used as they are")
    share = f"{len(ratios)} measured files"
    return Fit(factor, f"estimates times {factor / 1000:g}, the median of {share}")


@dataclass(frozen=True, slots=True)
class Prediction:
    """Milliseconds, and where they come from: measured, estimate or default."""

    ms: int
    source: str


def predict(
    timing: Timing | None, estimate: float | None, default: float | None, factor: int
) -> Prediction:
    """What to plan for a file, in whole tenths of a second.

    Measured times first, at their 90th percentile; then the estimate (seconds) by the suite's
    factor (thousandths); then the suite's default (seconds).
    """
    if timing is not None:
        return Prediction(_tenths(timing.p90), "measured")
    if estimate is not None:
        return Prediction(_tenths(-(-milliseconds(estimate) * factor // 1000)), "estimate")
    return Prediction(_tenths(milliseconds(default) if default else DEFAULT_MS), "default")


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, at least 1."""
    return max(1, round(seconds * 1000))


def _tenths(ms: int) -> int:
    """Rounded up to a tenth of a second: finer than times repeat, and alike on all machines."""
    return -(-ms // 100) * 100
