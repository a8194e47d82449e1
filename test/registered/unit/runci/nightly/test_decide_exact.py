"""What the nightly says of a check, which passes or fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.nightly.history.lines import Turn
from runci.nightly.verdict import Confirmed, Status

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_one_failure_is_a_regression_at_once_and_one_pass_the_recovery() -> None:
    one, verdicts = sim.replayed(sim.exact([True, True, False, False, True, *[True] * 8]))
    statuses = [v.status for v in verdicts]
    assert statuses[:4] == [Status.STEADY] * 2 + [Status.REGRESSION] * 2
    assert statuses[4:11] == [Status.RECOVERED] * 7
    assert statuses[11:] == [Status.STEADY] * 2
    assert {v.confirmed_by for v in verdicts[2:4]} == {Confirmed.EXACT}
    assert (verdicts[3].since, verdicts[3].last_good) == (sim.night(2), sim.commit(1))
    assert [(e.turn, e.night) for e in one.events] == [
        (Turn.REGRESSION, sim.night(2)),
        (Turn.RECOVERED, sim.night(4)),
    ]


def test_a_failure_on_the_very_first_night_is_a_regression() -> None:
    verdict, (event,) = sim.judged(sim.exact([False]))
    assert (verdict.status, event.last_good) == (Status.REGRESSION, "")


def test_an_accepted_failure_is_normal_until_it_passes() -> None:
    results = [True, False, False, False, True, False]
    failing, _ = sim.replayed(sim.exact(results), until=2)
    accepting = replace(failing, accepts=(sim.accepted(1, "another order of sums"),))
    one, verdicts = accepting, []
    for index in (3, 4, 5):
        verdict, events = sim.judged(one, index)
        verdicts.append(verdict)
        one = replace(one, events=one.events + events)
    assert [v.status for v in verdicts] == [
        Status.STEADY,
        Status.IMPROVEMENT,
        Status.REGRESSION,
    ]
    assert "order of sums" in verdicts[0].reason


def test_no_result_is_neither_a_pass_nor_a_failure() -> None:
    verdict, events = sim.judged(sim.exact([True, None]))
    assert (verdict.status, events) == (Status.MISSING, ())
    one, _ = sim.replayed(sim.exact([True, False, None]), until=1)
    verdict, events = sim.judged(one, 2)
    assert (verdict.status, events) == (Status.REGRESSION, ())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
