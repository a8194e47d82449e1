"""The rule alone, of figures: how many nights tell of which step, and what takes longer."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.config.perf import Rule
from runci.nightly.decide.walk import walk
from runci.nightly.history.lines import Event, Point, Turn
from runci.nightly.verdict import Confirmed, Status

register_cpu_ci(est_time=16, stage="base-a", runner_config="cpu")

RULE = Rule()
QUIET = (0.0, 0.004, -0.003, 0.001, -0.004)


def series(*parts: tuple[int, float]) -> list[float]:
    levels = [level for count, level in parts for _ in range(count)]
    return [level + QUIET[n % len(QUIET)] for n, level in enumerate(levels)]


def told(figures: Sequence[float], level: float | None = 0.0) -> list[tuple[Turn, int, int]]:
    """Each shift with the night on which it began and that on which it was first known."""
    found: dict[tuple[Turn, int], int] = {}
    for count in range(1, len(figures) + 1):
        for shift in walk(figures[:count], RULE, level).shifts:
            found.setdefault((shift.turn, shift.since), count - 1)
    return [(turn, since, at) for (turn, since), at in found.items()]


WORSE, BETTER, BACK = Turn.REGRESSION, Turn.IMPROVEMENT, Turn.RECOVERED


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (series((60, 0.0)), []),
        (series((30, 0.0), (10, 0.05)), [(WORSE, 30, 31)]),
        (series((30, 0.0), (10, 0.02)), []),
        (series((30, 0.0), (1, 0.3), (20, 0.0)), []),
        (series((30, 0.0), (10, -0.05)), [(BETTER, 30, 34)]),
        # After fewer than seven nights only seven others in a row tell of what modes do, and then
        # they do; fewer of what is farther off, three of 16 % and more, and not the nights around.
        (series((4, 0.0), (8, 0.06)), [(WORSE, 4, 10)]),
        (series((8, 0.06)), [(WORSE, 0, 6)]),
        (series((2, 0.0), (5, 0.06), (20, 0.0)), []),
        (series((3, 0.0), (5, 0.06), (1, 0.0), (20, 0.06)), [(WORSE, 3, 15)]),
        (series((3, 0.0), (4, 0.06), (2, 0.0), (20, 0.06)), [(WORSE, 9, 15)]),
        (series((4, 0.0), (8, 0.1)), [(WORSE, 4, 8)]),
        (series((4, 0.0), (8, 0.2)), [(WORSE, 4, 6)]),
        (series((8, 0.4)), [(WORSE, 0, 2)]),
        (series((4, 0.0), (2, 0.4), (2, 0.0), (1, 0.4), (20, 0.0)), []),
        (series((3, 0.0), (1, 0.06), (8, 0.2)), [(WORSE, 4, 6)]),
        (series((1, 0.0), (1, 0.2), (2, 0.0), (6, 0.2), (20, 0.0)), []),
        (series((3, 0.0), (2, 0.2), (1, 0.0), (20, 0.2)), [(WORSE, 3, 12)]),
        (series((7, 0.0), (8, 0.2)), [(WORSE, 7, 8)]),
        # Each step is one, and is measured from the level before it.
        (series((30, 0.0), (10, 0.06), (10, 0.3)), [(WORSE, 30, 31), (WORSE, 40, 41)]),
        (series((30, 0.0), (14, -0.025), (10, 0.025)), [(WORSE, 44, 45)]),
        # What was here before and left asks for more nights: a spike for one, a visit for many;
        # a longer one may have been a commit and its fix.
        (series((20, 0.0), (1, 0.1), (20, 0.0), (9, 0.1)), [(WORSE, 41, 43)]),
        (
            series((20, 0.0), (4, 0.1), (6, 0.0), (4, 0.1), (10, 0.0), (9, 0.1)),
            [(WORSE, 20, 21), (WORSE, 44, 52)],
        ),
        (series((20, 0.0), (4, 0.1), (6, 0.0), (9, 0.1)), [(WORSE, 20, 21), (WORSE, 30, 36)]),
        (series((20, 0.0), (8, 0.1), (8, 0.0), (9, 0.1)), [(WORSE, 20, 21), (WORSE, 36, 37)]),
    ],
)
def test_how_many_nights_tell_of_a_step(
    figures: list[float], expected: list[tuple[Turn, int, int]]
) -> None:
    assert told(figures) == expected


@pytest.mark.parametrize(
    ("change", "apart", "alarms"), [(None, 0.06, 2), (1 / 3, 0.06, 6), (None, 0.15, 4)]
)
def test_two_modes_are_rarely_taken_for_steps_from_the_first_night_on(
    change: float | None, apart: float, alarms: int
) -> None:
    """Twelve series: a mode for each night, two in five the slower; or one that stays for three."""
    found = 0
    for seed in range(12):
        source, slow, figures = random.Random(seed), False, []
        for _ in range(40):
            slow = source.random() < 0.4 if change is None else slow ^ (source.random() < change)
            figures.append(apart * slow + source.gauss(0, 0.006))
        found += len(told(figures))
    assert found <= alarms


def test_a_creep_is_not_compared_with_its_own_beginning() -> None:
    """0.2 % a night is told by 4 %."""
    for seed in range(20):
        source = random.Random(seed)
        figures = [max(n - 20, 0) * 0.002 + source.gauss(0, 0.003) for n in range(41)]
        assert [shift.turn for shift in walk(figures, RULE, 0.0).shifts] == [WORSE], seed


def test_a_gain_in_doubt_is_neither_told_by_half_of_its_nights_nor_lost_at_its_end() -> None:
    """As where the baseline is slower for nine nights; with many others they are in no doubt."""
    figures = series((30, 0.0), (9, -0.06), (20, 0.0))
    for last in range(30, len(figures)):
        seen = walk(figures[: last + 1], RULE, 0.0, doubtful=lambda a, b, _: 27 <= a <= b < 39)
        assert seen.shifts == (), last
    assert [turn for turn, *_ in told(figures)] == [BETTER, WORSE]


# One by one or together.


def test_nights_that_come_into_doubt_no_longer_make_the_level() -> None:
    """Also where they did so on the night before they were doubted."""
    figures = series((6, 1.05), (8, 0.966))
    seen = walk(figures, RULE, doubtful=lambda _, last, __: last >= 9)
    assert (seen.shifts, seen.level) == ((), pytest.approx(1.05, abs=0.01))


def eventful(seed: int, level: float = 1.0) -> list[Point]:
    """240 nights of steps, their ends, gains, drifts and visits; every second seed a quiet one."""
    source, figures = random.Random(seed), []
    here, drift = 0.0, 0.0
    for _ in range(240):
        if source.random() < 0.04:
            here = source.choice((0.0, 0.0, 0.05, 0.08, 0.13, -0.04, here + 0.06))
            drift = source.choice((0.0, 0.0, 0.0, 0.0015))
        here += drift
        visit = 0.07 * (source.random() < 0.02)
        figures.append(level * math.exp(here + visit + source.gauss(0, (0.004, 0.012)[seed % 2])))
    return [sim.point(n, figure) for n, figure in enumerate(figures)]


def told_when(event: Event) -> tuple[str, str, str, str]:
    return event.night, event.since, event.since_commit, event.last_good


def steps(events: Iterable[Event]) -> list[tuple[str, str]]:
    """The steps that are open after these events."""
    found: list[tuple[str, str]] = []
    for event in events:
        found = [*found, (event.since, event.since_commit)] if event.turn is WORSE else []
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_told_does_not_depend_on_whether_the_nights_came_one_by_one(seed: int) -> None:
    points = eventful(seed)
    if seed >= 3:
        points = [replace(point, baseline=(), baseline_commit="") for point in points]
    bare = sim.series(points)
    one, _ = sim.replayed(bare)
    assert WORSE in {event.turn for event in one.events}
    at_once: dict[tuple[Turn, str], Event] = {}
    for index in range(len(points)):  # each as if no night before had been decided
        events = sim.judged(bare, index)[1]
        assert steps(events) == steps(e for e in one.events if e.night <= sim.night(index)), index
        for event in events:
            at_once.setdefault((event.turn, event.since), event)
    for turn in (WORSE, BETTER):
        assert [told_when(e) for e in at_once.values() if e.turn is turn] == [
            told_when(e) for e in one.events if e.turn is turn
        ]


@pytest.mark.parametrize("seed", range(8))
def test_a_second_check_of_a_night_with_a_re_run_says_the_same(seed: int) -> None:
    """Whatever it told, and whichever of the night and its re-run is farther off."""
    source, one, told_again = random.Random(seed), sim.series(()), []
    for index, point in enumerate(eventful(seed)[:120]):
        again = point.candidate[2] / 6.0 * math.exp(source.gauss(0, 0.01) + 0.1 * (index % 9 == 0))
        one = replace(one, points=(*one.points, sim.rerun(point, again)))
        first, events = sim.judged(one, index)
        one = replace(one, events=one.events + events)
        told_again += events
        second, more = sim.judged(one, index)
        assert more == (), index
        assert (second.status, second.since, second.reason) == (
            first.status,
            first.since,
            first.reason,
        )
        assert (second.change, second.low, second.high, second.steps) == (
            pytest.approx(first.change, rel=1e-9),
            pytest.approx(first.low, rel=1e-9),
            pytest.approx(first.high, rel=1e-9),
            first.steps,
        )
    assert Confirmed.PAIRED.value in {event.confirmed_by for event in told_again}


@pytest.mark.parametrize(("ratio", "again"), [(1.035, 1.2), (1.2, 1.035), (1.05, 1.05)])
def test_a_step_that_a_re_run_tells_began_no_later_than_its_night(
    ratio: float, again: float
) -> None:
    """The night itself may look more like those before than like its re-run."""
    points = sim.ratios((30, 1.0), (1, ratio))
    _, (event,) = sim.judged(sim.series([*points[:-1], sim.rerun(points[-1], again)]))
    assert (event.since, event.last_good) == (sim.night(30), sim.commit(29))
    assert event.change == pytest.approx(ratio - 1, abs=0.01)


def test_what_ends_with_a_step_that_nobody_wrote_down_ends() -> None:
    """The first step is on record; the second and the end of both come together."""
    figures = series((30, 0.0), (10, 0.06), (5, 0.12), (20, 0.0))
    (first,) = walk(figures[:32], RULE, 0.0).shifts
    (end,) = walk(figures, RULE, 0.0, {31: [first]}).shifts
    assert (end.turn, end.since) == (BACK, 45)


def test_without_a_pinned_commit_the_first_nights_make_the_level() -> None:
    assert told(series((4, 1.0), (14, 1.2)), None)[0][:2] == (WORSE, 4)
    assert told(series((30, 1.0), (9, 1.05)), None) == [(WORSE, 30, 31)]
    seen = walk(series((6, 1.0)), RULE)
    assert (seen.shifts, seen.sigma, seen.visible) == ((), None, None)


def test_what_is_on_record_is_taken_as_it_is() -> None:
    """A second night more changes nothing of it, and what came back unrecorded is not told."""
    figures = series((30, 0.0), (10, 0.06))
    (shift,) = walk(figures[:32], RULE, 0.0).shifts
    seen = walk(figures, RULE, 0.0, {31: [shift]})
    assert seen.shifts == ()
    assert [segment.start for segment in seen.segments] == [0, 30]
    assert walk(series((30, 0.0), (4, 0.06), (20, 0.0)), RULE, 0.0).shifts == ()


@pytest.mark.parametrize("sigma", [0.005, 0.01, 0.02])
def test_noise_alone_says_nothing_and_what_can_be_seen_grows_with_it(sigma: float) -> None:
    source = random.Random(3)
    figures = [source.gauss(0, sigma) for _ in range(120)]
    seen = walk(figures, RULE, 0.0)
    assert seen.shifts == ()
    assert seen.sigma == pytest.approx(sigma, rel=0.2)
    assert seen.visible is not None
    assert seen.visible == pytest.approx(max(0.03, 1.4 * sigma), rel=0.35)


def test_a_few_loud_nights_are_not_taken_for_a_quiet_series() -> None:
    """3 % from night to night: seven of 24 such nights are 3 % off by chance, whatever was seen."""
    for seed in range(14):
        source = random.Random(seed)
        visible = walk([source.gauss(0, 0.03) for _ in range(24)], RULE, 0.0).visible
        assert visible is not None and visible > RULE.min_change, seed


# What the candidate's own time says.


def test_a_baseline_that_is_slower_for_some_nights_changes_nothing() -> None:
    points = sim.ratios((50, 1.0))
    for n in range(25, 33):
        points[n] = replace(points[n], baseline=tuple(b * 1.06 for b in points[n].baseline))
    one, verdicts = sim.replayed(sim.series(points))
    assert one.events == ()
    assert verdicts[26].watch and "the candidate does not" in verdicts[26].reason
    # The same ratios by the candidate are an improvement, and no machine's.
    points = sim.ratios((25, 1.0), (8, 1 / 1.06), (17, 1.0))
    one, _ = sim.replayed(sim.series(points))
    assert [e.turn for e in one.events] == [Turn.IMPROVEMENT, Turn.REGRESSION]


def test_each_step_of_an_open_regression_has_its_night_and_commit() -> None:
    one, verdicts = sim.replayed(sim.series(sim.ratios((20, 1.0), (12, 1.06), (8, 1.4))))
    last = verdicts[-1]
    assert last.status is Status.REGRESSION
    assert last.change == pytest.approx(0.4, abs=0.01)
    assert [(s.since, s.since_commit, s.last_good) for s in last.steps] == [
        (sim.night(20), sim.commit(20), sim.commit(19)),
        (sim.night(32), sim.commit(32), sim.commit(31)),
    ]
    assert [s.change for s in last.steps] == pytest.approx(
        [0.06, 0.4 / 1.06 - 0.06 / 1.06], abs=0.01
    )
    assert (last.since, last.confirmed_by) == (sim.night(32), Confirmed.SECOND_NIGHT)
    assert len(one.events) == 2
    assert len(verdicts[25].steps) == 1


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
