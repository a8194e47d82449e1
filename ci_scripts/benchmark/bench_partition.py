"""How even, how stable and how fast the partition is: `python bench_partition.py`.

Every suite of a public repository (data/suites-2026-08-22.json) in every number of shards from 1
to its number of files; one large suite; and how many files move when one is added. With `--beyond`
also the instances that are more than 1 % above the lower bound.
"""

from __future__ import annotations

import functools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import machine

from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Taxonomy
from runci.core.registration import Backend, Registration
from runci.core.source import at
from runci.plan.build import Settings, make_plan
from runci.plan.model import Plan
from runci.plan.partition import Item, Part, heaviest, lower_bound, split, swap
from runci.plan.selection import select
from runci.text.tables import render_markdown

DATA = Path(__file__).parent / "data" / "suites-2026-08-22.json"
TAXONOMY = Path(__file__).parents[2] / "examples" / "sglang" / "suites.yml"
GOAL = 1.01
# Other work on the machine only adds to a time: the least of some rounds is the nearest.
ROUNDS = 5
# A shard that takes this much longer is worth the lines that make it shorter.
NOTABLE = 1.01
# Files of a suite that the stability table shows.
LARGE = 80


@dataclass(frozen=True)
class Instance:
    """A suite in a number of shards: times (ms, descending) and what was reached."""

    suite: str
    shards: int
    times: tuple[int, ...]
    makespan: int

    @property
    def bound(self) -> int:
        """No partition is shorter (ms): at least 1, for suites that take no time."""
        return max(1, lower_bound(self.times, self.shards))


def suites() -> Iterator[tuple[str, list[Item]]]:
    for name, counts in json.loads(DATA.read_text())["suites"].items():
        seconds = [value for value, count in counts for _ in range(count)]
        yield name, [Item(f"test_{n}.py", round(s * 1000)) for n, s in enumerate(seconds)]


def longest_first(times: Sequence[int], shards: int) -> dict[int, list[int]]:
    """Indices by shard, the longest first to the shortest shard: what is compared with."""
    bins: dict[int, list[int]] = {shard: [] for shard in range(shards)}
    loads = [0] * shards
    for index in sorted(range(len(times)), key=lambda i: -times[i]):
        shard = loads.index(min(loads))
        loads[shard] += times[index]
        bins[shard].append(index)
    return bins


def lpt(times: Sequence[int], shards: int) -> int:
    return max(sum(times[i] for i in bin_) for bin_ in longest_first(times, shards).values())


def every_suite() -> tuple[list[Instance], float]:
    """All instances, and the least CPU time of some rounds: one thread, and nothing waits."""
    rounds = [one_round() for _ in range(ROUNDS)]
    return rounds[0][0], min(seconds for _, seconds in rounds)


def one_round() -> tuple[list[Instance], float]:
    cases = [(name, items, n) for name, items in suites() for n in range(1, len(items) + 1)]
    started = time.process_time()  # once: asking for each instance takes longer than most of them
    reached = [split(items, shards) for _, items, shards in cases]
    seconds = time.process_time() - started
    found = [
        Instance(
            name,
            shards,
            tuple(sorted((item.ms for item in items), reverse=True)),
            max(part.ms for part in parts),
        )
        for (name, items, shards), parts in zip(cases, reached, strict=True)
    ]
    return found, seconds


def quality(instances: Sequence[Instance], seconds: float) -> list[list[str]]:
    usual = {one: lpt(one.times, one.shards) for one in instances}
    return [
        ["instances", f"{len(instances):,}"],
        ["at the lower bound", f"{sum(o.makespan <= o.bound for o in instances):,}"],
        ["within 1 % of it", f"{sum(o.makespan <= GOAL * o.bound for o in instances):,}"],
        ["worst / lower bound", f"{max(o.makespan / o.bound for o in instances):.4f}"],
        ["better than longest-first", f"{sum(o.makespan < usual[o] for o in instances):,}"],
        ["worse than longest-first", f"{sum(o.makespan > usual[o] for o in instances):,}"],
        ["longest-first, at its worst, is longer by", f"{worst_gain(instances, usual):.1%}"],
        ["CPU seconds for all instances", f"{seconds:.2f}"],
    ]


def worst_gain(instances: Sequence[Instance], usual: dict[Instance, int]) -> float:
    return max(usual[one] / one.makespan - 1 for one in instances if one.makespan)


def large() -> list[list[str]]:
    rows = []
    for name, draw in (
        ("uniform, 1 to 60 s", lambda r: r.randint(1000, 60_000)),
        ("log-normal, median 7 s", lambda r: int(1000 * r.lognormvariate(2, 1.5)) + 1),
    ):
        source = random.Random(3)
        items = [Item(f"test/{n}.py", draw(source)) for n in range(100_000)]
        seconds = math.inf
        for _ in range(ROUNDS):
            started = time.process_time()
            parts = split(items, 64)
            seconds = min(seconds, time.process_time() - started)
        most = max(part.ms for part in parts)
        mean = sum(item.ms for item in items) / 64
        rows.append([name, f"{seconds:.2f}", f"{most / mean:.6f}"])
    return rows


def whole_plan() -> list[list[str]]:
    """`runci plan --all` without reading files: the suites that the example declares."""
    seconds = math.inf
    for _ in range(ROUNDS):
        started = time.process_time()
        plan = example_plan()
        digest = plan.digest
        seconds = min(seconds, time.process_time() - started)
    shards = [shard for suite in plan.suites for shard in suite.shards]
    files = sum(len(shard.files) for shard in shards)
    assert digest
    row = [f"{len(plan.suites)}", f"{files:,}", f"{len(shards)}", f"{seconds:.2f}"]
    return [row]


def example_plan() -> Plan:
    """All suites that the example declares, in as many shards as runci chooses."""
    taxonomy, registrations = example()
    selection = select(None, taxonomy, registrations)
    return make_plan("", selection, taxonomy, registrations, Settings())


@functools.cache
def example() -> tuple[Taxonomy, dict[str, tuple[Registration, ...]]]:
    registrations = {}
    for name, items in suites():
        backend, _, suite = name.partition(" ")
        for item in items:
            one = Registration(
                Backend(backend), item.ms / 1000, suite, None, None, False, None, None, at(1)
            )
            registrations[f"{name}/{item.path}"] = (one,)
    return load_taxonomy(TAXONOMY.read_bytes(), TAXONOMY.name), registrations


def chosen() -> list[list[str]]:
    """In as many shards as runci chooses: where simpler ways take more than `NOTABLE` longer."""
    rows = []
    for suite in example_plan().suites:
        files = [file for shard in suite.shards for file in shard.files]
        times = sorted((round(file.seconds * 1000) for file in files), reverse=True)
        mine = max(round(shard.seconds * 1000) for shard in suite.shards)
        shards = len(suite.shards)
        plain = list(longest_first(times, shards).values())
        swapped = heaviest(times, swap(times, plain, lower_bound(times, shards)))
        usual = heaviest(times, plain)
        if usual > NOTABLE * mine:
            name = f"{suite.backend} {suite.name}"
            counts = [str(len(files)), str(shards), f"{mine / 1000:g}"]
            rows.append([name, *counts, f"{usual / mine - 1:.1%}", f"{swapped / mine - 1:.1%}"])
    return rows


def stability() -> list[list[str]]:
    """Of the files of a suite, how many change their shard when one file is added."""
    rows = []
    for name, items in suites():
        for shards in (2, 4, 8):
            if len(items) < LARGE:
                continue
            mine, theirs = moved(items, shards)
            rows.append(
                [
                    name,
                    str(len(items)),
                    str(shards),
                    f"{statistics.median(mine):g}",
                    str(max(mine)),
                    f"{statistics.median(theirs):g}",
                ]
            )
    return rows


def moved(items: list[Item], shards: int) -> tuple[list[int], list[int]]:
    """Files that move, for twenty new files each: here, and with longest-first."""
    source = random.Random(1)
    before, usual = places(split(items, shards)), lpt_places(items, shards)
    mine, theirs = [], []
    for number in range(20):
        more = [*items, Item(f"test_new_{number}.py", source.choice(items).ms)]
        after, changed = places(split(more, shards)), lpt_places(more, shards)
        mine.append(sum(after[path] != before[path] for path in before))
        theirs.append(sum(changed[path] != usual[path] for path in usual))
    return mine, theirs


def places(parts: Sequence[Part]) -> dict[str, int]:
    return {item.path: shard for shard, part in enumerate(parts) for item in part.items}


def lpt_places(items: Sequence[Item], shards: int) -> dict[str, int]:
    bins = longest_first([item.ms for item in items], shards)
    return {items[index].path: shard for shard, bin_ in bins.items() for index in bin_}


def main() -> int:
    print(", ".join(f"{name}: {value}" for name, value in machine().items()) + "\n")
    instances, seconds = every_suite()
    print(
        render_markdown(
            ["every suite, every number of shards", ""], quality(instances, seconds), "<>"
        )
    )
    print(
        render_markdown(
            ["100,000 files in 64 shards", "CPU seconds", "longest / mean"], large(), "<>>"
        )
    )
    print(
        render_markdown(["suites planned", "files", "shards", "CPU seconds"], whole_plan(), ">>>>")
    )
    headers = ["suite, in the shards that runci chooses", "files", "shards", "longest, s"]
    ways = ["longest-first", "and swapped"]
    print(render_markdown([*headers, *ways], chosen(), "<>>>>>"))
    headers = ["one file added", "files", "shards", "move", "at most", "longest-first"]
    print(render_markdown(headers, stability(), "<>>>>>"))
    if "--beyond" in sys.argv:
        for one in instances:
            if one.makespan > GOAL * one.bound:
                reached, bound = one.makespan / 1000, one.bound / 1000
                print(f"{one.suite} in {one.shards}: {reached:g} s, lower bound {bound:g} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
