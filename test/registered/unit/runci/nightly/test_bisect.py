"""The search for the commit that made a metric worse, from noisy pairs."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from runci import register_cpu_ci
from runci.nightly.bisect import (
    ENDS,
    NOISE,
    Bisection,
    Found,
    candidates,
    found,
    groups,
    next_commit,
    pair_noise,
    posterior,
)
from runci.nightly.decide.values import Value

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")


def known(
    commits: int, pairs: dict[int, list[float]] | None = None, broken: tuple[int, ...] = ()
) -> Bisection:
    return Bisection(commits, 0.05, 0.01, pairs or {}, broken)


def test_with_nothing_measured_every_commit_is_as_likely() -> None:
    assert posterior(known(4)) == pytest.approx([0.2] * 5)
    assert found(known(4)) is None


@pytest.mark.parametrize(
    ("commits", "pairs", "broken", "chosen"),
    [
        (8, {}, (), 8),  # first whether it is seen here at all
        (8, {8: [0.05, 0.05]}, (), 8),
        (8, {8: [0.05] * 3}, (), 4),
        (8, {8: [0.05] * 3, 4: [0.05] * 4}, (), 2),
        (8, {8: [0.05] * 3, 4: [0.0] * 4}, (), 6),
        (8, {8: [0.05] * 3}, (4,), 3),  # the nearest that can be measured
        (8, {8: [0.05] * 3}, (2, 3, 4, 5, 6), 1),
        (8, {8: [0.05] * 3, 5: [0.05] * 4, 4: [-0.02]}, (), 4),  # sure, but by one pair
        (1, {1: [0.05]}, (), 1),
        (3, {}, (1, 2, 3), None),
    ],
)
def test_the_next_one_halves_what_is_likely(
    commits: int, pairs: dict[int, list[float]], broken: tuple[int, ...], chosen: int | None
) -> None:
    assert next_commit(known(commits, pairs, broken)) == chosen


@pytest.mark.parametrize(
    ("pairs", "broken", "answer"),
    [
        ({8: [0.05] * 3, 5: [0.05] * 4, 4: [0.0] * 4}, (), (5, 5)),
        ({8: [0.05] * 3, 1: [0.05] * 5}, (), (1, 1)),
        ({8: [0.05] * 4, 7: [0.0] * 5}, (), (8, 8)),
        # The one before cannot be measured: it may be either.
        ({8: [0.05] * 3, 5: [0.05] * 4, 3: [0.0] * 4}, (4,), (4, 5)),
        ({8: [0.05] * 3, 5: [0.05] * 4, 2: [0.0] * 4}, (3, 4), (3, 5)),
        # Nothing is seen on this machine.
        ({8: [0.0] * 6}, (), (0, 0)),
        # One pair that is far off is not believed.
        ({8: [0.05] * 3, 5: [0.05] * 4, 4: [0.0, 0.3, 0.0, 0.0, 0.0]}, (), (5, 5)),
        # Not sure enough yet.
        ({8: [0.05] * 3}, (), None),
        ({8: [0.05] * 3, 5: [0.05] * 4, 4: [0.03, 0.02]}, (), None),
        # The change is larger here than the nightly's machine had it.
        ({8: [0.2] * 3, 5: [0.2] * 3, 4: [0.0] * 3}, (), (5, 5)),
    ],
)
def test_the_culprit_is_named_once_it_is_sure(
    pairs: dict[int, list[float]], broken: tuple[int, ...], answer: tuple[int, int] | None
) -> None:
    said = found(known(8, pairs, broken))
    assert (said and (said.first, said.last)) == answer
    assert said is None or said.confidence >= 0.99


def test_only_commits_that_can_be_measured_tell_culprits_apart() -> None:
    assert groups(known(5)) == [range(n, n + 1) for n in range(1, 6)]
    assert groups(known(5, broken=(2, 3))) == [range(1, 2), range(2, 5), range(5, 6)]


def test_what_is_left_is_told_where_nothing_is_sure() -> None:
    assert candidates(known(8, {8: [0.05] * 3, 5: [0.05] * 4, 2: [0.0] * 4})) == [3, 4, 5]


def a_pair(chance: random.Random, noise: float) -> float:
    """How far one pair is off; 3 % of them by ten per cent."""
    return chance.gauss(0, noise) + (chance.choice((-0.1, 0.1)) if chance.random() < 0.03 else 0)


def a_night(chance: random.Random, noise: float, base: float | None = 5.0) -> Value:
    """A night of five pairs; without a baseline of five figures."""
    unit = 1.2 if base else 6.0
    pairs = tuple(unit * (1 + a_pair(chance, noise)) for _ in range(5))
    return Value("2026-10-01", "c", median(pairs), pairs, median(pairs), base=base)


def searched(commits: int, culprit: int, noise: float, seed: int) -> tuple[Found | None, int]:
    """A whole search among commits, and how many pairs it took; 60 at most.

    What is known before of the noise is what thirty nights say.
    """
    chance = random.Random(seed)
    before = pair_noise([a_night(chance, noise) for _ in range(30)])
    pairs: dict[int, list[float]] = {}
    for count in range(60):
        here = Bisection(commits, 0.05, before, pairs)
        if (answer := found(here)) is not None:
            return answer, count
        commit = next_commit(here)
        assert commit is not None
        level = 0.05 if culprit and commit >= culprit else 0.0
        pairs.setdefault(commit, []).append(level + a_pair(chance, noise))
    return None, 60


@pytest.mark.parametrize(
    ("noise", "most", "least"),
    [(0.003, 12, 0.99), (0.01, 12, 0.99), (0.02, 20, 0.99), (0.03, 38, 0.9)],
)
def test_it_finds_the_culprit_with_few_pairs(noise: float, most: int, least: float) -> None:
    """Five per cent among 32 commits. Where pairs run out it says so, and names nobody."""
    runs = [(1 + seed % 32, *searched(32, 1 + seed % 32, noise, seed)) for seed in range(200)]
    right = [said for culprit, said, _ in runs if said and said.first == culprit]
    wrong = [said for culprit, said, _ in runs if said and said.first != culprit]
    assert len(right) >= least * len(runs)
    assert len(wrong) <= 0.01 * len(runs)
    assert sorted(count for _, _, count in runs)[100] <= most


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_the_noise_of_a_pair_is_known_by_the_pairs_of_nights(noise: float) -> None:
    chance = random.Random(1)
    assert pair_noise([a_night(chance, noise) for _ in range(400)]) == pytest.approx(
        noise, rel=0.12
    )
    alone = [a_night(chance, noise, base=None) for _ in range(400)]  # a pair has the noise of two
    assert pair_noise(alone) == pytest.approx(noise * 2**0.5, rel=0.12)


def test_few_nights_say_nothing_of_the_noise() -> None:
    assert pair_noise([a_night(random.Random(1), 0.03)]) == pair_noise([]) == NOISE


def test_what_is_not_there_is_not_found() -> None:
    runs = [searched(32, 0, 0.01, seed) for seed in range(100)]
    assert sum(said == Found(0, 0, said.confidence) for said, _ in runs if said) >= 95
    assert min(count for _, count in runs) >= ENDS


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
