"""Nights away from the level that came back by themselves: spikes, and machines with two modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runci.perf.config import Rule
from runci.perf.decide.values import Value

NEIGHBOURS = 3  # nights on each side that a spike is compared with
MODE_VISITS = 3  # a level that was left by itself so often
MODE_SHARE = 0.2  # and had so many of the nights is a mode of the machine
MODES_END = 2  # a mode that stays this many times longer than ever before is a change


@dataclass(frozen=True, slots=True)
class Visit:
    """Nights in a row beyond `min_change`; `size` is the median of what they are off."""

    nights: int
    size: float
    over: bool


@dataclass(frozen=True, slots=True)
class Past:
    """What the last nights say of one side of the level.

    `needed` nights in a row confirm a change to where it is now, `current` is the visit that goes
    on, `alike` counts those that ended. `modes` is the distance of a second mode, None where there
    is just one.
    """

    needed: int
    current: Visit | None
    alike: int
    modes: float | None = None


def without_spikes(values: Sequence[Value], rule: Rule) -> list[Value]:
    """The nights without those that are off both from the nights before and from those after.

    The last night stays: nothing came after it yet. A few spikes in a window make Otava's test deaf
    for a step of half their size.
    """
    figures = [v.value for v in values]
    kept = []
    for place, value in enumerate(values):
        before = figures[max(place - NEIGHBOURS, 0) : place]
        after = figures[place + 1 : place + 1 + NEIGHBOURS]
        if not before or not after or not _sticks_out(value.value, before, after, rule.min_change):
            kept.append(value)
    return kept


def _sticks_out(
    value: float, before: Sequence[float], after: Sequence[float], least: float
) -> bool:
    one, other = value / median(before) - 1.0, value / median(after) - 1.0
    return min(abs(one), abs(other)) >= least and (one > 0) == (other > 0)


def past(off: Sequence[float], rule: Rule) -> Past:
    """What the last `window` nights say; `off` is how far each is off, above 0 on one side."""
    recent = off[-rule.window :]
    visits = _visits(recent, rule.min_change)
    current = visits[-1] if visits and not visits[-1].over else None
    over = [visit for visit in visits if visit.over]
    size = current.size if current else median([v.size for v in over]) if over else 0.0
    alike = [visit for visit in over if abs(visit.size - size) <= rule.min_change]
    longest = max((visit.nights for visit in alike), default=0)
    share = sum(visit.nights for visit in alike) / max(len(recent), 1)
    if len(alike) >= MODE_VISITS and share >= MODE_SHARE:
        return Past(MODES_END * longest + 2, current, len(alike), size)
    return Past(3 if alike else 2, current, len(alike))


def _visits(off: Sequence[float], least: float) -> list[Visit]:
    """A visit begins beyond `least` and ends within half of it, so that noise makes none of one."""
    visits: list[Visit] = []
    run: list[float] = []
    for amount in off:
        if run and amount < least / 2:
            visits.append(Visit(len(run), median(run), over=True))
            run = []
        elif run or amount >= least:
            run.append(amount)
    if run:
        visits.append(Visit(len(run), median(run), over=False))
    return visits
