"""Changes of a series against its level: its segments, steps, and creeps that Otava misses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide.state import Case
from runci.nightly.decide.values import Value
from runci.nightly.decide.visits import past, without_spikes
from runci.nightly.history.lines import Series
from runci.nightly.verdict import Confirmed, Segment

WINDOWS = 4  # of Otava's: older nights change nothing at the end of the series
CREEP = 7  # nights that are far from the level together
BETTER_NIGHTS = 5  # an improvement moves the level, so it must be sure


@dataclass(frozen=True, slots=True)
class Shift:
    """Nights at another level, oldest first, and the last one before them."""

    worse: bool
    nights: tuple[Value, ...]
    before: Value
    confirmed: Confirmed = Confirmed.NOT_YET

    @property
    def level(self) -> float:
        """The level that they are at."""
        return median([value.value for value in self.nights])


def segments(series: Series, usable: Sequence[Value], night: str) -> tuple[Segment, ...]:
    """Usable nights between acceptances, changes on record, and other pinned baselines."""
    starts = {accept.night for accept in series.accepts if accept.night <= night}
    starts |= {event.since for event in series.events if event.night <= night}
    starts |= {b.night for a, b in itertools.pairwise(usable) if a.pin != b.pin}
    waiting = sorted(starts, reverse=True)
    groups: list[list[Value]] = []
    for value in usable:
        begins = not groups
        while waiting and waiting[-1] <= value.night:
            waiting.pop()
            begins = True
        if begins:
            groups.append([])
        groups[-1].append(value)
    return tuple(
        Segment(group[0].night, group[-1].night, len(group), median([v.value for v in group]))
        for group in groups
    )


def step(case: Case, *, worse: bool) -> Shift | None:
    """The change that tonight belongs to, confirmed or not; None where tonight is at the level."""
    values, least = case.state.values, case.rule.min_change
    away = case.off(values, worse=worse)
    if away[-1] < least or len(values) < 2:
        return None
    recent = without_spikes(values[-WINDOWS * case.rule.window :], case.rule)
    start = _start(case, recent, worse=worse)
    if start is None:
        return Shift(worse, values[-1:], values[-2])
    shift = Shift(worse, tuple(recent[start:]), recent[start - 1])
    known = past(away, case.rule)
    in_a_row = known.current.nights if known.current else 0
    agreeing = _agreeing(case.off(shift.nights, worse=worse), least)
    if min(agreeing, in_a_row) >= (known.needed if worse else max(known.needed, BETTER_NIGHTS)):
        return replace(shift, confirmed=Confirmed.SECOND_NIGHT)
    if worse and not known.alike and _again(case):
        return replace(shift, confirmed=Confirmed.PAIRED)
    return shift


def creep(case: Case, *, worse: bool) -> Shift | None:
    """The last nights together are far from the level, whether or not any step led there."""
    recent = [value for value in case.state.values if value.night >= case.settled]
    if len(recent) <= CREEP:
        return None
    nights = tuple(recent[-CREEP:])
    if median(case.off(nights, worse=worse)) < case.rule.min_change:
        return None
    known = past(case.off(case.state.values, worse=worse), case.rule)
    if known.alike > 1 and not known.is_sure:  # a machine with two modes
        return None
    seen = case.of_nights(nights)
    if (seen.low if worse else -seen.high) < case.rule.min_change / 2:
        return None
    start = _creep_start(case.off(recent, worse=worse), case.rule)
    return Shift(worse, tuple(recent[start:]), recent[start - 1], Confirmed.BASELINE)


def _start(case: Case, recent: Sequence[Value], *, worse: bool) -> int | None:
    """Where the present level began: the first of the last levels that are all beyond."""
    found = case.tools.change_points([value.value for value in recent])
    start, end = None, len(recent)
    for index in sorted(found, reverse=True):
        if median(case.off(recent[index:end], worse=worse)) < case.rule.min_change:
            break
        start = end = index
    if start is None:
        return None
    settled = sum(value.night < case.settled for value in recent)
    return max(start, settled, 1)


def _agreeing(away: Sequence[float], least: float) -> int:
    """How many nights are beyond, at one and the same level: two spikes seldom are."""
    level = median(away)
    return sum(a >= least and abs(a - level) <= least * (1 + abs(level)) for a in away)


def _again(case: Case) -> bool:
    """The paired re-run of tonight says the same.

    Its whole interval must lie beyond half of `min_change` and its median beyond the whole: then
    even the least change that it allows is no noise, and the likeliest one is worth reporting.
    """
    if not case.tonight.again:
        return False
    seen = case.compared(case.tonight.again)
    return seen.low >= case.rule.min_change / 2 and seen.change >= case.rule.min_change


def _creep_start(away: Sequence[float], rule: Rule) -> int:
    """The night after the last `CREEP` nights that were together within half of `min_change`."""
    for end in range(len(away) - 1, CREEP - 1, -1):
        if median(away[end - CREEP : end]) < rule.min_change / 2:
            return end
    return 1
