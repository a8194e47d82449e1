"""Balance what swapping cannot: pairs of shards, then a bounded search that also proves; pure."""

from __future__ import annotations

from collections.abc import Sequence

# Steps of the search; an operation on a number of 16,384 bits costs about as much as one step.
PAIR_WORK = 20_000
SEARCH_WORK = 20_000
STEP_BITS = 14
MOST_SPENT = 4
# The search recurses once a file.
MOST_FILES = 200

Bins = list[list[int]]


class WorkSpentError(Exception):
    """The search has used up its steps: what it looked for may exist or not."""


def improve(weights: Sequence[int], bins: Bins, target: int) -> Bins:
    """Bins whose heaviest is at most that of these, and the target where it can be found."""
    bins = pairs(weights, bins, target)
    if _heaviest(weights, bins) <= target or len(weights) > MOST_FILES:
        return bins
    # Rounded up to units that are too small to matter, many more combinations fit exactly.
    unit = (target >> STEP_BITS) + 1
    coarse = [-(-weight // unit) for weight in weights]
    found, _ = optimum(coarse, bins, -(-target // unit), SEARCH_WORK)
    return min(bins, found, key=lambda candidate: _heaviest(weights, candidate))


def optimum(weights: Sequence[int], bins: Bins, lowest: int, work: int) -> tuple[Bins, int]:
    """The best bins found, and a value below which there provably are none.

    They are optimal where their heaviest equals that value. `work` bounds each search for a limit,
    and after a few that came to nothing no more are made.
    """
    low = bound = lowest
    best, spent = _heaviest(weights, bins), 0
    while low < best and spent < MOST_SPENT:
        # Feasible limits lie close above the bound: look there first, then halve.
        limit = min(low + (low - lowest), (low + best - 1) // 2)
        try:
            found = pack(weights, len(bins), limit, work)
        except WorkSpentError:
            low, spent = limit + 1, spent + 1
            continue
        if found is None:
            low = limit + 1
            bound = max(bound, low)
        else:
            bins, best = found, _heaviest(weights, found)
    return bins, bound


def pairs(weights: Sequence[int], bins: Bins, target: int) -> Bins:
    """Spread the heaviest shard and another one over the two of them as evenly as can be."""
    bins = [list(bin_) for bin_ in bins]
    loads = [sum(map(weights.__getitem__, bin_)) for bin_ in bins]
    work = PAIR_WORK
    while max(loads) > target and work > 0:
        high = max(range(len(loads)), key=loads.__getitem__)
        for load, low in sorted((load, shard) for shard, load in enumerate(loads)):
            count = len(bins[high]) + len(bins[low])
            work -= count * (2 + (loads[high] >> STEP_BITS))
            if load >= target or work <= 0:
                return bins
            both = loads[high] + load
            heavier, lighter = _halves(weights, bins[high], bins[low], both // 2)
            loads[low] = sum(map(weights.__getitem__, lighter))
            loads[high], before = both - loads[low], loads[high]
            bins[high], bins[low] = heavier, lighter
            if loads[high] < before:
                break
        else:
            return bins
    return bins


def _halves(
    weights: Sequence[int], high: list[int], low: list[int], half: int
) -> tuple[list[int], list[int]]:
    """The two shards with the second as heavy as can be up to `half`.

    Bit n of a number says whether a sum n can be had. Where there is a choice, a file stays.
    """
    mask = (1 << (half + 1)) - 1
    order = [*high, *low]
    sums = [1]
    for index in order:
        sums.append((sums[-1] | sums[-1] << weights[index]) & mask)
    left = sums[-1].bit_length() - 1
    heavier: list[int] = []
    lighter: list[int] = []
    for place in range(len(order) - 1, -1, -1):
        weight = weights[order[place]]
        stays_out = bool(sums[place] >> left & 1)
        goes_in = weight <= left and bool(sums[place] >> (left - weight) & 1)
        if goes_in and (place >= len(high) or not stays_out):
            lighter.append(order[place])
            left -= weight
        else:
            heavier.append(order[place])
    return heavier, lighter


def pack(weights: Sequence[int], shards: int, limit: int, work: int) -> Bins | None:
    """Bins within the limit, or None where there provably are none.

    Bin completion: the heaviest weight left opens a shard, which is filled in every way that
    wastes no more than the shards can waste in all. Raises WorkSpentError.
    """
    waste = shards * limit - sum(weights)
    if waste < 0 or (weights and weights[0] > limit):
        return None
    bins = _Search(weights, limit, work).fill(list(range(len(weights))), shards, waste)
    return None if bins is None else bins + [[] for _ in range(shards - len(bins))]


class _Search:
    def __init__(self, weights: Sequence[int], limit: int, work: int) -> None:
        self._weights = weights
        self._limit = limit
        self._work = work
        self._hopeless: set[tuple[int, tuple[int, ...]]] = set()

    def fill(self, left: list[int], shards: int, waste: int) -> Bins | None:
        """Bins for the indices that are left, or None."""
        rest = tuple(self._weights[index] for index in left)
        if sum(rest) <= self._limit:
            return [left] if shards else (None if left else [])
        if shards <= 1 or (shards, rest) in self._hopeless:
            return None
        room = self._limit - rest[0]
        self._spend(len(rest) * (1 + (room >> STEP_BITS)))
        found = self._choose(_Choice(left, rest, _sums(rest, room), shards, waste), [0], room)
        if found is None:
            self._hopeless.add((shards, rest))
        return found

    def _choose(self, choice: _Choice, chosen: list[int], room: int) -> Bins | None:
        """Complete one shard in every way, fuller ones first; `chosen` are places of `left`."""
        self._spend(1)
        rest = choice.rest
        place = chosen[-1] + 1
        while place < len(rest) and _any_sum(choice.sums[place], room - choice.waste, room):
            if rest[place] <= room:
                found = self._choose(choice, [*chosen, place], room - rest[place])
                if found is not None:
                    return found
            place = _next_smaller(rest, place)
        if room > choice.waste:
            return None
        taken = set(chosen)
        left = [index for at, index in enumerate(choice.left) if at not in taken]
        found = self.fill(left, choice.shards - 1, choice.waste - room)
        return None if found is None else [[choice.left[at] for at in chosen], *found]

    def _spend(self, steps: int) -> None:
        self._work -= steps
        if self._work < 0:
            raise WorkSpentError


class _Choice:
    """The shard being filled: what is left for it, and the sums that each tail of that can give."""

    __slots__ = ("left", "rest", "shards", "sums", "waste")

    def __init__(
        self, left: list[int], rest: tuple[int, ...], sums: list[int], shards: int, waste: int
    ) -> None:
        self.left = left
        self.rest = rest
        self.sums = sums
        self.shards = shards
        self.waste = waste


def _sums(weights: Sequence[int], limit: int) -> list[int]:
    """For each place, the sums up to the limit of weights from there on, as bits."""
    mask = (1 << (limit + 1)) - 1
    sums = [1]
    for weight in reversed(weights):
        sums.append((sums[-1] | sums[-1] << weight) & mask if weight <= limit else sums[-1])
    sums.reverse()
    return sums


def _any_sum(sums: int, least: int, most: int) -> bool:
    """Whether a sum from `least` (at least 1: something is added) to `most` can be had."""
    least = max(least, 1)
    return most >= least and bool(sums >> least & ((1 << (most - least + 1)) - 1))


def _next_smaller(weights: Sequence[int], place: int) -> int:
    """The next place with another weight: equal ones would give equal shards."""
    weight = weights[place]
    while place < len(weights) and weights[place] == weight:
        place += 1
    return place


def _heaviest(weights: Sequence[int], bins: Bins) -> int:
    return max(sum(map(weights.__getitem__, bin_)) for bin_ in bins)
