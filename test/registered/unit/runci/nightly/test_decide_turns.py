"""How a regression ends: recovered, accepted, improved, or against another baseline."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.nightly.decide.turns import turns
from runci.nightly.history.lines import Turn
from runci.nightly.verdict import Status

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_a_regression_is_over_after_two_nights_back_and_stays_on_record() -> None:
    points = sim.ratios((30, 1.0), (10, 1.05), (1, 1.0), (3, 1.05), (20, 1.0))
    one, verdicts = sim.replayed(sim.series(points))
    assert {v.status for v in verdicts[31:45]} == {Status.REGRESSION}  # one good night is not
    assert "second night" in verdicts[40].reason
    assert {v.status for v in verdicts[45:52]} == {Status.RECOVERED}
    assert {v.status for v in verdicts[52:]} == {Status.STEADY}
    assert [e.turn for e in one.events] == [Turn.REGRESSION, Turn.RECOVERED]
    assert (verdicts[45].since, verdicts[45].last_good) == (sim.night(44), sim.commit(43))
    segments = verdicts[-1].segments
    assert [(s.first, s.points) for s in segments] == [
        (sim.night(0), 30),
        (sim.night(30), 14),
        (sim.night(44), 20),
    ]
    assert [round(s.level, 2) for s in segments] == [1.0, 1.05, 1.0]


def test_half_way_back_is_not_back() -> None:
    points = sim.ratios((30, 1.0), (10, 1.06), (20, 1.02))
    one, verdicts = sim.replayed(sim.series(points))
    assert verdicts[-1].status is Status.REGRESSION
    assert verdicts[-1].change == pytest.approx(0.02, abs=0.005)
    assert len(one.events) == 1


def test_an_accepted_level_is_the_new_normal_and_a_frozen_baseline_does_not_alarm_for_ever() -> (
    None
):
    one, _ = sim.replayed(sim.series(sim.STEP), until=35)
    one = replace(one, accepts=(sim.accepted(30, "more precise"),))
    verdict, events = sim.judged(one, 33)
    assert (verdict.status, verdict.accepted, events) == (Status.TOO_LITTLE, True, ())
    assert "3 more" in verdict.reason and sim.night(30) in verdict.reason
    verdict, events = sim.judged(one, 69)
    assert (verdict.status, verdict.accepted, events) == (Status.STEADY, True, ())
    assert verdict.level == pytest.approx(1.05, abs=0.005)
    assert len(one.events) == 1  # and the record still has it


def test_worse_than_an_accepted_level_is_a_regression_again() -> None:
    points = sim.ratios((30, 1.0), (20, 1.05), (10, 1.10))
    one = sim.series(
        points, accepts=[sim.accepted(30)], events=[sim.event(Turn.REGRESSION, 30, 31)]
    )
    verdict, (event,) = sim.judged(one)  # of the segment, which begins at night 30
    assert (verdict.status, verdict.accepted, event.since) == (
        Status.REGRESSION,
        False,
        sim.night(50),
    )
    assert event.level == pytest.approx(1.05, abs=0.005)


def test_an_acceptance_settles_only_what_began_by_then() -> None:
    events = [sim.event(Turn.REGRESSION, 30, 31), sim.event(Turn.REGRESSION, 50, 51)]
    one = sim.series(sim.STEP, accepts=[sim.accepted(30)], events=events)
    assert turns(one, sim.night(69)).open == events[1]
    assert turns(one, sim.night(40)).accepted
    assert turns(one, sim.night(29)).accept is None


def test_an_improvement_takes_five_nights_becomes_the_level_and_losing_it_is_a_regression() -> None:
    points = sim.ratios((30, 1.0), (20, 0.9), (10, 1.0))
    one, verdicts = sim.replayed(sim.series(points))
    assert [v.status for v in verdicts[30:35]] == [Status.STEADY] * 4 + [Status.IMPROVEMENT]
    assert all(v.watch for v in verdicts[30:34])
    assert {v.status for v in verdicts[34:41]} == {Status.IMPROVEMENT}
    assert {v.status for v in verdicts[41:50]} == {Status.STEADY}
    assert verdicts[49].level == pytest.approx(0.9, abs=0.005)
    assert verdicts[51].status is Status.REGRESSION
    assert verdicts[51].change == pytest.approx(0.11, abs=0.01)
    assert [e.turn for e in one.events] == [Turn.IMPROVEMENT, Turn.REGRESSION]


def test_another_pinned_baseline_starts_a_segment_and_leaves_a_regression_open() -> None:
    points = [
        replace(p, baseline_commit="c" * 40) if n >= 50 else p for n, p in enumerate(sim.STEP[:65])
    ]
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 30, 31)])
    verdict, events = sim.judged(one)
    assert (verdict.status, verdict.since, events) == (Status.REGRESSION, sim.night(30), ())
    assert "another baseline" in verdict.reason
    fresh = sim.series(points[:55])
    verdict, _ = sim.judged(fresh)
    assert (verdict.status, verdict.points) == (Status.TOO_LITTLE, 5)
    # A run by hand against another baseline hides nothing of the series.
    by_hand = sim.series(
        [*sim.STEP[:40], sim.point(40, 2.0, baseline_commit="d" * 40), *sim.STEP[41:45]]
    )
    assert sim.judged(by_hand)[0].status is Status.REGRESSION


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
