"""What is appended to a history, and what is not."""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import (
    KERNEL,
    LINEAR,
    accept,
    added,
    date,
    event,
    files_of,
    header,
    lines_in,
    lines_of,
    listed,
    night,
    point,
    series_id,
)

from runci import register_cpu_ci
from runci.core.atomic import locked as alone
from runci.core.errors import Exit, RunciError
from runci.nightly.history.additions import Addition, Additions, append_to, known_series
from runci.nightly.history.lines import NIGHTS, Event, History, Point, Turn, path_of
from runci.nightly.history.read import history_of, parse_files
from runci.nightly.history.store import append_folder, read_folder, start_folder, write_files

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PATH = path_of(series_id())


def test_a_new_series_gets_its_header_and_others_stay() -> None:
    files = files_of({header(): [point(1)]})
    changed = append_to(parse_files(files, "there"), added(1, metric=LINEAR))
    assert lines_in(changed) == {path_of(series_id(LINEAR)): lines_of(header(LINEAR), point(1))}
    assert changed.lines == 1  # the night was known


@pytest.mark.parametrize(
    "line",
    [
        point(1, math.inf),
        point(1, math.nan),
        dataclasses.replace(point(1), night="soon"),
        dataclasses.replace(point(1), kind="pint"),
        dataclasses.replace(event(2), since=date(3)),
    ],
)
def test_no_line_is_appended_that_could_not_be_read_again(line: Point | Event) -> None:
    """A median of 1e308 and 1e308 was infinite, which JSON writes as null: nobody could read on."""
    with pytest.raises(RunciError, match="nothing was written") as caught:
        append_to(parse_files(files_of({header(): [point(2)]}), "there"), added(1, line))
    assert caught.value.code == Exit.FAULT


def test_what_is_no_text_is_refused_before_anything_is_written() -> None:
    """Half of a pair of surrogates, as a command line in another encoding has them."""
    line = accept(1, reason="caf\udce9")
    with pytest.raises(RunciError, match=r"'caf\\udce9' is no text") as caught:
        append_to(parse_files(files_of({header(): [point(1)]}), "there"), added(2, line))
    assert caught.value.code == Exit.USAGE


def test_what_is_there_is_not_appended_again_and_told() -> None:
    files = listed(files_of({header(): [point(1)]}))
    again = append_to(parse_files(files, "there"), added(1))
    assert (again.files, again.lines) == ({}, 0)
    assert again.messages == (
        f"{KERNEL}: the point of {date(1)} is there already",
        f"{NIGHTS}: the night of {date(1)} is there already",
    )


def test_the_same_run_at_another_time_is_the_same_and_with_other_contents_is_not() -> None:
    """A record repeated by a second attempt of its job, and tests that were run again by it."""
    files = listed(files_of({header(): [point(1)]}))
    late = f"{date(1)}T09:00:00Z"
    same = Additions((Addition(header(), (point(1, at=late),)),), (night(1, at=late),))
    assert append_to(parse_files(files, "there"), same).files == {}
    other = append_to(parse_files(files, "there"), added(1, point(1, 7.0)))
    assert lines_in(other) == {PATH: files[PATH] + lines_of(point(1, 7.0))}


def test_another_run_of_the_same_night_is_kept() -> None:
    files = files_of({header(): [point(1)]})
    twice = Additions(
        (Addition(header(), (point(1, run_id="later"),)),), (night(1, run_id="later"),)
    )
    assert append_to(parse_files(files, "there"), twice).lines == 2


def test_runs_without_a_number_are_told_apart_by_their_time() -> None:
    files = files_of({header(): [point(1, run_id="")]})
    later = point(1, run_id="", at=f"{date(1)}T05:00:00Z")
    changed = append_to(parse_files(files, "there"), added(1, point(1, run_id=""), later))
    assert changed.files[PATH] == files[PATH] + lines_of(later)


def test_the_same_event_or_acceptance_at_another_time_is_the_same() -> None:
    files = files_of({header(): [point(1), accept(1), event(2)]})
    known = parse_files(files, "there")
    late = "2026-10-09T00:00:00Z"
    same = [dataclasses.replace(accept(1), at=late), dataclasses.replace(event(2), at=late)]
    new = [event(2, Turn.RECOVERED), accept(1, "another reason"), accept(2)]
    additions = known_series(history_of(known, {}), {series_id(): [*same, *new]})
    assert lines_in(append_to(known, additions)) == {PATH: files[PATH] + lines_of(*new)}


def test_lines_of_a_renamed_series_without_a_file_start_one() -> None:
    known = parse_files(files_of({header("old"): [point(1)]}), "there")
    additions = known_series(history_of(known, {"old": "new"}), {series_id("new"): [accept(1)]})
    assert lines_in(append_to(known, additions)) == {
        path_of(series_id("new")): lines_of(header("new"), accept(1))
    }


def test_lines_of_an_unknown_series_are_an_error() -> None:
    known = parse_files(files_of({header(): [point(1)]}), "there")
    with pytest.raises(
        RunciError, match="no series 'nothing' on NVIDIA GeForce RTX 5090/580/gemm/1"
    ):
        known_series(history_of(known, {}), {series_id("nothing"): [accept(1)]})


def test_another_unit_is_an_error() -> None:
    known = parse_files(files_of({header(): [point(1)]}), "there")
    with pytest.raises(RunciError, match=r"\bns\b.*\bus\b"):
        append_to(known, Additions((Addition(header(unit="ns"), (point(2),)),)))


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/tmp/x", ".git/config", "a/.git/hooks/x"])
def test_no_file_is_written_outside_its_folder(tmp_path: Path, path: str) -> None:
    """git's plumbing makes trees with such names; git itself checks none of them out."""
    folder = tmp_path / "in"
    with pytest.raises(RunciError, match="such a name"):
        write_files(folder, {path: b"x"})
    assert list(tmp_path.rglob("*")) == []


def test_a_folder_is_appended_to_in_place(tmp_path: Path) -> None:
    start_folder(tmp_path / "h")
    for number in (1, 2, 3):
        before = read_folder(tmp_path / "h")
        seen: list[History] = []

        def changes(history: History, number: int = number) -> Additions:
            seen.append(history)  # noqa: B023
            return added(number)

        assert append_folder(tmp_path / "h", changes).lines == 2
        assert seen == [before]
    found = read_folder(tmp_path / "h")
    assert found.series[series_id()].points == (point(1), point(2), point(3))
    assert found.nights == tuple(night(n, files=2, after=n - 1) for n in (1, 2, 3))
    with pytest.raises(RunciError, match="there already"):
        start_folder(tmp_path / "h")


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks of POSIX")
def test_who_appends_to_a_folder_waits_for_who_does(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    start_folder(folder)
    appended: list[int] = []
    other = threading.Thread(
        target=lambda: appended.append(append_folder(folder, lambda _: added(2)).lines)
    )
    with alone(folder):
        other.start()
        other.join(0.3)
        assert appended == []
        # As if this process had read before the other one began.
        write_files(folder, {PATH: lines_of(header(), point(1)), NIGHTS: lines_of(night(1))})
    other.join(30)
    assert read_folder(folder).series[series_id()].points == (point(1), point(2))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
