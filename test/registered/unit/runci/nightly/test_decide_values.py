"""The value of a night and of a level, and nights that have none."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.nightly.decide.values import read_nights, why_unusable
from runci.nightly.figures import are_figures, is_figure, quartiles, ratio
from runci.nightly.history.lines import Turn
from runci.nightly.verdict import Status

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

# A night's value.


@given(st.lists(st.floats() | st.sampled_from([1e-30, 1e30, 5e-324, 1e308]), min_size=1))
def test_figures_are_figures_one_by_one_and_together(values: list[float]) -> None:
    assert are_figures(values) is all(map(is_figure, values))
    assert all(value == 0 or 1e-30 <= value <= 1e30 for value in values if is_figure(value))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
@example(0, 0, 10**6)
def test_a_ratio_of_counts_is_finite_above_zero_and_grows_with_what_is_new(
    new: int, more: int, old: int
) -> None:
    assert 0 < ratio(new, old) < ratio(new + more + 1, old) < 1e10
    assert ratio(old, old) == 1


def test_a_count_that_is_zero_is_judged_as_any_other() -> None:
    nights = [
        sim.point(n, candidate=(extra,) * 5, baseline=(0.0,) * 5)
        for n, extra in enumerate([0.0] * 20 + [3.0] * 2 + [0.0] * 3)
    ]
    assert sim.judged(sim.series(nights[:20]))[0].status is Status.STEADY
    found, events = sim.judged(sim.series(nights[:22]))
    assert (found.status, found.since) == (Status.REGRESSION, nights[20].night)
    assert found.change == pytest.approx(3.0)
    assert sim.judged(sim.series(nights, events=events))[0].status is Status.RECOVERED


def test_the_value_of_a_night_is_the_median_over_its_pairs_not_a_ratio_of_medians() -> None:
    # The box gets hotter during the night: each pair is slower than the one before, both alike.
    drift = (1.0, 1.1, 1.2, 1.3, 1.4)
    one = sim.point(
        0,
        candidate=tuple(6.3 * d for d in drift),
        baseline=tuple(6.0 * d for d in reversed(tuple(reversed(drift)))),
    )
    (value,) = read_nights([one], one.night).usable
    assert value.value == pytest.approx(1.05)
    assert value.pairs == pytest.approx([1.05] * 5)
    # One pair hit by something else is one of five.
    hit = replace(one, candidate=(12.0, *one.candidate[1:]))
    assert read_nights([hit], one.night).usable[0].value == pytest.approx(1.05)


def test_without_a_baseline_the_value_is_the_candidate_s_own_median() -> None:
    one = sim.point(0, baseline=(), baseline_commit="", candidate=(5.0, 7.0, 6.0))
    (value,) = read_nights([one], one.night).usable
    assert (value.value, value.base) == (6.0, None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"unusable": ("throttled", "hot")}, "throttled; hot"),
        ({"candidate": (), "baseline": ()}, "no samples"),
        ({"candidate": (1.0, math.nan, 1.0, 1.0, 1.0)}, "nan"),
        ({"candidate": (1.0, math.inf, 1.0, 1.0, 1.0)}, "inf"),
        ({"candidate": (1.0, -3.0, 1.0, 1.0, 1.0)}, "-3"),
        # Their ratio is 0, or infinite, and no level could be divided by it.
        ({"candidate": (1e-320,) * 5, "baseline": (1e308,) * 5}, "a sample is 9.99989e-321"),
        ({"candidate": (1e308,) * 5}, "a sample is 1e+308"),
        ({"candidate": (1.0, 1.0, 1.0)}, "3 of the candidate, 5 of the baseline"),
        ({"baseline": ()}, "no samples of the baseline"),
        ({"candidate": (1.0,), "baseline": (1.0,)}, "1 of at least 3 repetitions"),
    ],
)
def test_bad_figures_make_no_value_and_say_why(more: dict[str, object], reason: str) -> None:
    bad = sim.point(40, **more)
    assert reason in (why_unusable(bad) or "")
    verdict, events = sim.judged(sim.series([*sim.ratios((40, 1.0)), bad]))
    assert (verdict.status, verdict.value, events) == (Status.MISSING, None, ())
    assert reason in verdict.reason


@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=9))
def test_the_distance_between_quartiles_is_within_the_range(figures: list[float]) -> None:
    first, third = quartiles(figures)
    assert min(figures) <= first <= third <= max(figures)


def test_the_distance_between_quartiles_of_five_leaves_out_the_extremes() -> None:
    assert quartiles([9.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 5.0)


def test_of_two_runs_of_a_night_the_last_usable_one_counts() -> None:
    first, second = sim.point(40, 1.0), sim.point(40, 1.2, run_id="x")
    broken = sim.point(40, unusable=("throttled",), run_id="y")
    verdict, _ = sim.judged(sim.series([*sim.ratios((40, 1.0)), first, second, broken]))
    assert verdict.value == pytest.approx(1.2)


def test_against_a_pinned_commit_the_level_is_1_and_without_one_that_of_the_first_nights() -> None:
    points = [sim.point(n, 1 + 0.001 * n) for n in range(15)]
    assert sim.judged(sim.series(points))[0].level == 1.0
    alone = [replace(p, baseline=(), baseline_commit="") for p in points]
    level = sim.judged(sim.series(alone))[0].level
    assert level == pytest.approx(6 * median(1 + 0.001 * n for n in range(7)))
    accepted = sim.series(points, accepts=[sim.accepted(3)])
    level = sim.judged(accepted)[0].level
    assert level == pytest.approx(median(1 + 0.001 * n for n in range(3, 10)))


# Too little.


def test_too_few_nights_say_how_many_are_missing_but_keep_what_is_open() -> None:
    points = sim.ratios((4, 1.0))
    verdict, events = sim.judged(sim.series(points))
    assert (verdict.status, verdict.points, events) == (Status.TOO_LITTLE, 4, ())
    assert "3 more" in verdict.reason
    points = sim.ratios((4, 1.0), (2, 1.5))
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 4, 5, 0.5)])
    assert sim.judged(one)[0].status is Status.REGRESSION


def test_nights_without_figures_do_not_count_and_keep_what_is_open() -> None:
    points = [*sim.STEP[:35], sim.point(35, unusable=("other processes on the GPU",))]
    verdict, _ = sim.judged(sim.series(points))
    assert verdict.status is Status.MISSING
    assert verdict.reason == "other processes on the GPU"
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 30, 31)])
    verdict, events = sim.judged(one)
    assert (verdict.status, verdict.change, events) == (Status.REGRESSION, 0.05, ())
    assert "other processes on the GPU" in verdict.reason


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
