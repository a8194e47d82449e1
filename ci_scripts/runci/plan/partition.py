"""Files into shards: the fewest that fit the time there is, then the most even; pure."""

from __future__ import annotations

import hashlib
import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runci.core.paths import path_bytes

# A file tries this many shards in the order that its name gives before it takes the emptiest.
PROBES = 32
# A spread that moves few files is preferred to one that is better by less than a thousandth.
TOLERANCE = 1000
# Swaps are bounded by this many looks at files.
SWAP_WORK = 3_000_000
# Pairs are bounded by this many looks at files; an operation on 16,384 bits costs about as much.
PAIR_WORK = 20_000
STEP_BITS = 14
# Sorts after every index.
LAST = 1 << 62

Bins = list[list[int]]
_Weight = tuple[int, int]  # weight, index


@dataclass(frozen=True, slots=True)
class Item:
    """A file and how long it is predicted to take. Files of one group go to one shard."""

    path: str
    ms: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one shard gets: files by path, those of a group side by side."""

    items: tuple[Item, ...]

    @property
    def ms(self) -> int:
        """The time of all its files, one after another."""
        return sum(item.ms for item in self.items)


def split(items: Iterable[Item], shards: int) -> tuple[Part, ...]:
    """Spread files over shards so that the longest shard is as short as can be.

    There are fewer shards than asked for where there are fewer files (a group counts as one):
    none is empty. Raises ValueError for no shard and for a path that stands twice.
    """
    if shards < 1:
        raise ValueError(f"{shards} shards: there must be at least one")
    return _split(_units(items), shards)


def fewest(items: Iterable[Item], limit: int) -> tuple[Part, ...]:
    """Spread files over as few shards as take at most `limit` milliseconds each.

    A file or group that alone takes longer sets the limit instead.
    """
    units = _units(items)
    if not units:
        return ()
    limit = max(limit, units[0].ms, 1)
    shards = max(1, -(-sum(unit.ms for unit in units) // limit))
    while True:
        parts = _split(units, shards)
        if max(part.ms for part in parts) <= limit:
            return parts
        shards += 1


class _Unit(NamedTuple):
    """A file, or a group that stays together; compares as what is placed first."""

    order: tuple[int, str]  # the longest first, then by the first path
    items: tuple[Item, ...]

    @property
    def ms(self) -> int:
        return -self.order[0]

    @property
    def path(self) -> str:
        return self.order[1]


def _units(items: Iterable[Item]) -> list[_Unit]:
    """Files that may stand alone, and groups, in the order of placing."""
    groups: dict[str, list[Item]] = {}
    units: list[_Unit] = []
    paths: set[str] = set()
    for item in items:
        if item.path in paths:
            raise ValueError(f"{item.path} stands twice among the files to split")
        paths.add(item.path)
        if item.group is None:
            units.append(_Unit((-item.ms, item.path), (item,)))
        else:
            groups.setdefault(item.group, []).append(item)
    for group in groups.values():
        together = tuple(sorted(group, key=lambda item: item.path))
        units.append(_Unit((-sum(item.ms for item in group), together[0].path), together))
    units.sort()
    return units


def _split(units: Sequence[_Unit], shards: int) -> tuple[Part, ...]:
    shards = min(shards, len(units))
    if not shards:
        return ()
    bins = balance([unit.ms for unit in units], list(map(_name, units)), shards)
    # Beside a long file the others may fit into fewer shards than there are.
    _fill_empty(bins)
    parts = []
    for bin_ in bins:
        chosen = sorted((units[index] for index in bin_), key=lambda unit: unit.path)
        parts.append(Part(tuple(item for unit in chosen for item in unit.items)))
    return tuple(parts)


def _fill_empty(bins: list[list[int]]) -> None:
    """Give an empty shard the shortest file of the shard that has the most files."""
    for bin_ in bins:
        if not bin_:
            giver = max(bins, key=len)
            bin_.append(giver.pop(giver.index(max(giver))))


def _name(unit: _Unit) -> int:
    """The 64 bits that say which shard a file or group would rather be in."""
    group = unit.items[0].group
    name = f"path:{unit.path}" if group is None else f"group:{group}"
    return int.from_bytes(hashlib.blake2b(path_bytes(name), digest_size=8).digest(), "big")


def balance(weights: Sequence[int], names: Sequence[int], shards: int) -> Bins:
    """Indices of the weights by shard; never a heavier shard than longest-first would give.

    `weights` are descending and not negative. `names` are 64-bit hashes that say which shard each
    would rather have, so that a new weight moves few others.
    """
    unit = math.gcd(*weights) or 1
    scaled = [weight // unit for weight in weights]
    target = lower_bound(scaled, shards)
    mine = _stable(scaled, names, shards, target)
    reached = heaviest(scaled, mine)
    if reached <= target:
        return mine
    usual = longest_first(scaled, shards)
    most = heaviest(scaled, usual)
    if reached <= min(most, target + target // TOLERANCE):
        return mine
    start = min(swap(scaled, usual, target), mine, key=lambda bins: heaviest(scaled, bins))
    best = pairs(scaled, start, target)
    possible = heaviest(scaled, best)
    goal = min(most, possible + possible // TOLERANCE)
    if reached > goal:
        # What is known to be possible is tried again in the stable order.
        mine = _stable(scaled, names, shards, goal)
    return mine if heaviest(scaled, mine) <= goal else best


def _stable(weights: Sequence[int], names: Sequence[int], shards: int, target: int) -> Bins:
    """Where the names say, with as few exchanges as bring every shard down to the target."""
    bins = swap(weights, preferred(weights, names, shards, target), target)
    return pairs(weights, bins, target)


def lower_bound(weights: Sequence[int], shards: int) -> int:
    """No spread of these descending weights has a lighter heaviest shard.

    The mean and the heaviest weight; and of any j * shards + 1 weights, j + 1 share a shard.
    """
    if not weights:
        return 0
    bound = max(weights[0], -(-sum(weights) // shards))
    for together in range(1, (len(weights) - 1) // shards + 1):
        last = together * shards
        bound = max(bound, sum(weights[last - together : last + 1]))
    return bound


def heaviest(weights: Sequence[int], bins: Bins) -> int:
    """The weight of the heaviest shard."""
    return max(_loads(weights, bins))


def longest_first(weights: Sequence[int], shards: int) -> Bins:
    """Each weight, in order, to the shard that is lightest so far: LPT for descending weights."""
    bins: Bins = [[] for _ in range(shards)]
    _place(weights, bins, [0] * shards, range(len(weights)))
    return bins


def preferred(weights: Sequence[int], names: Sequence[int], shards: int, limit: int) -> Bins:
    """Each weight, in order, to the first shard from its own on that stays within the limit."""
    loads = [0] * shards
    bins: Bins = [[] for _ in range(shards)]
    left: list[int] = []
    probes = min(PROBES, shards)
    for index, weight in enumerate(weights):
        shard = names[index] * shards >> 64
        room = limit - weight
        for _ in range(probes):
            if loads[shard] <= room:
                loads[shard] += weight
                bins[shard].append(index)
                break
            shard = shard + 1 if shard + 1 < shards else 0
        else:
            left.append(index)
    _place(weights, bins, loads, left)
    return bins


def _place(weights: Sequence[int], bins: Bins, loads: list[int], indices: Sequence[int]) -> None:
    if not indices:
        return
    queue = [(load, shard) for shard, load in enumerate(loads)]
    heapq.heapify(queue)
    for index in indices:
        load, shard = queue[0]
        heapq.heapreplace(queue, (load + weights[index], shard))
        bins[shard].append(index)


def swap(weights: Sequence[int], bins: Bins, target: int) -> Bins:
    """Move weights out of shards above the target, or swap them for lighter ones.

    Each step takes from the heaviest shard and puts none above the target, so that the heaviest
    shard never grows.
    """
    loads = _loads(weights, bins)
    if max(loads) <= target:
        return bins
    held = [sorted((weights[index], index) for index in bin_) for bin_ in bins]
    for _ in range(SWAP_WORK // (len(weights) + 8 * len(bins)) + 16):
        high = max(range(len(loads)), key=loads.__getitem__)
        excess = loads[high] - target
        if excess <= 0:
            break
        found = _best_swap(held, loads, high, target)
        if found is None:
            break
        low, given, taken = found
        _exchange(held, loads, (high, low), given, taken)
    return [[index for _, index in bin_] for bin_ in held]


def _exchange(
    held: list[list[_Weight]],
    loads: list[int],
    shards: tuple[int, int],
    given: _Weight,
    taken: _Weight | None,
) -> None:
    high, low = shards
    change = given[0] - (taken[0] if taken else 0)
    loads[high] -= change
    loads[low] += change
    held[high].remove(given)
    insort(held[low], given)
    if taken is not None:
        held[low].remove(taken)
        insort(held[high], taken)


def _best_swap(
    held: list[list[_Weight]], loads: list[int], high: int, target: int
) -> tuple[int, _Weight, _Weight | None] | None:
    """The other shard, what it is given and what it gives back: what relieves `high` most.

    Of equal relief the smallest exchange, which leaves the most room elsewhere.
    """
    excess = loads[high] - target
    best: tuple[int, int] | None = None
    found = None
    roomy = sorted((load, shard) for shard, load in enumerate(loads) if load < target)
    for load, low in roomy:
        room = target - load
        if best is not None and best[0] >= min(excess, room):
            break
        for given in held[high]:
            taken = _counterpart(held[low], given[0], excess, room)
            change = given[0] - (taken[0] if taken else 0)
            if not 0 < change <= room:
                continue
            worth = (min(change, excess), -change)
            if best is None or worth > best:
                best, found = worth, (low, given, taken)
                if change == excess:
                    return found
    return found


def _counterpart(held: list[_Weight], given: int, excess: int, room: int) -> _Weight | None:
    """What to take back for `given`: the largest that still relieves all, else the smallest."""
    enough = bisect_right(held, (given - excess, LAST)) - 1
    if enough >= 0 and held[enough][0] >= given - room:
        return held[enough]
    if given <= room:
        return None
    least = bisect_left(held, (given - room, -1))
    return held[least] if least < len(held) else None


def pairs(weights: Sequence[int], bins: Bins, target: int) -> Bins:
    """Spread the heaviest shard and another one over the two of them as evenly as can be."""
    bins = [list(bin_) for bin_ in bins]
    loads = _loads(weights, bins)
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


def _loads(weights: Sequence[int], bins: Bins) -> list[int]:
    return [sum(map(weights.__getitem__, bin_)) for bin_ in bins]
