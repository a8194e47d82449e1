"""A metric's budget, held each night without any history."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.config.perf import Budget
from runci.core.errors import RunciError
from runci.nightly.decide.exact import hold, is_over
from runci.nightly.history.lines import Series, Turn
from runci.nightly.record import Direction
from runci.nightly.verdict import Confirmed, Status, Verdict

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

LOWER, HIGHER = Direction.LOWER, Direction.HIGHER


def memory(values: Sequence[float | None], direction: Direction = LOWER) -> Series:
    """A night each as slow as the baseline, None for one whose figures do not count."""
    points = [
        sim.point(n, candidate=(v,) * 5, baseline=(v,) * 5, unusable=unusable)
        for n, v, unusable in (
            (n, v or 999.0, () if v else ("throttled",)) for n, v in enumerate(values)
        )
    ]
    return replace(sim.series(points, direction=direction), unit="MiB")


def held(series: Series, limit: float = 900) -> Verdict:
    return hold(sim.judged(series)[0], series, Budget(limit, "MiB"))


@pytest.mark.parametrize(
    ("value", "limit", "direction", "over"),
    [
        (899.9, 900, LOWER, False),
        (900.0, 900, LOWER, False),
        (900.1, 900, LOWER, True),
        (0.0, 0, LOWER, False),
        (1.0, 0, LOWER, True),
        (899.9, 900, HIGHER, True),
        (900.0, 900, HIGHER, False),
        (0.0, 0, HIGHER, False),
    ],
)
def test_the_limit_itself_is_allowed(
    value: float, limit: float, direction: Direction, over: bool
) -> None:
    assert is_over(value, limit, direction) is over


@pytest.mark.parametrize(
    ("values", "since", "last_good"),
    [
        ([901.0], 0, None),  # the first night of all
        ([800.0, 950.0], 1, 0),
        ([800.0, 950.0, 950.0], 1, 0),
        ([950.0, 800.0, 950.0], 2, 1),
        ([800.0, None, 950.0], 2, 0),
        ([800.0, 950.0, None, 950.0], 1, 0),
    ],
)
def test_over_it_is_a_regression_at_once(
    values: list[float | None], since: int, last_good: int | None
) -> None:
    found = held(memory(values))
    assert (found.status, found.confirmed_by) == (Status.REGRESSION, Confirmed.BUDGET)
    assert (found.since, found.since_commit) == (sim.night(since), sim.commit(since))
    assert found.last_good == (None if last_good is None else sim.commit(last_good))
    assert found.change == pytest.approx((values[-1] or 0) / 900 - 1)


@pytest.mark.parametrize("values", [[900.0], [950.0, 800.0], [800.0, 950.0, None]])
def test_within_it_or_without_figures_nothing_changes(values: list[float | None]) -> None:
    series = memory(values)
    assert held(series) == sim.judged(series)[0]
    assert hold(sim.judged(series)[0], series, None) == sim.judged(series)[0]


def test_where_higher_is_better_it_is_a_floor() -> None:
    assert held(memory([800.0], HIGHER)).change == pytest.approx(1 - 800 / 900)
    assert held(memory([950.0], HIGHER)).status is not Status.REGRESSION


def test_a_regression_keeps_its_own_commits_and_says_both() -> None:
    points = sim.ratios((30, 1.0), (5, 1.5))
    series = sim.series(points, events=[sim.event(Turn.REGRESSION, 30, 31, 0.5)])
    bare = sim.judged(series)[0]
    found = hold(bare, series, Budget(7.0, "us"))
    assert found == replace(bare, reason=found.reason)
    assert found.reason.startswith(bare.reason) and "budget is 7 us" in found.reason


def test_another_unit_is_an_error() -> None:
    series = memory([800.0])
    with pytest.raises(RunciError, match=r"in GiB, .* in MiB"):
        hold(sim.judged(series)[0], series, Budget(1, "GiB"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
