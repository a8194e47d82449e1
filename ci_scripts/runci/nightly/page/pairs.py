"""Last night's distribution against the baseline, as plain data: one entry a repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runci.nightly.figures import LARGEST
from runci.nightly.history.lines import Point
from runci.nightly.page import words
from runci.nightly.page.nights import median
from runci.nightly.record import Measurement

RAW = 9  # samples of a repetition that are drawn one by one


@dataclass(frozen=True, slots=True)
class Repetition:
    """One process's samples: range, quartiles and median; `raw` holds them where they are few."""

    low: float
    first: float
    middle: float
    third: float
    high: float
    raw: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Pairs:
    """A night by pairs; those from `again` on are the re-run. The baseline may be empty.

    `raw`: from the samples of the record; else only the medians that the history keeps.
    """

    candidate: tuple[Repetition | None, ...]
    baseline: tuple[Repetition | None, ...]
    again: int
    unit: str
    raw: bool
    alt: str


def pairs(given: Measurement | Point, unit: str) -> Pairs | None:
    """The pairs of a record's measurement, or of a point of the history; None without figures."""
    candidate = tuple(map(_repetition, _side(given.candidate, given.again_candidate)))
    baseline = tuple(map(_repetition, _side(given.baseline, given.again_baseline)))
    if not any((*candidate, *baseline)):
        return None
    return Pairs(
        candidate,
        baseline,
        len(given.candidate),
        words.unit_name(unit),
        isinstance(given, Measurement),
        _alt(candidate, baseline, unit),
    )


def _side(
    first: Sequence[float | tuple[float, ...]], again: Sequence[float | tuple[float, ...]]
) -> list[tuple[float, ...]]:
    """Each repetition's samples; the history has one figure where a record has all of them."""
    return [(s,) if isinstance(s, float | int) else s for s in (*first, *again)]


def _repetition(samples: Sequence[float]) -> Repetition | None:
    ordered = sorted(samples)
    middle = median(ordered)
    if middle is None or max(-ordered[0], ordered[-1]) >= LARGEST:
        return None
    quarter = len(ordered) // 4
    shown = tuple(samples) if 1 < len(ordered) <= RAW else ()
    first, third = ordered[quarter], ordered[-1 - quarter]  # samples, none between two
    return Repetition(ordered[0], first, middle, third, ordered[-1], shown)


def _alt(
    candidate: Sequence[Repetition | None], baseline: Sequence[Repetition | None], unit: str
) -> str:
    parts = []
    for name, side in (("candidate", candidate), ("baseline", baseline)):
        if side:
            medians = ", ".join(words.number(r.middle if r else None) for r in side)
            parts.append(f"{name} {medians}")
    return f"Medians by repetition in {words.unit_name(unit)}: {'; '.join(parts)}."
