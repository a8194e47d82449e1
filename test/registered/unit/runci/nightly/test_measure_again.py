"""The order of a night's pairs, and when a metric is measured again at once."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import BASELINE as PIN
from perf_records import KERNEL, LINEAR, accept, date, measurement, point, record, series_id

from runci import register_cpu_ci
from runci.config.perf import Rule
from runci.nightly.decide.series import decide
from runci.nightly.figures import medians, night_value
from runci.nightly.history.lines import Event, History, Point, Series, Turn
from runci.nightly.measure.night import BASELINE, CANDIDATE, order
from runci.nightly.measure.outputs import left_level
from runci.nightly.record import Direction

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

# Order


def test_pairs_are_balanced_random_and_repeatable() -> None:
    seen = set()
    for seed in range(300):
        found = order(5, random.Random(seed))
        assert found == order(5, random.Random(seed))
        pairs = [found[i : i + 2] for i in range(0, 10, 2)]
        assert all(set(pair) == {CANDIDATE, BASELINE} for pair in pairs)
        assert sorted(Counter(first for first, _ in pairs).values()) == [2, 3]
        seen.add(found)
    assert len(seen) == 20  # every way to choose which 2 or 3 of 5 begin with the baseline
    sides = {CANDIDATE, BASELINE, "old", "older"}
    rounds = order(8, random.Random(1), arms=("old", "older"))
    assert rounds == order(8, random.Random(1), arms=("old", "older"))
    for place in range(4):
        assert sorted(rounds[place::4]) == sorted([*sides] * 2)
    assert all({*rounds[n : n + 4]} == sides for n in range(0, 32, 4))
    assert order(3, random.Random(0), with_baseline=False) == (CANDIDATE,) * 3


# Measuring again


@pytest.mark.parametrize(
    ("candidate", "baseline", "expected"),
    [
        ([[2.0, 9.0, 4.0], [6.0]], [[2.0], [2.0]], 2.5),
        ([[2.0], [6.0], [7.0]], [], 6.0),
        ([[2.0], []], [[2.0], [2.0]], None),
        ([[2.0]], [[0.0]], 3.0),
        ([[0.0]], [[0.0]], 1.0),
        ([[0.0]], [[4.0]], 1e-3),
        ([[0.0]], [[1e6]], 5e-7),
        ([[0.0], [0.0]], [], 1e-3),
        ([], [], None),
    ],
)
def test_a_night_is_the_median_of_its_pairs(
    candidate: list[list[float]], baseline: list[list[float]], expected: float | None
) -> None:
    assert night_value(medians(candidate), medians(baseline)) == expected


def turn(number: int, kind: Turn, level: float = 1.0) -> Event:
    return Event(date(number), "", kind, date(number), "", "", 0.1, 0.1, 0.1, level, "")


def series(*points: Point, **changed: object) -> Series:
    return Series(series_id(), "us", Direction.LOWER, points, **changed)  # type: ignore[arg-type]


def pinned(number: int, figure: float, **changed: object) -> Point:
    known = {"candidate": (figure,) * 3, "baseline": (6.0,) * 3, "baseline_commit": PIN}
    return point(number, **{**known, **changed})


def nights(*figures: float, **changed: object) -> list[Point]:
    """From 2026-10-01 on, by their ratios to the baseline."""
    return [pinned(n, 6.0 * figure, **changed) for n, figure in enumerate(figures, 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (series(*nights(*[1.0] * 7)), "+10.0%"),
        (series(*nights(*[1.0] * 6)), ""),  # too few
        (series(*nights(*[1.0] * 7, *[0.98] * 20)), "+12.2%"),  # from the better level
        (series(*nights(*[1.0] * 7, *[1.02] * 20)), "+10.0%"),  # and never from a worse one
        (series(*nights(*[1.0] * 10, *[1.05] * 8), accepts=(accept(11),)), "+4.8%"),
        (series(*nights(*[1.0] * 10, *[1.5] * 2), accepts=(accept(11),)), ""),
        (series(*nights(*[1.5] * 8, *[1.0] * 8), events=(turn(9, Turn.IMPROVEMENT),)), "+10.0%"),
        (series(*nights(*[1.0] * 10, *[1.5] * 5), events=(turn(11, Turn.REGRESSION),)), ""),
        (series(*nights(*[1.0] * 8, unusable=("hot",))), ""),
        (series(*nights(*[1.0] * 8, baseline_commit="a" * 40)), ""),
        (series(*nights(*[1.0] * 8, baseline=())), ""),
    ],
)
def test_a_night_is_compared_with_what_check_compares_it_with(given: Series, expected: str) -> None:
    night = record(28, measurements=(measurement(candidate=((6.6,),) * 5),))
    found = left_level(night, History({given.id: given}), Rule())
    assert found == ((f"{KERNEL}: {expected} from its level",) if expected else ())


def test_a_night_that_check_watches_is_measured_again() -> None:
    """After a drift that nothing confirmed, so that the newest nights are near to this one."""
    given = series(*nights(*[1.0] * 10, *[1.02] * 20))
    for ratio, watched in ((1.045, True), (1.029, False)):
        tonight = replace(given, points=(*given.points, pinned(31, 6.0 * ratio)))
        verdict, _ = decide(tonight, Rule(), date(31), "")
        assert (verdict.level, verdict.watch) == (1.0, watched)
        found = measurement(candidate=((6.0 * ratio,),) * 5)
        again = left_level(record(31, measurements=(found,)), History({given.id: given}), Rule())
        assert bool(again) is watched


@pytest.mark.parametrize(
    ("figure", "again"), [(6.0, False), (6.17, False), (6.19, True), (5.81, True), (12.0, True)]
)
def test_what_leaves_its_level_is_measured_again(figure: float, again: bool) -> None:
    known = History({series_id(): series(*nights(*[1.0] * 8))})
    night = record(9, measurements=(measurement(candidate=((figure,),) * 5),))
    assert bool(left_level(night, known, Rule())) is again
    assert left_level(night, History(), Rule()) == ()
    without = record(9, measurements=(measurement(baseline=()),))  # compared with nothing
    assert left_level(without, known, Rule()) == ()


def test_it_says_which_metric_and_how_far() -> None:
    known = History({series_id(): series(*nights(*[1.0] * 8))})
    night = record(9, measurements=(measurement(candidate=((6.6,),) * 5), measurement(LINEAR)))
    assert left_level(night, known, Rule()) == (f"{KERNEL}: +10.0% from its level",)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
