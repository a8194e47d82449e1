"""Files into shards: the fewest that fit the time there is, then the most even; pure.

Times are whole milliseconds. Equal input gives equal output on every machine and in any order of
the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runci.plan.balance import balance


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
    data = name.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
