"""Creeps, noise, and machines that change by themselves: the faults that users reported.

Change points are given as data here; test_perf_faults.py has the same faults with Otava.
"""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.config.perf import Rule
from runci.nightly.decide.visits import past
from runci.nightly.history.lines import Point, Turn
from runci.nightly.record import Direction
from runci.nightly.verdict import Confirmed, Status, Verdict

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

RULE = Rule()


# Creeps.


def creeping(slope: float, nights: int = 60, seed: int = 3) -> list[Point]:
    source = random.Random(seed)
    return [
        sim.point(n, (1 + max(n - 15, 0) * slope) * (1 + source.gauss(0, 0.003)))
        for n in range(nights)
    ]


def test_a_slow_creep_is_found_against_the_pinned_baseline_though_no_night_steps() -> None:
    one, verdicts = sim.replayed(sim.series(creeping(0.0015)))
    (event,) = one.events
    assert (event.turn, event.confirmed_by) == (Turn.REGRESSION, Confirmed.BASELINE.value)
    found = next(n for n, v in enumerate(verdicts) if v.status is Status.REGRESSION)
    assert 33 <= found <= 41  # beyond 3 % from night 35 on
    assert sim.night(18) <= event.since <= sim.night(33)
    assert verdicts[-1].status is Status.REGRESSION


def test_a_creep_that_its_interval_does_not_prove_is_not_claimed() -> None:
    wide = [replace(p, candidate=tuple(6 * r for r in (0.9, 0.95, 1.035, 1.1, 1.15)))
            for p in sim.ratios((30, 1.0))]  # fmt: skip
    points = [
        *sim.ratios((20, 1.0)),
        *(replace(p, night=sim.night(20 + n)) for n, p in enumerate(wide)),
    ]
    verdict, events = sim.judged(sim.series(points))
    assert (verdict.status, events) == (Status.NOISY, ())


def test_nights_from_before_a_recovery_are_no_creep() -> None:
    points = sim.ratios((30, 1.0), (20, 1.05), (20, 1.0))
    one, verdicts = sim.replayed(sim.series(points), sim.at_the_step)
    assert [e.turn for e in one.events] == [Turn.REGRESSION, Turn.RECOVERED]
    assert verdicts[-1].status is Status.STEADY


# Noise.


def wide(index: int, ratio: float = 1.0, width: float = 0.05) -> Point:
    candidate = tuple(6 * ratio * (1 + width * k) for k in (-1, -0.6, 0, 0.6, 1))
    return sim.point(index, candidate=candidate)


def test_a_night_whose_pairs_do_not_agree_claims_nothing() -> None:
    steady = sim.ratios((30, 1.0))
    verdict, events = sim.judged(
        sim.series([*steady, sim.point(30, 1.05), wide(31, 1.05, 0.08)]), None, 30
    )
    assert (verdict.status, events) == (Status.NOISY, ())
    assert "spread" in verdict.reason
    verdict, events = sim.judged(sim.series([*steady, wide(30, 1.0, 0.08)]))
    assert verdict.status is Status.NOISY
    # Three points wide in a quiet series happens by chance: five pairs are few.
    assert sim.judged(sim.series([*steady, wide(30, 1.0, 0.04)]))[0].status is Status.STEADY
    always = sim.series([wide(n, 1.0, 0.04) for n in range(31)])
    assert sim.judged(always)[0].status is Status.NOISY


def test_a_change_far_beyond_the_noise_is_claimed_all_the_same() -> None:
    points = [wide(n, 1.0 if n < 30 else 1.5, 0.08) for n in range(33)]
    verdict, _ = sim.judged(sim.series(points), None, 30)
    assert verdict.status is Status.REGRESSION


def modes(nights: int, other: float, seed: int = 5) -> list[Point]:
    source = random.Random(seed)
    return [
        sim.point(n, (other if source.random() < 0.4 else 1.0) * (1 + source.gauss(0, 0.003)))
        for n in range(nights)
    ]


@pytest.mark.parametrize("other", [0.94, 1.06])
def test_two_modes_of_one_machine_are_noise_and_no_regression_each_time(other: float) -> None:
    one = sim.series(modes(80, other))
    # Otava sees a new level wherever a mode begins.
    value = [p.candidate[2] / 6 for p in one.points]
    flips = [n for n, (a, b) in enumerate(itertools.pairwise(value), 1) if abs(a - b) > 0.03]
    after, verdicts = sim.replayed(one, lambda n: [f for f in flips if f <= n])
    assert after.events == ()
    assert {v.status for v in verdicts[20:]} == {Status.NOISY}
    assert "two levels" in verdicts[-1].reason


def test_a_machine_with_two_modes_that_stays_in_one_has_changed() -> None:
    points = [*modes(50, 1.06), *(sim.point(50 + n, 1.06) for n in range(30))]
    one, _ = sim.replayed(sim.series(points), lambda n: (50,) if n >= 50 else ())
    assert [e.turn for e in one.events] == [Turn.REGRESSION]
    assert sim.night(55) < one.events[0].night < sim.night(75)


@pytest.mark.parametrize(
    ("off", "needed", "alike"),
    [
        ([0.0] * 48 + [0.05, 0.05], 2, 0),
        ([0.0] * 20 + [0.05] + [0.0] * 27 + [0.05, 0.05], 3, 1),  # 1 of 50: 1e-4 = 0.02 ** 2.4
        ([0.0] * 20 + [0.12] + [0.0] * 27 + [0.05, 0.05], 2, 0),  # of another size
        ([0.05] * 12 + [0.0] * 36 + [0.05, 0.05], 2, 0),  # who stayed so long came by a commit
        ([0.05] * 5 + [0.0] * 10 + [0.05] * 5 + [0.0] * 28 + [0.05] * 2, 10, 2),
        ([0.05, 0.02, 0.05, *[0.0] * 45, 0.05, 0.05], 3, 1),  # noise makes no two visits of one
        ([0.10, 0.02, *[0.0] * 46, 0.05, 0.05], 2, 0),  # and half of a spike is no level
    ],
)
def test_how_many_nights_are_enough_depends_on_what_came_back_by_itself(
    off: list[float], needed: int, alike: int
) -> None:
    known = past(off, RULE)
    assert (known.needed, known.alike) == (needed, alike)


# The machine.


def test_a_fast_runner_one_night_makes_neither_that_night_nor_the_next_look_changed() -> None:
    points = sim.ratios((40, 1.0))
    points[30] = sim.scaled(points[30], 0.8)
    one, verdicts = sim.replayed(sim.series(points), lambda n: (n,))
    assert one.events == ()
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}
    assert not any(v.watch for v in verdicts)


@pytest.mark.parametrize("factor", [0.85, 1.07])
def test_another_cpu_or_a_hotter_box_changes_the_baseline_and_not_the_ratio(factor: float) -> None:
    points = [sim.scaled(p, factor) if n >= 30 else p for n, p in enumerate(sim.ratios((45, 1.0)))]
    one, verdicts = sim.replayed(sim.series(points), sim.at_the_step)
    assert one.events == ()
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}
    assert "the machine changed" in verdicts[30].reason
    assert "machine" not in verdicts[29].reason
    assert "machine" not in verdicts[44].reason


def summary(verdict: Verdict) -> tuple[Status, bool]:
    return verdict.status, verdict.watch


@given(st.randoms(use_true_random=False), st.sampled_from(list(Direction)))
def test_scaling_time_or_speed_of_everything_changes_no_verdict(
    source: random.Random, direction: Direction
) -> None:
    """A machine that is twice as fast in all says the same."""
    points = sim.ratios((15, 1.0), (source.randint(1, 5), source.uniform(0.8, 1.2)))
    one = sim.series(points, direction=direction)
    two = sim.series([sim.scaled(p, 0.5) for p in points], direction=direction)
    assert summary(sim.judged(one, None, 15)[0]) == summary(sim.judged(two, None, 15)[0])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
