"""Files into shards: nothing lost or doubled, never worse than longest-first, few files move."""

from __future__ import annotations

import itertools
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.plan.partition import (
    Item,
    Part,
    balance,
    fewest,
    heaviest,
    lower_bound,
    pairs,
    preferred,
    split,
    swap,
)

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[5]
DATA = ROOT / "ci_scripts/benchmark/data/suites-2026-08-22.json"

Weights = list[int]


def items_of(*ms: int) -> list[Item]:
    return [Item(f"test_{number:03}.py", time) for number, time in enumerate(ms)]


def real_suites() -> Iterator[tuple[str, list[Item]]]:
    for name, counts in json.loads(DATA.read_text())["suites"].items():
        seconds = [value for value, count in counts for _ in range(count)]
        yield name, items_of(*(round(value * 1000) for value in seconds))


def makespan(parts: Sequence[Part]) -> int:
    return max(part.ms for part in parts)


def lpt(times: Sequence[int], shards: int) -> int:
    """Longest-first, written as plainly as can be."""
    loads = [0] * shards
    for time in sorted(times, reverse=True):
        loads[loads.index(min(loads))] += time
    return max(loads)


def best_of_all(times: Sequence[int], shards: int) -> int:
    """The optimum, by trying everything."""
    best = sum(times)
    for places in itertools.product(range(shards), repeat=len(times)):
        loads = [0] * shards
        for time, place in zip(times, places, strict=True):
            loads[place] += time
        best = min(best, max(loads))
    return best


GROUPS = st.sampled_from([None, None, None, "a", "b"])
FILES = st.lists(st.tuples(st.integers(0, 2_000_000), GROUPS), min_size=1, max_size=40).map(
    lambda rows: [Item(f"test_{n}.py", ms, group) for n, (ms, group) in enumerate(rows)]
)


@given(FILES, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_every_file_is_in_one_shard_and_no_shard_is_empty(files: list[Item], shards: int) -> None:
    parts = split(files, shards)
    placed = [item for part in parts for item in part.items]
    assert sorted(placed, key=lambda i: i.path) == sorted(files, key=lambda i: i.path)
    assert all(part.items for part in parts)
    units = {item.group or item.path for item in files}
    assert len(parts) == min(shards, len(units))


@given(FILES, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_files_of_a_group_stand_side_by_side_in_one_shard(files: list[Item], shards: int) -> None:
    parts = split(files, shards)
    for group in ("a", "b"):
        holding = [part for part in parts if any(i.group == group for i in part.items)]
        assert len(holding) == any(item.group == group for item in files)
        for part in holding:
            runs = [key for key, _ in itertools.groupby(part.items, key=lambda i: i.group)]
            assert runs.count(group) == 1


@given(st.lists(st.integers(0, 2_000_000), min_size=1, max_size=40), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_is_never_worse_than_longest_first(times: Weights, shards: int) -> None:
    assert makespan(split(items_of(*times), shards)) <= lpt(times, shards)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=7), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_small_inputs_in_two_shards_get_the_optimum(times: Weights, shards: int) -> None:
    reached, best = makespan(split(items_of(*times), shards)), best_of_all(times, shards)
    if shards <= 2:
        assert reached == best
    # Graham's bound for longest-first.
    assert 3 * shards * reached <= (4 * shards - 1) * best


@given(FILES, st.integers(1, 12), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_the_files_does_not_matter(
    files: list[Item], shards: int, order: random.Random
) -> None:
    shuffled = files[:]
    order.shuffle(shuffled)
    assert split(shuffled, shards) == split(files, shards)


@given(FILES, st.integers(1, 3_000_000))
@settings(max_examples=100, deadline=None)
def test_fewest_fits_the_limit_or_the_longest_unit(files: list[Item], limit: int) -> None:
    parts = fewest(files, limit)
    longest = max(part.ms for part in split(files, len(files)))
    assert makespan(parts) <= max(limit, longest)
    assert len(parts) >= -(-sum(item.ms for item in files) // max(limit, longest, 1))
    if len(parts) > 1:
        assert makespan(split(files, len(parts) - 1)) > max(limit, longest)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=9), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_the_lower_bound_is_one(times: Weights, shards: int) -> None:
    times.sort(reverse=True)
    assert lower_bound(times, shards) <= best_of_all(times[:7], shards) + sum(times[7:])
    if len(times) <= 7:
        assert lower_bound(times, shards) <= best_of_all(times, shards)


def test_the_lower_bound_knows_that_weights_must_share() -> None:
    assert lower_bound([5, 5, 5], 2) == 10  # three weights in two shards
    assert lower_bound([4, 4, 4, 4, 4, 3, 3], 3) == 10  # seven in three: 4 + 3 + 3
    assert lower_bound([9, 1, 1], 2) == 9
    assert lower_bound([3, 3, 1], 2) == 4
    assert lower_bound([], 2) == 0


def test_weights_go_where_their_names_say_and_then_to_the_next_with_room() -> None:
    middle, last = 1 << 63, (1 << 64) - 1
    assert preferred([5, 5, 5], [middle] * 3, 3, 5) == [[2], [0], [1]]
    assert preferred([5, 5], [last, 0], 3, 5) == [[1], [], [0]]
    assert preferred([5, 5], [last, last], 3, 5) == [[1], [], [0]]  # after the last, the first
    # What fits nowhere goes to the lightest.
    assert preferred([5, 4, 3], [0, last, 0], 2, 6) == [[0], [1, 2]]


BINS = st.lists(st.lists(st.integers(0, 60), max_size=6), min_size=2, max_size=5)


@given(BINS, st.integers(0, 80))
@settings(max_examples=300, deadline=None)
def test_swapping_keeps_all_and_never_makes_the_heaviest_heavier(
    rows: list[Weights], target: int
) -> None:
    weights = [weight for row in rows for weight in row]
    places = iter(range(len(weights)))
    bins = [[next(places) for _ in row] for row in rows]
    for better in (swap(weights, bins, target), pairs(weights, bins, target)):
        assert sorted(index for bin_ in better for index in bin_) == list(range(len(weights)))
        before = [sum(row) for row in rows]
        after = [sum(weights[index] for index in bin_) for bin_ in better]
        assert max(after) <= max(before)
    swapped = [sum(weights[i] for i in bin_) for bin_ in swap(weights, bins, target)]
    # A shard that had room is filled up to the target at most.
    assert all(new <= max(old, target) for old, new in zip(before, swapped, strict=True))


@pytest.mark.parametrize(
    ("weights", "bins", "target"),
    [
        ([4, 4], [[0, 1], []], 4),  # moved
        ([5, 4, 3, 2], [[0, 1], [2, 3]], 7),  # swapped
        ([6, 5, 4, 3, 2, 1], [[0, 1, 2], [3], [4, 5]], 7),  # in several steps
        ([7, 7, 2, 2, 2], [[0, 1], [2, 3, 4], []], 7),
    ],
)
def test_swapping_reaches_the_target(weights: Weights, bins: list[Weights], target: int) -> None:
    assert heaviest(weights, swap(weights, bins, target)) == target


def test_the_same_answer_under_another_hash_seed_and_in_another_process() -> None:
    code = (
        "from runci.plan.partition import Item, split\n"
        "items = [Item(f't{n}.py', n * 7919 % 1801 + 1, 'g' if n % 9 == 0 else None) "
        "for n in range(60)]\n"
        "print(split(items, 7))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(ROOT / "ci_scripts"), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1


def test_the_reported_suite_whose_estimates_are_right_is_even() -> None:
    # sglang#29726: 35, 9, 23 and 8 minutes in name order made shards of 44 and 31 minutes.
    minutes = 60_000
    parts = split(items_of(35 * minutes, 9 * minutes, 23 * minutes, 8 * minutes), 2)
    assert makespan(parts) == 40 * minutes


def test_better_than_longest_first_where_that_is_not_the_best() -> None:
    # The worst case of longest-first for two shards: 7 instead of 6.
    assert lpt([3, 3, 2, 2, 2], 2) == 7
    assert makespan(split(items_of(3, 3, 2, 2, 2), 2)) == 6


def test_two_files_in_three_shards_make_two_shards() -> None:
    # vllm#32040: the third, empty shard failed the job.
    assert [len(part.items) for part in split(items_of(5, 5), 3)] == [1, 1]


def test_no_file_makes_no_shard() -> None:
    assert split([], 3) == ()
    assert fewest([], 1000) == ()


def test_a_file_that_alone_exceeds_the_limit_gets_a_shard_and_the_rest_stay_few() -> None:
    parts = fewest(items_of(90, 20, 20, 20, 20), 60)
    assert sorted(part.ms for part in parts) == [80, 90]


def test_files_that_take_no_time_are_spread_too() -> None:
    assert [len(part.items) for part in split(items_of(0, 0, 0), 3)] == [1, 1, 1]


def test_no_shard_and_a_doubled_path_are_refused() -> None:
    with pytest.raises(ValueError, match="0 shards"):
        split(items_of(1), 0)
    with pytest.raises(ValueError, match=r"test_000\.py stands twice"):
        split([*items_of(1), *items_of(2)], 1)


def test_two_shards_are_spread_over_both() -> None:
    weights = [8, 7, 6, 5, 4]
    assert heaviest(weights, pairs(weights, [[0, 1, 2], [3, 4]], 15)) == 15


def test_real_suites_in_every_number_of_shards_are_near_the_lower_bound() -> None:
    above = {}
    for name, files in real_suites():
        times = [item.ms for item in files]
        times.sort(reverse=True)
        for shards in range(1, len(files) + 1):
            reached = makespan(split(files, shards))
            assert reached <= lpt(times, shards), (name, shards)
            least = lower_bound(times, shards)
            if reached > 1.01 * least:
                above[name, shards] = reached / least
    assert max(above.values()) < 1.17, above
    assert len(above) <= 57, above


def test_adding_a_file_moves_few_others() -> None:
    # Longest-first moves more than half of the files of these suites.
    suites = dict(real_suites())
    for name, shards in (
        ("cpu base-a-test-cpu", 8),
        ("cuda base-b-test-1-gpu-small", 8),
        ("cuda base-b-test-1-gpu-large", 8),
    ):
        files = suites[name]
        before = places(split(files, shards))
        moved = []
        for number in range(10):
            new = Item(f"test_new_{number}.py", files[number * len(files) // 10].ms)
            after = places(split([*files, new], shards))
            moved.append(sum(after[path] != shard for path, shard in before.items()))
        assert statistics.median(moved) <= 4 * shards, (name, moved)


def places(parts: Sequence[Part]) -> dict[str, int]:
    return {item.path: shard for shard, part in enumerate(parts) for item in part.items}


def test_a_suite_of_many_files_reaches_the_bound() -> None:
    times = sorted((number * 7919 % 299_993 + 1 for number in range(20_000)), reverse=True)
    names = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(20_000)]
    bins = balance(times, names, 64)
    assert heaviest(times, bins) <= min(1.000001 * sum(times) / 64, lpt(times, 64))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
