"""What one night says of one metric, and a long history thinned to what a plot can show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from runci.nightly.decide.values import why_unusable
from runci.nightly.figures import LARGEST, middle, night_value
from runci.nightly.history.lines import Point
from runci.nightly.page.words import day

RECENT = 120  # points that are drawn one by one
OLD = 120  # at most that many groups before them


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing, or of what a drawing could not hold."""
    return _drawable(middle(values))


def _drawable(figure: float | None) -> float | None:
    return figure if figure is not None and abs(figure) < LARGEST else None


def why_not(point: Point) -> str:
    """Why a night does not count; empty where it does."""
    if point.passed is not None or point.unusable:
        return "; ".join(point.unusable)
    return why_unusable(point) or ""


def value(point: Point) -> float | None:
    """A night's value, where a drawing can hold it."""
    return _drawable(night_value(point.candidate, point.baseline))


@dataclass(frozen=True, slots=True)
class Group:
    """Several old nights as one: from day `first` to day `last`, usable values only."""

    first: int
    last: int
    middle: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Thinned:
    """`recent` points (with their days) one by one; before them `old` groups of `span` days."""

    recent: tuple[tuple[int, Point], ...]
    old: tuple[Group, ...] = ()
    span: int = 0


def thin(points: Sequence[Point]) -> Thinned:
    """The last 120 points as they are, older ones by weeks, or more weeks where they are many."""
    dated = [(d, p) for p in points if (d := day(p.night)) is not None]
    dated.sort(key=lambda pair: pair[0])
    recent, older = dated[-RECENT:], dated[:-RECENT]
    if not older:
        return Thinned(tuple(recent))
    end = older[-1][0]
    weeks = math.ceil((end - older[0][0] + 1) / (7 * OLD))
    span = 7 * weeks
    grouped: dict[int, list[tuple[int, float]]] = {}
    for ordinal, point in older:
        found = None if why_not(point) else value(point)
        if found is not None:
            grouped.setdefault((end - ordinal) // span, []).append((ordinal, found))
    old = [_group(grouped[index]) for index in sorted(grouped, reverse=True)]
    return Thinned(tuple(recent), tuple(old), span)


def _group(members: list[tuple[int, float]]) -> Group:
    values = sorted(v for _, v in members)
    middling = statistics.median(values)
    return Group(members[0][0], members[-1][0], middling, values[0], values[-1], len(values))
