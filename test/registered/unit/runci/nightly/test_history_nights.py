"""The nights of a history: two records of one night, and odd clocks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import date, files_of, header, point, read, series_id

from runci import register_cpu_ci
from runci.config.perf import is_night
from runci.nightly.history.lines import one_per_night, path_of

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = path_of(series_id())


def test_points_are_in_the_order_of_their_nights_and_a_late_one_is_told() -> None:
    found = read(files_of({header(): [point(1), point(3), point(4), point(2)]}))
    assert [p.night for p in found.series[series_id()].points] == [date(n) for n in (1, 2, 3, 4)]
    [message] = found.messages
    assert message == (
        f"{PATH}: the night {date(2)} was appended after {date(4)}: "
        "kept, and put in the order of its night"
    )
    later = read(files_of({header(): [point(1), point(3), point(2), point(4)]}))
    assert later.messages == ()  # told when it happened, not for ever


def test_what_is_odd_of_a_whole_night_is_told_once() -> None:
    lines = [point(3), point(2)]
    [message] = read(files_of({header(): lines, header("other"): lines})).messages
    assert message.count("was appended after") == 1
    assert " and 1 more: " in message


def test_a_clock_that_went_backwards_is_told() -> None:
    back = point(2, at=f"{date(1)}T03:09:59Z")
    found = read(files_of({header(): [point(1), back]}))
    assert found.series[series_id()].points == (point(1), back)
    [message] = found.messages
    assert "from 2026-10-01T03:10:00Z to 2026-10-01T03:09:59Z" in message


def test_the_same_second_with_and_without_a_fraction_is_no_odd_clock() -> None:
    same = point(2, at=f"{date(1)}T03:10:00.123+00:00")
    assert read(files_of({header(): [same, point(3, at=f"{date(1)}T03:10:00Z")]})).messages == ()


GOOD, BAD = (), ("busy",)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ([("a", GOOD)], "a"),
        ([("a", GOOD), ("b", GOOD)], "b"),
        ([("a", GOOD), ("b", BAD)], "a"),
        ([("a", BAD), ("b", GOOD)], "b"),
        ([("a", BAD), ("b", BAD)], "b"),
        ([("a", GOOD), ("b", BAD), ("c", GOOD), ("d", BAD)], "c"),
    ],
)
def test_of_one_night_the_last_usable_record_counts(
    given: list[tuple[str, tuple[str, ...]]], counts: str
) -> None:
    points = [point(2, run_id=name, unusable=reasons) for name, reasons in given]
    found = read(files_of({header(): [point(1), *points, point(3)]})).series[series_id()].points
    assert [p.run_id for p in found] == ["r1", *(name for name, _ in given), "r3"]
    assert [p.run_id for p in one_per_night(found)] == ["r1", counts, "r3"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2026-10-01", True),
        ("2028-02-29", True),
        ("1970-01-01", True),
        ("2999-12-31", True),
        ("2026-02-29", False),
        ("1969-12-31", False),
        ("3000-01-01", False),
        ("9999-12-31", False),
        ("0001-01-01", False),
        ("20261201", False),
        ("2026-W49-2", False),
        ("2026-12-1", False),
        (" 2026-10-01", False),
        ("", False),
    ],
)
def test_a_night_is_a_date_that_one_can_count_from(text: str, is_one: bool) -> None:
    assert is_night(text) is is_one


def test_one_per_night_sorts() -> None:
    assert [p.night for p in one_per_night([point(3), point(1), point(2)])] == [
        date(n) for n in (1, 2, 3)
    ]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
