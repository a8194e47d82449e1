"""Creeps, noise, and machines that change by themselves: the faults that users reported."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.nightly.history.lines import Point, Turn
from runci.nightly.record import Direction
from runci.nightly.verdict import Confirmed, Status, Verdict

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

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


def test_nights_from_before_a_recovery_are_no_creep() -> None:
    points = sim.ratios((30, 1.0), (20, 1.05), (20, 1.0))
    one, verdicts = sim.replayed(sim.series(points))
    assert [e.turn for e in one.events] == [Turn.REGRESSION, Turn.RECOVERED]
    assert verdicts[-1].status is Status.STEADY


# Noise.


def modes(nights: int, other: float, seed: int = 5) -> list[Point]:
    source = random.Random(seed)
    return [
        sim.point(n, (other if source.random() < 0.4 else 1.0) * (1 + source.gauss(0, 0.003)))
        for n in range(nights)
    ]


def test_two_modes_of_one_machine_are_noise_and_no_regression_each_time() -> None:
    after, verdicts = sim.replayed(sim.series(modes(80, 1.06)))
    assert after.events == ()
    assert {v.status for v in verdicts[20:]} == {Status.NOISY}
    assert "smallest step" in verdicts[-1].reason  # and how large it is
    assert "8.4 %" in verdicts[-1].reason


def test_a_machine_with_two_modes_that_stays_in_one_has_changed() -> None:
    points = [*modes(50, 1.06), *(sim.point(50 + n, 1.06) for n in range(30))]
    one, _ = sim.replayed(sim.series(points))
    assert [e.turn for e in one.events] == [Turn.REGRESSION]
    assert sim.night(50) < one.events[0].night < sim.night(64)


def test_the_noise_of_a_series_says_what_can_be_seen_in_it() -> None:
    """5 % is found at once in a quiet one, later in a loud one, and none of them alarms before."""
    found = []
    for sigma in (0.005, 0.03):
        points = sim.ratios((60, 1.0), (14, 1.05), sigma=sigma, seed=2)
        one, verdicts = sim.replayed(sim.series(points))
        assert [e.turn for e in one.events] == [Turn.REGRESSION]
        found.append(next(n for n, v in enumerate(verdicts) if v.status is Status.REGRESSION))
    assert found[0] == 61 < found[1] <= 70


# The machine.


def test_a_fast_runner_one_night_makes_neither_that_night_nor_the_next_look_changed() -> None:
    points = sim.ratios((40, 1.0))
    points[30] = sim.scaled(points[30], 0.8)
    one, verdicts = sim.replayed(sim.series(points))
    assert one.events == ()
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}
    assert not any(v.watch for v in verdicts)


@pytest.mark.parametrize("factor", [0.85, 1.07])
def test_another_cpu_or_a_hotter_box_changes_the_baseline_and_not_the_ratio(factor: float) -> None:
    points = [sim.scaled(p, factor) if n >= 30 else p for n, p in enumerate(sim.ratios((45, 1.0)))]
    one, verdicts = sim.replayed(sim.series(points))
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
    assert summary(sim.judged(one)[0]) == summary(sim.judged(two)[0])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
