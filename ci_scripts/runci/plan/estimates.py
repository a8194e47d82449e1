"""Estimates against measured times: what drifted, and the edits that put it right; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from runci.core.source import Edit, Span, apply_edits, at
from runci.plan.times import Times, Timing
from runci.read.decode import decode
from runci.read.parse import parse
from runci.read.registrations import registration
from runci.read.testfile import TestFile

# An estimate drifts where it is off by more than this share and by more than these seconds.
TOLERANCE = 25
SECONDS = 2.0
# Runs that an estimate is rewritten from.
RUNS = 3


@dataclass(frozen=True, slots=True)
class Drift:
    """An estimate that does not hold. `old` is None where the literal is no usable number.

    `span` covers the literal; `new` is the 90th percentile, rounded up to two digits.
    """

    path: str
    span: Span
    suite: str
    old: float | None
    new: int
    timing: Timing


@dataclass(frozen=True, slots=True)
class Compared:
    """Drifts by path and line; how many estimates hold; how many were measured too seldom."""

    drifts: tuple[Drift, ...]
    right: int
    unmeasured: int
    seldom: int


def compare(
    files: Iterable[TestFile], times: Times, tolerance: int = TOLERANCE, runs: int = RUNS
) -> Compared:
    """Compare each enabled registration's estimate with its measured times."""
    drifts: list[Drift] = []
    right = unmeasured = seldom = 0
    for file in files:
        for call in file.calls:
            item, argument = registration(call), call.argument("est_time")
            if item is None or argument is None or not item.enabled:
                continue
            timing = times.of(item.backend.value, item.effective_suite, file.path)
            if timing is None:
                unmeasured += 1
            elif len(timing.runs) < runs:
                seldom += 1
            elif _holds(item.est_time, timing.p90, tolerance):
                right += 1
            else:
                suite = f"{item.backend.value} {item.effective_suite}"
                new = rounded(timing.p90)
                drifts.append(
                    Drift(file.path, argument.value_span, suite, item.est_time, new, timing)
                )
    drifts.sort(key=lambda drift: (drift.path, drift.span))
    return Compared(tuple(drifts), right, unmeasured, seldom)


def _holds(estimate: float | None, ms: int, tolerance: int) -> bool:
    if estimate is None:
        return False
    off = abs(estimate - ms / 1000)
    return off <= SECONDS or off <= estimate * tolerance / 100


def rounded(ms: int) -> int:
    """Whole seconds, rounded up to two significant digits: what a person would write."""
    seconds = max(1, -(-ms // 1000))
    unit = int(10 ** max(0, len(str(seconds)) - 2))
    return -(-seconds // unit) * unit


def rewrite(path: str, data: bytes, drifts: Iterable[Drift]) -> bytes | str:
    """The file with new literals, all else as it was; or why that cannot be done."""
    decoded = decode(data)
    if decoded.text is None:
        return f"{path}: cannot be read"
    new = {drift.span: drift.new for drift in drifts}
    text = apply_edits(decoded.text, [Edit(span, str(value)) for span, value in new.items()])
    after = decoded.encode(text)
    if _estimates(path, after, {}) != _estimates(path, data, new):
        return f"{path}: not what was measured any more: left as it is"
    return after


def _estimates(path: str, data: bytes, new: Mapping[Span, int]) -> list[object]:
    """The registrations without their places, with these new estimates; and the ones left over."""
    found: list[object] = []
    left = dict(new)
    for call in parse(path, data).calls:
        item, argument = registration(call), call.argument("est_time")
        if item is not None and argument is not None:
            seconds = left.pop(argument.value_span, item.est_time)
            found.append(replace(item, est_time=seconds, span=at(1)))
    return [*found, *left.items()]
