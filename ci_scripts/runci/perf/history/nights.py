"""Which point of a night counts, and in which order nights are; pure."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterable, Sequence

from runci.perf.lines import Point

_YEARS = (1970, 2999)


def one_per_night(points: Iterable[Point]) -> tuple[Point, ...]:
    """One point a night, by night: the last usable one, else the last.

    `points` are as `Series.points` has them: those of one night in the order of their appending.
    """
    chosen: dict[str, Point] = {}
    for point in points:
        before = chosen.get(point.night)
        if before is None or not point.unusable or before.unusable:
            chosen[point.night] = point
    return tuple(chosen[night] for night in sorted(chosen))


@functools.lru_cache(maxsize=8192)
def is_night(text: str) -> bool:
    """Whether this is a date as all lines have it: 2026-12-01.

    Of the years 1970 to 2999: a clock that was reset shows the first, and on dates near the last
    that Python knows nobody could count on.
    """
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return day.isoformat() == text and _YEARS[0] <= day.year <= _YEARS[1]


def odd_order(points: Sequence[Point]) -> str | None:
    """What is odd about the clock of the newest of these points, in the order of their appending.

    Only the newest: each night is told of its own, not of what was said before.
    """
    for before, point in itertools.pairwise(points[-2:]):
        if point.night < before.night:
            return f"the night {point.night} was appended after {before.night}"
        # To the second: what follows is a fraction or the zone, which is always UTC.
        if point.at[:19] < before.at[:19]:
            return f"the clock went backwards, from {before.at} to {point.at}"
    return None
