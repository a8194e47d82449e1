"""When a step is a change, which one, and when it is confirmed."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.nightly.history.lines import Turn
from runci.nightly.record import Direction
from runci.nightly.verdict import Confirmed, Status

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

# Steps.


def test_a_step_is_watched_on_its_first_night_and_a_regression_on_its_second() -> None:
    one, verdicts = sim.replayed(sim.series(sim.STEP))
    assert {v.status for v in verdicts[9:30]} == {Status.STEADY}
    assert not any(v.watch for v in verdicts[:30])
    first, second = verdicts[30:32]
    assert (first.status, first.watch, first.confirmed_by) == (
        Status.STEADY,
        True,
        Confirmed.NOT_YET,
    )
    assert "not confirmed" in first.reason
    assert (second.status, second.confirmed_by) == (Status.REGRESSION, Confirmed.SECOND_NIGHT)
    assert (second.since, second.since_commit, second.last_good) == (
        sim.night(30),
        sim.commit(30),
        sim.commit(29),
    )
    assert second.change == pytest.approx(0.05, abs=0.01)
    assert second.low is not None and second.high is not None
    assert 0 < second.low < second.change < second.high
    (event,) = one.events
    assert (event.turn, event.night, event.since) == (
        Turn.REGRESSION,
        sim.night(31),
        sim.night(30),
    )
    assert event.level == pytest.approx(1.0, abs=0.005)


def test_a_regression_never_becomes_normal_and_is_told_once() -> None:
    """«The regression becomes the baseline»; «a rule that clears a real step after some nights»;
    «43 alerts»: forty nights later it is open, against the same level, with the one event."""
    one, verdicts = sim.replayed(sim.series(sim.STEP))
    assert {v.status for v in verdicts[31:]} == {Status.REGRESSION}
    assert len(one.events) == 1
    assert verdicts[-1].level == verdicts[31].level
    assert verdicts[-1].since == sim.night(30)


def test_without_the_event_the_same_night_says_the_same() -> None:
    """Where nobody pushes events, every night decides alone."""
    verdict, events = sim.judged(sim.series(sim.STEP))
    assert (verdict.status, verdict.since, len(events)) == (Status.REGRESSION, sim.night(30), 1)


def test_deciding_a_night_again_adds_nothing() -> None:
    one, _ = sim.replayed(sim.series(sim.STEP))
    verdict, events = sim.judged(one, 31)
    assert (verdict.status, events) == (Status.REGRESSION, ())


def test_what_is_later_than_the_night_is_not_looked_at() -> None:
    one, verdicts = sim.replayed(sim.series(sim.STEP))
    assert sim.judged(one, 30)[0] == verdicts[30]
    assert sim.judged(one, 29)[0] == verdicts[29]


def test_a_change_point_below_the_least_change_is_none() -> None:
    small = sim.series(sim.ratios((30, 1.0), (20, 1.02)))
    verdict, events = sim.judged(small)
    assert (verdict.status, verdict.watch, events) == (Status.STEADY, False, ())


def test_a_spike_of_one_night_raises_nothing() -> None:
    points = [sim.point(n, 1.1 if n in (20, 33, 51) else 1.0) for n in range(60)]
    one, verdicts = sim.replayed(sim.series(points))
    assert one.events == ()
    assert [n for n, v in enumerate(verdicts) if v.watch] == [20, 33, 51]
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}


def test_of_two_nights_the_nearer_one_says_how_far_they_are() -> None:
    for second, status in ((1.02, Status.STEADY), (1.18, Status.REGRESSION)):
        points = [*sim.ratios((30, 1.0)), sim.point(30, 1.18), sim.point(31, second)]
        assert sim.judged(sim.series(points))[0].status is status


def test_where_a_spike_was_as_large_before_a_second_night_is_not_enough() -> None:
    points = [sim.point(n, 1.1 if n in (20, 40, 41, 42, 43) else 1.0) for n in range(44)]
    _, verdicts = sim.replayed(sim.series(points))
    assert [v.status for v in verdicts[40:]] == [Status.STEADY] * 2 + [Status.REGRESSION] * 2
    # A smaller one does not delay it.
    other = [sim.point(n, 1.05 if n == 20 else 1.1 if n >= 40 else 1.0) for n in range(44)]
    _, verdicts = sim.replayed(sim.series(other))
    assert verdicts[41].status is Status.REGRESSION


def test_a_re_run_confirms_a_step_on_its_first_night() -> None:
    bad = sim.point(30, 1.05)
    steady = sim.ratios((30, 1.0))
    verdict, events = sim.judged(sim.series([*steady, sim.rerun(bad, 1.05)]))
    assert (verdict.status, verdict.confirmed_by) == (Status.REGRESSION, Confirmed.PAIRED)
    assert events[0].confirmed_by == Confirmed.PAIRED.value
    for ratio in (1.0, 1.015, 1.025):  # the re-run does not see it, or does not see enough of it
        verdict, events = sim.judged(sim.series([*steady, sim.rerun(bad, ratio)]))
        assert (verdict.status, verdict.watch, events) == (Status.STEADY, True, ())
        assert "measured again" in verdict.reason
    # A re-run is no second opinion on a level that the machine has been at by itself.
    points = [*steady, sim.rerun(bad, 1.05)]
    points[20] = sim.point(20, 1.05)
    assert sim.judged(sim.series(points))[1] == ()


def test_a_re_run_that_is_no_measurement_confirms_nothing() -> None:
    bad = sim.rerun(sim.point(30, 1.05), 1.05)
    for more in (
        {"again_candidate": (6.3, math.nan, 6.3)},
        {"again_baseline": (6.0,)},
        {"again_candidate": (6.3,), "again_baseline": (6.0,)},
    ):
        one = replace(bad, **more)  # type: ignore[arg-type]
        assert sim.judged(sim.series([*sim.ratios((30, 1.0)), one]))[1] == ()


def test_a_step_inside_a_gap_is_confirmed_by_the_next_two_nights_that_ran() -> None:
    points = [p for p in sim.ratios((30, 1.0), (30, 1.05)) if not 28 <= int(p.run_id) < 45]
    one, verdicts = sim.replayed(sim.series(points))
    assert {v.status for v in verdicts[28:45]} == {Status.MISSING}
    assert [v.status for v in verdicts[45:47]] == [Status.STEADY, Status.REGRESSION]
    assert one.events[0].since == sim.night(45)


# Direction.


@pytest.mark.parametrize(
    ("direction", "ratio", "status"),
    [
        (Direction.LOWER, 1.05, Status.REGRESSION),
        (Direction.LOWER, 0.95, Status.IMPROVEMENT),
        (Direction.HIGHER, 0.95, Status.REGRESSION),
        (Direction.HIGHER, 1.05, Status.IMPROVEMENT),
    ],
)
def test_the_direction_says_what_is_worse(
    direction: Direction, ratio: float, status: Status
) -> None:
    one = sim.series(sim.ratios((30, 1.0), (6, ratio)), direction=direction)
    verdict, (event,) = sim.judged(one)
    assert (verdict.status, event.turn.value) == (status, status.value)
    sign = 1 if status is Status.REGRESSION else -1
    for figure in (verdict.change, verdict.low, verdict.high):
        assert figure is not None and sign * figure > 0.03
    assert verdict.low is not None and verdict.high is not None and verdict.low < verdict.high


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
