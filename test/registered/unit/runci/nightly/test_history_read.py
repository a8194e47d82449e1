"""The history is read as it was written, and torn ends are mended."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import (
    accept,
    added,
    date,
    event,
    files_of,
    header,
    lines_in,
    lines_of,
    night,
    point,
    read,
    read_points,
    series_id,
)

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.nightly.history.additions import append_to
from runci.nightly.history.lines import NIGHTS, History, Night, Point, Series, first_files, path_of
from runci.nightly.history.read import parse_files
from runci.nightly.record import Direction

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PATH = path_of(series_id())


# What is right


def test_every_line_is_read_as_it_was_written() -> None:
    whole = point(
        2,
        again_candidate=(6.5,),
        again_baseline=(6.0,),
        reference=0.75,
        detail="ü «x»\n\0",
        unusable=("busy",),
        run_url="https://example.invalid/1",
        temperature=61,
        sm_clock=2400,
    )
    exact = header("bits", unit="exact")
    passed = point(1, candidate=(), baseline=(), passed=False, detail="M = 4")
    given = {header(): [point(1), whole, accept(3), event(3)], exact: [passed]}
    assert read(files_of(given, [night(1), night(2, measured=False)])) == History(
        {
            series_id(): Series(
                series_id(),
                "us",
                Direction.LOWER,
                (point(1), whole),
                (accept(3),),
                (event(3),),
            ),
            exact.id: Series(exact.id, "exact", Direction.HIGHER, (passed,)),
        },
        (night(1), night(2, measured=False)),
    )


def test_a_new_history_is_empty_and_whole() -> None:
    assert read(dict(first_files())) == History()


@example("M=4", "m=4", "RTX", 580)
@example("a b", "a/b", "RTX", 580)
@example("é", "ü", "RTX", 580)
@example("x" * 100, "x" * 101, "RTX", 580)
@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=20), st.integers(0, 999))
@settings(max_examples=200, deadline=None)
def test_files_are_told_apart_whatever_names_hold(a: str, b: str, gpu: str, driver: int) -> None:
    one = series_id(a, gpu="RTX")
    other = series_id(b, gpu=gpu, driver_major=driver)
    assert (path_of(one) == path_of(other)) == (one == other)
    parts = path_of(other).split("/")
    assert len(parts) == 3
    assert not {"", ".", ".."} & set(parts)
    assert max(map(len, parts)) < 120
    assert path_of(other).isascii()


def test_lines_in_another_order_of_keys_and_with_spaces_are_read() -> None:
    loose = json.dumps(dataclasses.asdict(point(2))).encode() + b"\n"
    files = files_of({header(): [point(1)]})
    files[PATH] += loose
    assert read(files).series[series_id()].points == (point(1), point(2))


def test_a_point_whose_text_looks_like_another_kind_is_a_point() -> None:
    tricky = point(1, detail='"kind":"accept","schema":2')
    assert read(files_of({header(): [tricky]})).series[series_id()].points == (tricky,)


# A torn last line


@pytest.mark.parametrize("keep", [1, 10, 100, -2])
def test_a_torn_last_line_is_left_out_and_told(keep: int) -> None:
    files = files_of({header(): [point(1), point(2)]})
    files[PATH] += lines_of(point(3))[:-1][:keep]
    found = read(files)
    assert [point.night for point in found.series[series_id()].points] == [date(1), date(2)]
    [message] = found.messages
    assert message.startswith(f"{PATH}:4: the last line is torn")


def test_every_cut_keeps_what_was_whole_or_is_an_error() -> None:
    """No cut of a file gives more, other or, without a word, fewer points."""
    whole = lines_of(header(), point(1), point(2))
    first = len(lines_of(header()))
    for cut in range(len(whole)):
        files = files_of({header(): []}) | {PATH: whole[:cut]}
        if cut < first - 1:
            with pytest.raises(RunciError, match="names the series"):
                read(files)
            continue
        found = read(files)
        points = found.series[series_id()].points
        assert points == (point(1), point(2))[: len(points)]
        complete = whole[:cut].endswith(b"\n")
        assert bool(found.messages) != complete


def test_a_last_line_that_only_lacks_its_end_stays() -> None:
    files = files_of({header(): [point(1), point(2)]})
    files[PATH] = files[PATH][:-1]
    found = read(files)
    assert len(found.series[series_id()].points) == 2
    assert found.messages == (f"{PATH}:3: the last line lacks its end, which the next append adds",)


def test_broken_json_with_a_line_end_is_torn_too() -> None:
    files = files_of({header(): [point(1)]})
    files[PATH] += b'{"night": "2026\xff-12\0\0\n'
    assert read_points(files) == [date(1)]


@pytest.mark.parametrize("torn", [b'{"at":"2026-10', b'{"at":"2026-12\n', b"\0" * 40])
def test_the_next_append_removes_the_torn_end(torn: bytes) -> None:
    files = files_of({header(): [point(1)]})
    files[PATH] += torn
    files[NIGHTS] += torn
    changed = append_to(parse_files(files, "there"), added(2))
    assert lines_in(changed) == {
        PATH: lines_of(header(), point(1), point(2)),
        NIGHTS: lines_of(night(1), night(2, files=2)),
    }
    assert read(files | dict(changed.files)).messages == ()


def test_the_next_append_adds_an_end_that_is_lacking() -> None:
    files = files_of({header(): [point(1)]})
    files[PATH] = files[PATH][:-1]
    changed = append_to(parse_files(files, "there"), added(2))
    assert changed.files[PATH] == lines_of(header(), point(1), point(2))


def test_ten_years_of_fifty_metrics_are_read_whole(tmp_path: Path) -> None:
    nights = [f"{2016 + n // 365}-{1 + n % 365 // 31:02d}-{1 + n % 28:02d}" for n in range(3650)]
    points = [point(1, night=name, run_id=str(n)) for n, name in enumerate(nights)]
    body = lines_of(*points)
    files = files_of({}, [Night(name, name, str(n), "c", True) for n, name in enumerate(nights)])
    for number in range(50):
        one = header(f"metric {number}")
        files[path_of(one.id)] = lines_of(one) + body
    found = read(files)
    assert len(found.series) == 50
    assert {len(series.points) for series in found.series.values()} == {3650}
    assert all(isinstance(p, Point) for p in found.series[series_id("metric 7")].points)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
