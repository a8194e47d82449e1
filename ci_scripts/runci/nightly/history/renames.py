"""Metrics that got another name keep their history (`renames` of perf.yml); pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from runci.core.errors import RunciError
from runci.nightly.history.lines import Series
from runci.nightly.record import SeriesId


def newest_names(renames: Mapping[str, str]) -> Mapping[str, str]:
    """Each old name with the name that it has today. Raises RunciError for a circle."""
    newest: dict[str, str] = {}
    for old in renames:
        chain = {old: None}  # in order
        name = renames[old]
        while name in renames and name not in newest:
            if name in chain:
                names = list(chain)
                circle = " → ".join(map(repr, [*names[names.index(name) :], name]))
                raise RunciError(f"renames in perf.yml go in a circle: {circle}: remove one")
            chain[name] = None
            name = renames[name]
        newest |= dict.fromkeys(chain, newest.get(name, name))
    return newest


def rename(
    found: Iterable[Series], renames: Mapping[str, str]
) -> tuple[Mapping[SeriesId, Series], tuple[str, ...]]:
    """The series under the names of today, by night, and what is odd about that.

    Raises RunciError for a circle, and where a name joins series of another unit or direction.
    """
    newest = newest_names(renames)
    parts: dict[SeriesId, list[Series]] = {}
    for series in found:
        today = newest.get(series.id.metric, series.id.metric)
        parts.setdefault(replace(series.id, metric=today), []).append(series)
    joined, messages = {}, []
    for series_id, those in parts.items():
        those.sort(key=lambda one: _age(one.id.metric, renames))
        joined[series_id], said = _join(series_id, those)
        messages += said
    return joined, tuple(messages)


def _age(name: str, renames: Mapping[str, str]) -> tuple[int, str]:
    """Sorts the oldest name first: the most renames lie between it and today's."""
    steps = 0
    while name in renames:
        name = renames[name]
        steps -= 1
    return steps, name


def _join(series_id: SeriesId, parts: list[Series]) -> tuple[Series, list[str]]:
    newest = parts[-1]
    messages = []
    points = list(newest.points)
    for older in reversed(parts[:-1]):
        if (older.unit, older.direction) != (newest.unit, newest.direction):
            raise RunciError(
                f"perf.yml renames {older.id.metric!r} ({older.unit}, {older.direction.value}) to "
                f"{series_id.metric!r} ({newest.unit}, {newest.direction.value}), on "
                f"{series_id.machine_key}: a name cannot join these: remove the rename"
            )
        known = {point.night for point in points}
        both = sorted({point.night for point in older.points} & known)
        if both:
            messages.append(
                f"{older.id.metric!r} was renamed to {series_id.metric!r}, but both have points of "
                f"{both[0]}{f' and {len(both) - 1} later nights' if len(both) > 1 else ''}: the "
                "newer name's count; where both are still measured, remove the rename in perf.yml"
            )
        points = [point for point in older.points if point.night not in known] + points
    joined = Series(
        series_id,
        newest.unit,
        newest.direction,
        # Stable: those of one night stay as they were appended.
        tuple(sorted(points, key=lambda point: point.night)),
        tuple(accept for part in parts for accept in part.accepts),
        tuple(event for part in parts for event in part.events),
    )
    return joined, messages
