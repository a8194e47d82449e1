"""Nights away from the level that came back by themselves: spikes, and machines with two modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide.values import Value

NEIGHBOURS = 3  # nights on each side that a spike is compared with
LONGEST_VISIT = 10  # nights; who stayed longer did not come back by itself
CHANCE = 1e-4  # of as many nights in a row by chance, at the share that the visits have
MODE_VISITS = 3  # a level that was left by itself so often
MODE_SHARE = 0.2  # and had so many of the nights is a mode of the machine


@dataclass(frozen=True, slots=True)
class Visit:
    """Nights beyond `min_change`, with none back between them: the median and the least of them."""

    nights: int
    size: float
    least: float
    over: bool


@dataclass(frozen=True, slots=True)
class Past:
    """What the last nights say of one side of the level.

    `current` is the visit that goes on; `alike` counts those to the same level that ended, and
    `needed` is how many nights in a row are more than another of them. `modes` is the distance of
    a second mode of the machine, None where there is just one.
    """

    current: Visit | None
    alike: int
    needed: int
    modes: float | None = None

    @property
    def is_sure(self) -> bool:
        """The visit that goes on is longer than those that ended by themselves."""
        return self.current is not None and self.current.nights >= self.needed


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
    current = visits.pop() if visits and not visits[-1].over else None
    size = current.least if current else median([v.size for v in visits]) if visits else 0.0
    alike = [v for v in visits if abs(v.size - size) <= rule.min_change]
    alike = [visit for visit in alike if visit.nights <= LONGEST_VISIT]
    nights = sum(visit.nights for visit in alike)
    if current is not None and len(alike) > 1:
        # Of the visits that ended alone the share is too small while the longest yet goes on.
        nights += min(current.nights, LONGEST_VISIT)
    share = nights / max(len(recent), 1)
    needed = _needed(alike, share)
    is_mode = len(alike) >= MODE_VISITS and share >= MODE_SHARE
    found = Past(current, len(alike), needed, size if is_mode else None)
    return replace(found, modes=None) if found.is_sure else found


def _needed(alike: Sequence[Visit], share: float) -> int:
    """Nights in a row that are no accident, where `share` of all nights were visits before.

    Two are enough where there were none. Where nights go there by chance, one by one, `share` to
    the power of n is how likely n in a row are; where the machine stays in a mode, only twice the
    longest visit is more than that.
    """
    if not alike:
        return 2
    by_chance = math.ceil(math.log(CHANCE) / math.log(share)) if share < 1 else LONGEST_VISIT
    lasting = 2 * max(visit.nights for visit in alike) if len(alike) > 1 else 0
    return max(2, by_chance, lasting)


def _visits(off: Sequence[float], least: float) -> list[Visit]:
    """A visit begins beyond `least` and ends within half of it, so that noise makes none of one."""
    visits: list[Visit] = []
    run: list[float] = []
    for amount in off:
        if run and amount < least / 2:
            visits.append(_visit(run, least, over=True))
            run = []
        elif run or amount >= least:
            run.append(amount)
    if run:
        visits.append(_visit(run, least, over=False))
    return visits


def _visit(run: Sequence[float], least: float, *, over: bool) -> Visit:
    beyond = [amount for amount in run if amount >= least]
    return Visit(len(beyond), median(beyond), min(beyond), over)
