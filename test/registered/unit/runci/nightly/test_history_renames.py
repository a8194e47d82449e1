"""A metric that perf.yml renames keeps its history."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import accept, date, event, files_of, header, point, read, series_id

from runci import register_cpu_ci
from runci.core.errors import RunciError

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_a_renamed_metric_keeps_its_history() -> None:
    files = files_of({header("old"): [point(1), accept(1), event(2)], header("new"): [point(2)]})
    found = read(files, old="new")
    new = found.series[series_id("new")]
    assert (new.points, new.accepts, new.events) == (
        (point(1), point(2)),
        (accept(1),),
        (event(2),),
    )
    assert list(found.series) == [new.id]
    assert found.messages == ()


def test_a_metric_renamed_before_its_first_night_has_the_old_points() -> None:
    found = read(files_of({header("old"): [point(1)]}), old="new")
    assert found.series[series_id("new")].points == (point(1),)


def test_renames_chain_and_stay_on_their_machine() -> None:
    elsewhere = header("b", gpu="NVIDIA H200")
    files = files_of(
        {
            header("c"): [point(4), accept(4)],
            header("a"): [point(1), accept(1)],
            header("b"): [point(2), accept(2)],
            elsewhere: [point(3)],
        }
    )
    found = read(files, a="b", b="c")
    assert found.series[series_id("c")].points == (point(1), point(2), point(4))
    assert found.series[series_id("c")].accepts == (accept(1), accept(2), accept(4))
    assert found.series[series_id("c", gpu="NVIDIA H200")].points == (point(3),)
    assert len(found.series) == 2


def test_two_names_can_become_one() -> None:
    files = files_of({header("a"): [point(1)], header("b"): [point(2)], header("c"): [point(3)]})
    found = read(files, a="c", b="c")
    assert found.series[series_id("c")].points == (point(1), point(2), point(3))


@pytest.mark.parametrize(
    "renames", [{"a": "a"}, {"a": "b", "b": "a"}, {"x": "a", "a": "b", "b": "a"}]
)
def test_a_circle_of_renames_is_an_error(renames: dict[str, str]) -> None:
    with pytest.raises(RunciError, match=r"renames .* circle: '[ab]' → '[ab]'"):
        read(files_of({header(): [point(1)]}), **renames)


def test_where_both_names_have_points_of_a_night_the_newer_counts() -> None:
    old, new = [point(1), point(2), point(3)], [point(2, 9.0), point(3, 9.0)]
    found = read(files_of({header("old"): old, header("new"): new}), old="new")
    assert found.series[series_id("new")].points == (point(1), *new)
    [message] = found.messages
    assert f"both have points of {date(2)} and 1 later night" in message


@pytest.mark.parametrize("other", [header("old", unit="ns"), header("old", unit="exact")])
def test_a_rename_joins_no_other_unit_or_direction(other: object) -> None:
    files = files_of({other: [point(1)], header("new"): [point(2)]})  # type: ignore[dict-item]
    with pytest.raises(RunciError, match=r"perf\.yml renames 'old' .* to 'new' \(us, lower\)"):
        read(files, old="new")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
