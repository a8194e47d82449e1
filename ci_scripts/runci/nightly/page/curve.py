"""The plots of a metric as plain data, and the same in words: its nights, and one night by pairs.

Positions on the x axis are days after the first night that is drawn singly; older nights lie
below 0, closer together where they are many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runci.nightly.decide.values import why_unusable
from runci.nightly.figures import LARGEST, middle, night_value
from runci.nightly.history.lines import Point, Series
from runci.nightly.page import words
from runci.nightly.record import EXACT, Measurement
from runci.nightly.verdict import Verdict

RECENT = 120  # points that are drawn one by one
OLD = 120  # at most that many groups before them
OLD_SHARE = 0.6  # of the width of the single nights: what the older ones may take at most
TICKS_APART = 0.12  # of the width: a date takes about a tenth
NAMED = 5  # commits written beside the newest nights
RAW = 9  # samples of a repetition that are drawn one by one
FAR = 2.5  # the line at 1 is left out where it would squeeze the curve by more than this


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


@dataclass(frozen=True, slots=True)
class Dot:
    """One night. `y` is None where there is no figure; `usable` says whether it counts."""

    x: float
    y: float | None
    usable: bool
    candidate: float | None = None
    baseline: float | None = None
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line: a segment between two changes."""

    first: float
    last: float
    y: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a night: `kind` is accepted or an event's turn, the newest of several."""

    x: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Old:
    """A group of old nights: the median at `x`, between the smallest and the largest value."""

    x: float
    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a day lies on the x axis."""

    start: int
    factor: float

    def __call__(self, ordinal: float) -> float:
        """The position of a day."""
        ahead = ordinal - self.start
        return ahead if ahead >= 0 else ahead * self.factor


@dataclass(frozen=True, slots=True)
class Curve:
    """The series plot. `one` is where the baseline lies, None without one or far outside.

    `band` is the accepted level with what it may change. `y` holds the limits of both axes' data.
    """

    dots: tuple[Dot, ...]
    old: tuple[Old, ...]
    levels: tuple[Level, ...]
    band: tuple[float, float, float] | None
    one: float | None
    marks: tuple[Mark, ...]
    named: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]
    x: tuple[float, float]
    y: tuple[float, float]
    label: str
    unit: str
    exact: bool
    span: int
    alt: str


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


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing, or of what a drawing could not hold."""
    return _drawable(middle(values))


def why_not(point: Point) -> str:
    """Why a night does not count; empty where it does."""
    if point.passed is not None or point.unusable:
        return "; ".join(point.unusable)
    return why_unusable(point) or ""


def value(point: Point) -> float | None:
    """A night's value, where a drawing can hold it."""
    return _drawable(night_value(point.candidate, point.baseline))


def thin(points: Sequence[Point]) -> Thinned:
    """The last 120 points as they are, older ones by weeks, or more weeks where they are many."""
    dated = [(d, p) for p in points if (d := words.day(p.night)) is not None]
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


def curve(verdict: Verdict, series: Series, min_change: float) -> Curve | None:
    """The plot of a series; None where no night can be drawn."""
    thinned = thin(series.points)
    if not thinned.recent:
        return None
    dots_at = _scale(thinned)
    dots = tuple(_dot(dots_at, day, point) for day, point in thinned.recent)
    last = thinned.recent[-1][0]
    exact = series.unit == EXACT
    compared = any(point.baseline for _, point in thinned.recent)
    levels = tuple(_levels(verdict, dots_at, last))
    band = None if exact else _band(verdict, min_change, series, dots_at)
    old = tuple(Old(dots_at((g.first + g.last) / 2), g.middle, g.low, g.high) for g in thinned.old)
    limits, one = _limits(dots, old, levels, band, compared and not exact)
    start = old[0].x if old else 0.0
    return Curve(
        dots=dots,
        old=old,
        levels=levels,
        band=band,
        one=one,
        marks=tuple(_marks(series, dots_at, start)),
        named=tuple((dots_at(d), words.short(p.commit)) for d, p in thinned.recent[-NAMED:]),
        ticks=_ticks(thinned, dots_at, last),
        x=(start, max(dots_at(last), start + 1.0)),
        y=limits,
        label="ratio to baseline" if compared else words.unit_name(series.unit),
        unit=words.unit_name(series.unit),
        exact=exact,
        span=thinned.span,
        alt=_alt(verdict, thinned, compared, exact),
    )


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
        _pairs_alt(candidate, baseline, unit),
    )


def room_around(low: float, high: float, share: float) -> float:
    """What an axis leaves free on either side of its data."""
    return (high - low) * share or abs(high) * 0.02 or 1.0


def _drawable(figure: float | None) -> float | None:
    return figure if figure is not None and abs(figure) < LARGEST else None


def _group(members: list[tuple[int, float]]) -> Group:
    values = sorted(v for _, v in members)
    middling = statistics.median(values)
    return Group(members[0][0], members[-1][0], middling, values[0], values[-1], len(values))


def _scale(thinned: Thinned) -> Scale:
    start = thinned.recent[0][0]
    if not thinned.old:
        return Scale(start, 1.0)
    width = max(thinned.recent[-1][0] - start, 1)
    return Scale(start, min(1.0, OLD_SHARE * width / (start - thinned.old[0].first)))


def _dot(at: Scale, day: int, point: Point) -> Dot:
    return Dot(
        at(day),
        value(point),
        not why_not(point),
        median(point.candidate),
        median(point.baseline),
        point.passed,
    )


def _levels(verdict: Verdict, at: Scale, last: int) -> Iterable[Level]:
    for segment in verdict.segments:
        first, end = words.day(segment.first), words.day(segment.last)
        if first is not None and end is not None and abs(segment.level) < LARGEST:
            yield Level(at(first), at(min(end, last)), segment.level)


def _band(
    verdict: Verdict, min_change: float, series: Series, at: Scale
) -> tuple[float, float, float] | None:
    """Where it begins (the last acceptance), and its limits."""
    if verdict.level is None or abs(verdict.level) >= LARGEST:
        return None
    since = words.day(series.accepts[-1].night) if series.accepts else None
    begin = at(since) if since is not None else float("-inf")
    return begin, verdict.level * (1 - min_change), verdict.level * (1 + min_change)


def _limits(
    dots: Sequence[Dot],
    old: Sequence[Old],
    levels: Sequence[Level],
    band: tuple[float, float, float] | None,
    compared: bool,
) -> tuple[tuple[float, float], float | None]:
    usable = [d.y for d in dots if d.y is not None and d.usable]
    seen = usable or [d.y for d in dots if d.y is not None]
    seen += [level.y for level in levels]
    seen += [y for group in old for y in (group.low, group.high)]
    seen += list(band[1:]) if band else []
    if not seen:
        return (0.0, 1.0), None
    low, high = min(seen), max(seen)
    one = None
    if compared:
        widened = max(high, 1.0) - min(low, 1.0)
        if widened <= FAR * max(high - low, 0.02 * abs(high)):
            low, high, one = min(low, 1.0), max(high, 1.0), 1.0
    room = room_around(low, high, 0.08)
    return (low - room, high + room), one


def _marks(series: Series, at: Scale, start: float) -> Iterable[Mark]:
    lines = [(event.at, event.since, event.turn.value) for event in series.events]
    lines += [(accept.at, accept.night, "accepted") for accept in series.accepts]
    by_day: dict[int, list[str]] = {}
    for _, night, kind in sorted(lines):
        day = words.day(night)
        if day is not None and at(day) >= start:
            by_day.setdefault(day, []).append(kind)
    for day, kinds in sorted(by_day.items()):
        yield Mark(at(day), kinds[-1], ", ".join(dict.fromkeys(kinds)))


def _ticks(thinned: Thinned, at: Scale, last: int) -> tuple[tuple[float, str], ...]:
    """A handful of dates, newest first chosen, none so near to another that they would touch."""
    first = thinned.recent[0][0]
    oldest = thinned.old[0].first if thinned.old else first
    days = [last, first, oldest, first + (last - first) // 2, oldest + (first - oldest) // 2]
    days += [first + (last - first) * part // 4 for part in (1, 3)]
    apart = (at(last) - at(oldest)) * TICKS_APART
    kept: list[int] = []
    for day in days:
        if all(abs(at(day) - at(other)) >= apart for other in kept if other != day):
            kept.append(day)
    return tuple((at(d), words.date(d)) for d in sorted(set(kept)))


def _alt(verdict: Verdict, thinned: Thinned, compared: bool, exact: bool) -> str:
    usable = [p for _, p in thinned.recent if not why_not(p)]
    nights = f"{len(thinned.recent)} nights until {thinned.recent[-1][1].night}"
    if exact:
        passed = sum(p.passed is True for p in usable)
        return f"{nights}: {passed} passed, {len(usable) - passed} failed."
    values = [v for p in usable if (v := value(p)) is not None]
    if not values:
        return f"{nights}, none of them usable."
    show = words.ratio if compared else words.number
    what = "ratio to the baseline" if compared else f"value in {words.unit_name(verdict.unit)}"
    return (
        f"{nights}, {len(usable)} of them usable: {what} from {show(min(values))} to "
        f"{show(max(values))}, last {show(values[-1])}."
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


def _pairs_alt(
    candidate: Sequence[Repetition | None], baseline: Sequence[Repetition | None], unit: str
) -> str:
    parts = []
    for name, side in (("candidate", candidate), ("baseline", baseline)):
        if side:
            medians = ", ".join(words.number(r.middle if r else None) for r in side)
            parts.append(f"{name} {medians}")
    return f"Medians by repetition in {words.unit_name(unit)}: {'; '.join(parts)}."
