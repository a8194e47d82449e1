"""The order of a night's pairs, and when a metric is measured again at once."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import KERNEL, LINEAR, accept, date, measurement, point, record, series_id

from runci import register_cpu_ci
from runci.nightly.figures import medians, night_value
from runci.nightly.history.lines import Event, History, Point, Series, Turn
from runci.nightly.measure.again import left_level, level
from runci.nightly.measure.night import BASELINE, CANDIDATE, order
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
    assert order(3, random.Random(0), with_baseline=False) == (CANDIDATE,) * 3


# Measuring again


@pytest.mark.parametrize(
    ("candidate", "baseline", "expected"),
    [
        ([[2.0, 9.0, 4.0], [6.0]], [[2.0], [2.0]], 2.5),
        ([[2.0], [6.0], [7.0]], [], 6.0),
        ([[2.0], []], [[2.0], [2.0]], None),
        ([[2.0]], [[0.0]], None),
        ([], [], None),
    ],
)
def test_a_night_is_the_median_of_its_pairs(
    candidate: list[list[float]], baseline: list[list[float]], expected: float | None
) -> None:
    assert night_value(medians(candidate), medians(baseline)) == expected


def turn(number: int) -> Event:
    return Event(date(number), "", Turn.REGRESSION, date(number), "", "", 0.1, 0.1, 0.1, 1.1, "")


def series(*points: Point, **changed: object) -> Series:
    return Series(series_id(), "us", Direction.LOWER, points, **changed)  # type: ignore[arg-type]


def pinned(number: int, figure: float, **changed: object) -> Point:
    return point(number, figure, baseline_commit="b" * 40, **changed)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (series(*(pinned(n, 6.0) for n in range(1, 4))), 1.0),
        (series(*(pinned(n, 6.0) for n in range(1, 3))), None),  # too few
        (series(*(pinned(n, 6.0 if n > 5 else 12.0) for n in range(1, 26))), 1.0),  # the last 20
        (series(*(pinned(n, 6.0 if n > 14 else 12.0) for n in range(1, 26))), 1.0),  # 11 of them
        (series(*(pinned(n, 6.0 if n > 16 else 12.0) for n in range(1, 26))), 2.0),  # 9 of them
        (series(*(pinned(n, 6.0 if n < 4 else 9.0) for n in range(1, 10)), events=(turn(4),)), 1.5),
        (
            series(*(pinned(n, 6.0 if n < 4 else 9.0) for n in range(1, 10)), accepts=(accept(4),)),
            1.5,
        ),
        (series(*(pinned(n, 6.0 * n) for n in range(1, 6)), events=(turn(4),)), None),
        (series(*(pinned(n, 6.0, unusable=("hot",)) for n in range(1, 9))), None),
        (series(*(point(n, 6.0, baseline_commit="a" * 40) for n in range(1, 9))), None),
        (series(*(pinned(n, 6.0, baseline=()) for n in range(1, 9))), None),
    ],
)
def test_a_level_is_the_median_since_the_last_turn(given: Series, expected: float | None) -> None:
    assert level(given, "b" * 40) == expected


def test_without_a_baseline_a_level_is_of_raw_figures() -> None:
    assert level(series(*(point(n, 7.0, baseline=()) for n in range(1, 9))), None) == 7.0


@pytest.mark.parametrize(
    ("figure", "again"), [(6.0, False), (6.17, False), (6.19, True), (5.81, True), (12.0, True)]
)
def test_what_leaves_its_level_is_measured_again(figure: float, again: bool) -> None:
    known = History({series_id(): series(*(pinned(n, 6.0) for n in range(1, 9)))})
    night = record(9, measurements=(measurement(candidate=((figure,),) * 5),))
    assert bool(left_level(night, known, 0.03)) is again
    assert left_level(night, History(), 0.03) == ()


def test_it_says_which_metric_and_how_far() -> None:
    known = History({series_id(): series(*(pinned(n, 6.0) for n in range(1, 9)))})
    night = record(9, measurements=(measurement(candidate=((6.6,),) * 5), measurement(LINEAR)))
    assert left_level(night, known, 0.03) == (f"{KERNEL}: +10.0% from its level",)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
