"""The rule: a series as figures in, the lasting shifts of its level out; pure, and of no unit.

A figure is the logarithm of a night's value, above 0 worse. How far k nights in a row are from the
level is what at least two thirds of them reach, so that one good night hides no step and one bad
night makes none. They are at another level where that is, for any k from 2 to `lasting`,

- at least `min_change`: worse than the better of the accepted level and the nights before, or
  better than the accepted level;
- 1 + `margin` / k times as far as k nights ever were in the `memory` before and came back; and
- with a probability below `chance` as far by accident, by how many single nights were, or by a
  normal distribution of their noise, whichever makes it likelier.

The first says what matters, the second what this machine does by itself (two modes, weekly swings,
drifts), the third what noise does. All that a series shows and leaves again makes it less sensitive
at that length. What goes on does not, nor a shift that lasts, since what follows is compared with
its own level.

Where fewer than `min_points` nights are before it nobody knows what this machine does: only as many
in a row tell, each of them at least `min_change` off. Modes are rarely more than twice that apart:
what is farther off takes fewer in proportion, and three at least, where none before was half as far
and came back.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from runci.config.perf import Rule
from runci.nightly.history.lines import Turn

LEAST = 2  # nights that tell of a step: one is never enough
_NORMAL = math.sqrt(math.pi / 2)  # a normal distribution's sigma over its mean absolute deviation
Doubt = Callable[[int, int, float], bool]
Past = Sequence[Sequence[float | None]]  # [k][n]: how far the k nights up to n were


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level: begun on the night with index `since`, known on that with index `told`.

    `before` is the level before it and `level` the accepted one from now on, as figures.
    """

    turn: Turn
    since: int
    told: int
    before: float
    level: float


@dataclass(frozen=True, slots=True)
class Segment:
    """Nights at one level from `start` on, told by `run` of them; since `since` without a visit.

    Without a `level` its first nights make it.
    """

    start: int
    level: float | None = None
    since: int = 0
    run: int = LEAST


@dataclass(frozen=True, slots=True)
class Walked:
    """What is known after the last night. `segments`: the accepted one, then each open step.

    `shifts` are those that were not on record and still hold. `level` is what a step is measured
    from: the better of the accepted level and the nights before; None while none is known. `sigma`
    is the noise from night to night and `visible` the smallest step that half of `lasting` nights
    would tell; None where too few nights are known.
    """

    segments: tuple[Segment, ...]
    shifts: tuple[Shift, ...]
    accepted: float | None
    level: float | None
    sigma: float | None
    visible: float | None


def _by_chance(k: int, share: float) -> float:
    """How likely two thirds of k nights or more are what one of them is with this `share`."""
    least = k - (k - 1) // 3
    return sum(math.comb(k, n) * share**n * (1 - share) ** (k - n) for n in range(least, k + 1))


def walk(
    figures: Sequence[float],
    rule: Rule,
    level: float | None = None,
    recorded: Mapping[int, Sequence[Shift]] | None = None,
    doubtful: Doubt | None = None,
) -> Walked:
    """Night by night, each with what was known then. `figures` has one or more.

    `level` is the accepted one where it is known before the first night. `recorded` shifts, by the
    index of the night that told them, are taken as they are; up to the last of them nothing else is
    told. `doubtful(first, last, size)` says that these nights' departure may not be the candidate's
    own: then only `lasting` of them tell, all of them, against the accepted level.
    """
    state = _Walk(figures, rule, doubtful or (lambda *_: False), [Segment(0, level)])
    given = recorded or {}
    last = max(given, default=-1)
    for night in range(len(figures)):
        state.measure(night)
        for shift in given.get(night, ()):
            state.apply(shift)
            state.known = shift.turn is Turn.REGRESSION
        if night not in given:
            state.decide(night, on_record=night < last)
    return state.result()


@dataclass(slots=True)
class _Walk:
    """The state of one walk; `worse[k][n]` is how far the k nights up to n were, None for none.

    `known`: the regression that is open is on record. `asked`: what `levels` found, by the
    segment's start and level, how many of its nights are over, and how many are in doubt.
    """

    figures: Sequence[float]
    rule: Rule
    doubtful: Doubt
    segments: list[Segment]
    worse: list[list[float | None]] = field(init=False)
    better: list[list[float | None]] = field(init=False)
    rest: list[float | None] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    visits: list[tuple[int, int]] = field(default_factory=list)
    doubted: set[int] = field(default_factory=set)
    asked: dict[tuple[int, float | None, int, int], tuple[float, float]] = field(
        default_factory=dict
    )
    known: bool = False

    def __post_init__(self) -> None:
        count = len(self.figures)
        self.worse = [[None] * count for _ in range(self.rule.lasting + 1)]
        self.better = [[None] * count for _ in range(self.rule.lasting + 1)]
        self.rest = [None] * count

    def measure(self, night: int, *, visit: bool = False) -> None:
        """How far the last k nights are, for each k. Those of a `visit` from its level alone."""
        top = self.segments[-1]
        first = top.start if visit else max(top.start, top.since)
        ordered: list[float] = []
        for k in range(1, min(self.rule.lasting, night - first + 1) + 1):
            insort(ordered, self.figures[night - k + 1])
            level, near = self.levels(top, night - k + 1 - top.start, k)
            if level is None:
                continue
            low = level if visit else min(level, near)
            odd = (k - 1) // 3
            self.worse[k][night] = ordered[odd] - low
            self.better[k][night] = level - ordered[k - 1 - odd]
            if k == 1 and not visit:
                self.rest[night] = ordered[0] - near

    def levels(self, segment: Segment, before: int, k: int) -> tuple[float | None, float]:
        """The segment's level, and that of its last nights, when `before` of its nights are over.

        None where they are too few to be compared with k nights. A gain in doubt is none to lose.
        """
        if segment.level is None and before < min(k, self.rule.min_points):
            return None, 0.0
        # Each length of each night asks, and those of the next night ask the same again.
        asked = (segment.start, segment.level, before, len(self.doubted))
        known = self.asked.get(asked)
        if known is None:
            known = self.asked[asked] = self._medians(segment, segment.start + before)
        return known

    def _medians(self, segment: Segment, end: int) -> tuple[float, float]:
        """The level and that of the last nights, of those before `end`."""
        least = self.rule.min_points
        level = segment.level
        if level is None:
            level = median(self.figures[segment.start : min(end, segment.start + least)])
        first = max(end - self.rule.lasting, segment.start)
        near = self.figures[first:end]
        if self.doubted:  # mostly there are none
            near = [self.figures[n] for n in range(first, end) if n not in self.doubted]
        return level, median(near) if len(near) >= least else level

    def sigma(self, until: int) -> float | None:
        """The noise from night to night, of the nights before `until`."""
        seen = [r for r in self.rest[max(until - self.rule.memory, 0) : until] if r is not None]
        if len(seen) < self.rule.min_points:
            return None
        return _NORMAL * fmean(map(abs, seen))

    def tells(self, past: Past, k: int, night: int, off: float, until: int | None = None) -> bool:
        """Whether k nights that are so far `off` are at another level, by those before `until`."""
        rule = self.rule
        first = max(night - rule.memory + 1, 0)
        until = night - k + 1 if until is None else max(until, first)
        nights = [d for d in past[1][first:until] if d is not None]
        if len(nights) < rule.min_points:
            row = [d or 0.0 for d in past[1][first : night + 1]]
            return any(
                n >= self.at_first(min(row[-n:]), max(row[:-n], default=0.0))
                for n in range(LEAST + 1, k + 1)
            )
        seen = nights
        for length in range(k, 1, -1):
            longer = [d for d in past[length][first:until] if d is not None]
            if len(longer) >= rule.min_points:
                seen = longer
                break
        if off < max(rule.min_change, (1 + rule.margin / k) * max(seen)):
            return False
        sigma = self.sigma(until)
        share = sum(d >= off for d in nights) / len(nights)
        normal = math.erfc(off / sigma / math.sqrt(2)) / 2 if sigma else 0.0
        return _by_chance(k, max(share, normal)) < rule.chance

    def at_first(self, off: float, before: float) -> float:
        """How many nights in a row, each at least so far `off`, tell while little is known.

        `before` is how far one was that came back: half as far, and it may be a mode of many.
        """
        rule = self.rule
        if off < rule.min_change:
            return math.inf
        least = min(rule.min_points, rule.lasting)
        return least if before >= off / 2 else least * min(1.0, LEAST * rule.min_change / off)

    @staticmethod
    def departed(nights: Sequence[float | None], until: int, off: float) -> int:
        """The first of the nights before `until` that are half as far: two nights end them."""
        begun, away = until, 0
        for n in range(until - 1, -1, -1):
            distance = nights[n]
            away = away + 1 if distance is None or distance < off / 2 else 0
            if away >= LEAST:
                break
            if not away:
                begun = n
        return begun

    def visible(self, night: int) -> float | None:
        """The smallest step that half of `lasting` nights would tell; None if there is none."""
        half = max(self.rule.lasting // 2, LEAST)
        low, high = self.rule.min_change, 1.0
        lengths = range(LEAST, half + 1)
        if any(self.tells(self.worse, k, night, low) for k in lengths):
            return low
        if not any(self.tells(self.worse, k, night, high) for k in lengths):
            return None
        while high - low > self.rule.min_change / 100:
            middle = (low + high) / 2
            if any(self.tells(self.worse, k, night, middle) for k in lengths):
                high = middle
            else:
                low = middle
        return high

    def decide(self, night: int, *, on_record: bool) -> None:
        """What this night adds to those before it; a worse level comes first.

        Where what it told is `on_record`, or that it told of nothing, the rest is found again.
        """
        half = self.rule.lasting // 2
        k = None if on_record else self.found(self.worse, LEAST, night)
        if k is not None:
            self.tell(Turn.REGRESSION, night, k)
        elif len(self.segments) > 1 and (back := self.back(night)) is not None:
            if back:
                self.settle(night, back)
            elif not on_record:
                self.tell(Turn.RECOVERED, night, self.segments[-1].run)
        elif (k := self.found(self.better, half, night)) is not None:
            if len(self.segments) > 1:  # in part: still open, from a level of its own
                start = self.began(night, k)
                self.segments[-1] = replace(self.segments[-1], start=start, level=None, run=k)
                self.forget(start, night)
            elif not on_record:
                self.tell(Turn.IMPROVEMENT, night, k)

    def found(self, past: Past, least: int, night: int) -> int | None:
        """The fewest last nights that tell of another level."""
        sign = 1.0 if past is self.worse else -1.0
        for k in range(least, self.rule.lasting + 1):
            off = past[k][night]
            if off is None or off < self.rule.min_change:
                continue
            here = range(night - k + 1, night + 1)
            if not self.tells(past, k, night, off, self.departed(past[1], here.start, off)):
                continue
            doubtful = self.doubtful(here.start, night, sign * off)
            if sign < 0:  # it is in no hurry, and half of them back say nothing of the others
                self.doubted.update(here if doubtful else ())
                doubtful = not self.doubted.isdisjoint(here)
            if not doubtful:
                return k
            if k == self.rule.lasting:
                top = self.segments[-1]
                level = self.levels(top, night - k + 1 - top.start, k)[0]
                if level is not None and all(
                    sign * (self.figures[n] - level) >= self.rule.min_change for n in here
                ):
                    return k
        return None

    def shift(self, turn: Turn, night: int, k: int) -> Shift:
        """The shift that the last k nights tell."""
        since = self.began(night, k)
        top = self.segments[-1]
        level, before = self.levels(top, max(since - top.start, 1), 1)
        accepted = self.segments[0].level
        if turn is Turn.IMPROVEMENT:
            accepted = median(self.figures[since : night + 1])
        elif len(self.segments) == 1:
            accepted = before if level is None else min(level, before)
        return Shift(turn, since, night, before, accepted or 0.0)

    def began(self, night: int, k: int) -> int:
        """The first night of the level that the last k nights are at: two nights end it."""
        top, first = self.segments[-1], night - k + 1
        start = max(top.start, top.since)
        here = median(self.figures[first : night + 1])
        earlier = self.figures[max(start, first - self.rule.lasting) : first]
        before = median(earlier) if earlier else top.level or 0.0
        if top.level is not None and abs(here - before) < self.rule.min_change / 2:
            before = top.level  # most of the earlier nights are at the new level, too
        begun, away = night, 0
        for n in range(night, start - 1, -1):
            if abs(self.figures[n] - here) < abs(self.figures[n] - before):
                begun, away = n, 0
            else:
                away += 1
                if away >= LEAST and begun < night:
                    break
        return max(min(begun, night - LEAST + 1), start)

    def back(self, night: int) -> int | None:
        """The segment to whose level the last nights went back, as many as told of leaving it."""
        k = self.segments[-1].run
        if night - k < self.segments[-1].start:
            return None
        last = sorted(self.figures[night - k + 1 : night + 1])[k - 1 - (k - 1) // 3]
        near = self.rule.min_change / 2
        for place, segment in enumerate(self.segments[:-1]):
            if segment.level is not None and last - segment.level <= near:
                return place
        return None

    def settle(self, night: int, place: int) -> None:
        """Back at the level of an earlier step."""
        since = self.began(night, self.segments[-1].run)
        self.segments[place:] = [replace(self.segments[place], start=since)]
        self.forget(since, night)

    def tell(self, turn: Turn, night: int, k: int) -> None:
        """What the last k nights tell. What came and went before it was written down is no news."""
        shift = self.shift(turn, night, k)
        self.apply(shift)
        if turn is Turn.RECOVERED:
            self.shifts = [s for s in self.shifts if s.turn is not Turn.REGRESSION]
        if turn is not Turn.RECOVERED or self.known:
            self.shifts.append(shift)
            self.known &= turn is not Turn.RECOVERED

    def apply(self, shift: Shift) -> None:
        """Take a shift as it is."""
        night, since = shift.told, max(shift.since, self.segments[-1].start)
        if shift.turn is Turn.REGRESSION:
            top = self.segments[-1]
            level = self.levels(top, max(since - top.start, 1), 1)[0]
            self.segments[-1] = replace(top, level=level if self.segments[1:] else shift.level)
            longest = max(self.rule.lasting // 2, LEAST)
            run = min(max(night - since + 1, LEAST), longest)
            self.segments.append(Segment(since, None, since, run))
            self.forget(since, night)
        elif shift.turn is Turn.RECOVERED and len(self.segments) > 1:
            self.recover(night, since)
        elif shift.turn is Turn.IMPROVEMENT:
            self.segments = [Segment(since, shift.level)]
            self.forget(since, night)

    def recover(self, night: int, since: int) -> None:
        """What came back within `lasting` nights was a visit: what this series does by itself. A
        single one of half of them or more may be a commit and its fix, and says nothing."""
        accepted, opened = self.segments[0], self.segments[1].since
        if since - opened <= self.rule.lasting:
            self.segments = [replace(accepted, since=since)]
            self.forget(since, night)
            self.visits.append((opened, night))
            recent = [v for v in self.visits if v[1] > night - self.rule.memory]
            short = since - opened < self.rule.lasting // 2
            for first, last in recent if short or len(recent) > 1 else ():
                for earlier in range(first, last + 1):
                    self.measure(earlier, visit=True)
        else:
            self.segments = [Segment(since, accepted.level)]
            self.forget(since, night)

    def forget(self, first: int, last: int) -> None:
        """These nights are at a level of their own: how far they were says nothing of noise."""
        for lists in (self.worse, self.better, [self.rest]):
            for nights in lists:
                nights[first : last + 1] = [None] * (last + 1 - first)

    def result(self) -> Walked:
        """What is known after the last night."""
        night = len(self.figures) - 1
        top = self.segments[-1]
        accepted = self.segments[0].level
        if accepted is None:
            accepted = self.levels(self.segments[0], night + 1 - self.segments[0].start, 1)[0]
        level, near = self.levels(top, night - top.start, 1)
        enough = night + 1 >= self.rule.lasting // 2 + self.rule.min_points
        return Walked(
            tuple(self.segments),
            tuple(self.shifts),
            accepted,
            None if level is None else min(level, near),
            self.sigma(night + 1),
            self.visible(night) if enough else None,
        )
