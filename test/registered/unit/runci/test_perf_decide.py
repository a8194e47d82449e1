"""What the nightly says of a series: the rules one by one, and the faults that users reported.

Change points are given as data here; test_perf_faults.py has the same faults with Otava.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import perf_series as sim
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.perf.config import Rule
from runci.perf.decide.state import turns
from runci.perf.decide.values import quartile_range, read_nights, why_unusable
from runci.perf.decide.visits import past
from runci.perf.lines import Point, Turn
from runci.perf.metric import Direction, are_figures, is_figure
from runci.perf.verdict import Confirmed, Status, Verdict

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

RULE = Rule()
STEP = sim.ratios((30, 1.0), (40, 1.05))


def at_the_step(index: int) -> Sequence[int]:
    return (30,) if index >= 30 else ()


# A night's value.


@given(st.lists(st.floats() | st.sampled_from([1e-30, 1e30, 5e-324, 1e308]), min_size=1))
def test_figures_are_figures_one_by_one_and_together(values: list[float]) -> None:
    assert are_figures(values) is all(map(is_figure, values))
    assert all(1e-30 <= value <= 1e30 for value in values if is_figure(value))


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
    assert value.spread == pytest.approx(0.0, abs=1e-12)
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
        ({"baseline": (1.0, 0.0, 1.0, 1.0, 1.0)}, "a sample is 0"),
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
    assert 0 <= quartile_range(figures) <= max(figures) - min(figures)


def test_the_distance_between_quartiles_of_five_leaves_out_the_extremes() -> None:
    assert quartile_range([9.0, 1.0, 3.0, 2.0, 5.0]) == 3.0


def test_of_two_runs_of_a_night_the_last_usable_one_counts() -> None:
    first, second = sim.point(40, 1.0), sim.point(40, 1.2, run_id="x")
    broken = sim.point(40, unusable=("throttled",), run_id="y")
    verdict, _ = sim.judged(sim.series([*sim.ratios((40, 1.0)), first, second, broken]))
    assert verdict.value == pytest.approx(1.2)


# Steps.


def test_a_step_is_watched_on_its_first_night_and_a_regression_on_its_second() -> None:
    one, verdicts = sim.replayed(sim.series(STEP), at_the_step)
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
    one, verdicts = sim.replayed(sim.series(STEP), at_the_step)
    assert {v.status for v in verdicts[31:]} == {Status.REGRESSION}
    assert len(one.events) == 1
    assert verdicts[-1].level == verdicts[31].level
    assert verdicts[-1].since == sim.night(30)


def test_without_the_event_the_same_night_says_the_same() -> None:
    """Where nobody pushes events, every night decides alone."""
    verdict, events = sim.judged(sim.series(STEP), None, 30)
    assert (verdict.status, verdict.since, len(events)) == (Status.REGRESSION, sim.night(30), 1)


def test_deciding_a_night_again_adds_nothing() -> None:
    one, _ = sim.replayed(sim.series(STEP), at_the_step)
    verdict, events = sim.judged(one, 31, 30)
    assert (verdict.status, events) == (Status.REGRESSION, ())


def test_what_is_later_than_the_night_is_not_looked_at() -> None:
    one, verdicts = sim.replayed(sim.series(STEP), at_the_step)
    assert sim.judged(one, 30, 30)[0] == verdicts[30]
    assert sim.judged(one, 29)[0] == verdicts[29]


def test_a_change_point_below_the_least_change_is_none() -> None:
    small = sim.series(sim.ratios((30, 1.0), (20, 1.02)))
    verdict, events = sim.judged(small, None, 30)
    assert (verdict.status, verdict.watch, events) == (Status.STEADY, False, ())


def test_a_spike_of_one_night_raises_nothing() -> None:
    points = [sim.point(n, 1.1 if n in (20, 33, 51) else 1.0) for n in range(60)]
    # Otava sees a new level in each last point.
    one, verdicts = sim.replayed(sim.series(points), lambda n: (n,))
    assert one.events == ()
    assert [n for n, v in enumerate(verdicts) if v.watch] == [20, 33, 51]
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}


def test_two_spikes_in_a_row_that_do_not_agree_are_no_level() -> None:
    points = [*sim.ratios((30, 1.0)), sim.point(30, 1.06), sim.point(31, 1.18)]
    verdict, events = sim.judged(sim.series(points), None, 30)
    assert (verdict.status, verdict.watch, events) == (Status.STEADY, True, ())


def test_where_a_spike_was_as_large_before_a_second_night_is_not_enough() -> None:
    points = [sim.point(n, 1.1 if n in (20, 40, 41, 42, 43) else 1.0) for n in range(44)]
    # The spike of night 20 is not among the values that are asked about.
    _, verdicts = sim.replayed(sim.series(points), lambda n: (39,) if n >= 40 else ())
    assert [v.status for v in verdicts[40:]] == [Status.STEADY] * 2 + [Status.REGRESSION] * 2
    # One of another size does not delay it.
    other = [sim.point(n, 1.1 if n == 20 else 1.05 if n >= 40 else 1.0) for n in range(44)]
    _, verdicts = sim.replayed(sim.series(other), lambda n: (39,) if n >= 40 else ())
    assert verdicts[41].status is Status.REGRESSION


def test_a_re_run_confirms_a_step_on_its_first_night() -> None:
    bad = sim.point(30, 1.05)
    steady = sim.ratios((30, 1.0))
    verdict, events = sim.judged(sim.series([*steady, sim.rerun(bad, 1.05)]), None, 30)
    assert (verdict.status, verdict.confirmed_by) == (Status.REGRESSION, Confirmed.PAIRED)
    assert events[0].confirmed_by == Confirmed.PAIRED.value
    for ratio in (1.0, 1.015, 1.025):  # the re-run does not see it, or does not see enough of it
        verdict, events = sim.judged(sim.series([*steady, sim.rerun(bad, ratio)]), None, 30)
        assert (verdict.status, verdict.watch, events) == (Status.STEADY, True, ())
        assert "measured again at once" in verdict.reason
    # A re-run is no second opinion on a level that the machine has been at by itself.
    points = [*steady, sim.rerun(bad, 1.05)]
    points[20] = sim.point(20, 1.05)
    assert sim.judged(sim.series(points), None, 30)[1] == ()


def test_a_re_run_that_is_no_measurement_confirms_nothing() -> None:
    bad = sim.rerun(sim.point(30, 1.05), 1.05)
    for more in (
        {"again_candidate": (6.3, math.nan, 6.3)},
        {"again_baseline": (6.0,)},
        {"again_candidate": (6.3,), "again_baseline": (6.0,)},
    ):
        one = replace(bad, **more)  # type: ignore[arg-type]
        assert sim.judged(sim.series([*sim.ratios((30, 1.0)), one]), None, 30)[1] == ()


def test_a_step_inside_a_gap_is_confirmed_by_the_next_two_nights_that_ran() -> None:
    points = [p for p in sim.ratios((30, 1.0), (30, 1.05)) if not 28 <= int(p.run_id) < 45]
    one, verdicts = sim.replayed(sim.series(points), lambda n: (28,) if n >= 45 else ())
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
    verdict, (event,) = sim.judged(one, None, 30)
    assert (verdict.status, event.turn.value) == (status, status.value)
    sign = 1 if status is Status.REGRESSION else -1
    for figure in (verdict.change, verdict.low, verdict.high):
        assert figure is not None and sign * figure > 0.03
    assert verdict.low is not None and verdict.high is not None and verdict.low < verdict.high


# Recovery, acceptance, improvement.


def test_a_regression_is_over_after_two_nights_back_and_stays_on_record() -> None:
    points = sim.ratios((30, 1.0), (10, 1.05), (1, 1.0), (3, 1.05), (20, 1.0))
    one, verdicts = sim.replayed(sim.series(points), at_the_step)
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
    one, verdicts = sim.replayed(sim.series(points), at_the_step)
    assert verdicts[-1].status is Status.REGRESSION
    assert verdicts[-1].change == pytest.approx(0.02, abs=0.005)
    assert len(one.events) == 1


def test_an_accepted_level_is_the_new_normal_and_a_frozen_baseline_does_not_alarm_for_ever() -> (
    None
):
    one, _ = sim.replayed(sim.series(STEP), at_the_step, until=35)
    one = replace(one, accepts=(sim.accepted(30, "more precise"),))
    verdict, events = sim.judged(one, 36, 30)
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
    verdict, (event,) = sim.judged(one, None, 20)  # of the segment, which begins at night 30
    assert (verdict.status, verdict.accepted, event.since) == (
        Status.REGRESSION,
        False,
        sim.night(50),
    )
    assert event.level == pytest.approx(1.05, abs=0.005)


def test_an_acceptance_settles_only_what_began_by_then() -> None:
    events = [sim.event(Turn.REGRESSION, 30, 31), sim.event(Turn.REGRESSION, 50, 51)]
    one = sim.series(STEP, accepts=[sim.accepted(30)], events=events)
    assert turns(one, sim.night(69)).open == events[1]
    assert turns(one, sim.night(40)).accepted
    assert turns(one, sim.night(29)).accept is None


def test_an_improvement_takes_five_nights_becomes_the_level_and_losing_it_is_a_regression() -> None:
    points = sim.ratios((30, 1.0), (20, 0.9), (10, 1.0))
    found = dict.fromkeys(range(30, 50), (30,)) | dict.fromkeys(range(50, 60), (30, 50))
    one, verdicts = sim.replayed(sim.series(points), lambda n: found.get(n, ()))
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
        replace(p, baseline_commit="c" * 40) if n >= 50 else p for n, p in enumerate(STEP[:65])
    ]
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 30, 31)])
    verdict, events = sim.judged(one)
    assert (verdict.status, verdict.since, events) == (Status.REGRESSION, sim.night(30), ())
    assert "another baseline" in verdict.reason
    fresh = sim.series(points[:55])
    verdict, _ = sim.judged(fresh)
    assert (verdict.status, verdict.points) == (Status.TOO_LITTLE, 5)
    # A run by hand against another baseline hides nothing of the series.
    by_hand = sim.series([*STEP[:40], sim.point(40, 2.0, baseline_commit="d" * 40), *STEP[41:45]])
    assert sim.judged(by_hand, None, 30)[0].status is Status.REGRESSION


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
    one, verdicts = sim.replayed(sim.series(points), at_the_step)
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
    one, verdicts = sim.replayed(sim.series(points), at_the_step)
    assert one.events == ()
    assert {v.status for v in verdicts[9:]} == {Status.STEADY}
    assert "the machine changed, the code did not" in verdicts[30].reason
    assert "machine" not in verdicts[29].reason
    assert "machine" not in verdicts[44].reason


# Too little.


def test_too_few_nights_say_how_many_are_missing_but_keep_what_is_open() -> None:
    points = sim.ratios((4, 1.0), (3, 1.5))
    verdict, events = sim.judged(sim.series(points), None, 4)
    assert (verdict.status, verdict.points, events) == (Status.TOO_LITTLE, 7, ())
    assert "3 more" in verdict.reason
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 4, 5, 0.5)])
    assert sim.judged(one)[0].status is Status.REGRESSION


def test_nights_without_figures_do_not_count_and_keep_what_is_open() -> None:
    points = [*STEP[:35], sim.point(35, unusable=("other processes on the GPU",))]
    verdict, _ = sim.judged(sim.series(points))
    assert verdict.status is Status.MISSING
    assert verdict.reason == "other processes on the GPU"
    one = sim.series(points, events=[sim.event(Turn.REGRESSION, 30, 31)])
    verdict, events = sim.judged(one)
    assert (verdict.status, verdict.change, events) == (Status.REGRESSION, 0.05, ())
    assert "other processes on the GPU" in verdict.reason


# What passes or fails.


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
    assert "another order of sums" in verdicts[0].reason


def test_no_result_is_neither_a_pass_nor_a_failure() -> None:
    verdict, events = sim.judged(sim.exact([True, None]))
    assert (verdict.status, events) == (Status.MISSING, ())
    one, _ = sim.replayed(sim.exact([True, False, None]), until=1)
    verdict, events = sim.judged(one, 2)
    assert (verdict.status, events) == (Status.REGRESSION, ())


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


def test_the_level_is_the_median_of_the_first_ten_nights() -> None:
    points = [sim.point(n, 1 + 0.001 * n) for n in range(15)]
    verdict, _ = sim.judged(sim.series(points))
    assert verdict.level == pytest.approx(median(1 + 0.001 * n for n in range(10)))
