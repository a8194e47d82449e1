"""What the history holds when it is read: torn ends, corrupt files, renames, odd clocks."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from perf_records import (
    KERNEL,
    LINEAR,
    accept,
    added,
    date,
    event,
    files_of,
    header,
    lines_of,
    night,
    point,
    series_id,
)

from runci import register_cpu_ci
from runci.errors import Exit, RunciError
from runci.perf.history.additions import Addition, Additions, append_to, known_series
from runci.perf.history.folder import alone
from runci.perf.history.layout import FORMAT, NIGHTS, README, first_files, path_of
from runci.perf.history.nights import is_night, one_per_night
from runci.perf.history.read import history_of, parse_files
from runci.perf.history.store import append_folder, read_folder, start_folder, write_files
from runci.perf.lines import Event, History, Night, Point, Series, Turn
from runci.perf.metric import Direction

register_cpu_ci(est_time=10, stage="base-a", runner_config="cpu")

PATH = path_of(series_id())


def read(files: dict[str, bytes], **renames: str) -> History:
    return history_of(parse_files(files, "there"), renames)


def read_points(files: dict[str, bytes]) -> list[str]:
    return [point.night for point in read(files).series[series_id()].points]


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
            with pytest.raises(RunciError, match="the line that names the series is missing"):
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


@pytest.mark.parametrize("torn", [b'{"at":"2026-12', b'{"at":"2026-12\n', b"\0" * 40])
def test_the_next_append_removes_the_torn_end(torn: bytes) -> None:
    files = files_of({header(): [point(1)]})
    files[PATH] += torn
    files[NIGHTS] += torn
    changed = append_to(parse_files(files, "there"), added(2))
    assert changed.files == {
        PATH: lines_of(header(), point(1), point(2)),
        NIGHTS: lines_of(night(1), night(2)),
    }
    assert read(files | dict(changed.files)).messages == ()


def test_the_next_append_adds_an_end_that_is_lacking() -> None:
    files = files_of({header(): [point(1)]})
    files[PATH] = files[PATH][:-1]
    changed = append_to(parse_files(files, "there"), added(2))
    assert changed.files[PATH] == lines_of(header(), point(1), point(2))


# What is corrupt is an error, with file and line

OTHER = path_of(series_id("another"))


def corrupt(number: int, line: bytes) -> Callable[[dict[str, bytes]], None]:
    """Put this in place of a line of the series' file."""

    def change(files: dict[str, bytes]) -> None:
        lines = files[PATH].splitlines(keepends=True)
        lines[number - 1] = line + b"\n"
        files[PATH] = b"".join(lines)

    return change


def with_schema(line: object, schema: object) -> bytes:
    plain = json.loads(lines_of(line))
    return json.dumps({**plain, "schema": schema}).encode()


def without(line: object, *names: str) -> bytes:
    plain = json.loads(lines_of(line))
    return json.dumps({name: value for name, value in plain.items() if name not in names}).encode()


def moved(files: dict[str, bytes]) -> None:
    files[OTHER] = files.pop(PATH)


def put(path: str, content: bytes | None) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        if content is None:
            del files[path]
        else:
            files[path] = content

    return change


FAULTS = {
    "half a line in the middle": (corrupt(3, lines_of(point(2))[:50]), f"{PATH}:3: not JSON"),
    "an empty line": (corrupt(3, b""), f"{PATH}:3: not JSON"),
    "no UTF-8 in the middle": (corrupt(3, b'{"\xff": 1}'), f"{PATH}:3: not JSON"),
    "a list": (corrupt(3, b"[]"), f"{PATH}:3: not an object"),
    "deep nesting": (corrupt(3, b"[" * 100_000), f"{PATH}:3: not JSON"),
    "a newer schema": (corrupt(3, with_schema(point(2), 2)), f"{PATH}:3: schema 2, but"),
    "schema 10": (
        corrupt(3, lines_of(point(2))[:-1].replace(b'"schema":1', b'"schema":10')),
        f"{PATH}:3: schema 10, but",
    ),
    "schema true": (corrupt(3, with_schema(point(2), True)), f"{PATH}:3: schema True, but"),
    "no schema": (corrupt(3, without(point(2), "schema")), f"{PATH}:3: schema None, but"),
    "no kind": (corrupt(3, without(point(2), "kind")), f"{PATH}:3: a line of the kind None"),
    "a night among points": (corrupt(3, lines_of(night(2))[:-1]), f"{PATH}:3: a line of the kind"),
    "a second header": (corrupt(3, lines_of(header())[:-1]), f"{PATH}:3: a line of the kind"),
    "no commit": (corrupt(3, without(point(2), "commit")), f"{PATH}:3: Object missing required"),
    "text for a number": (
        corrupt(3, lines_of(point(2))[:-1].replace(b"[6.0,6.0]", b'["6",6.0]')),
        f"{PATH}:3: Expected `float`",
    ),
    "no date": (corrupt(3, lines_of(point(2, night="today"))[:-1]), f"{PATH}:3: night 'today'"),
    "an event since no date": (
        corrupt(3, lines_of(dataclasses.replace(event(2), since="soon"))[:-1]),
        f"{PATH}:3: since 'soon' is no date up to {date(2)}",
    ),
    "an event since a later night": (
        corrupt(3, lines_of(dataclasses.replace(event(2), since=date(3)))[:-1]),
        f"{PATH}:3: since '{date(3)}' is no date up to {date(2)}",
    ),
    "no date in the last line": (
        corrupt(4, lines_of(point(3, night="2026-13-01"))[:-1]),
        f"{PATH}:4: night '2026-13-01'",
    ),
    "a wrong last line that is whole": (corrupt(4, b'{"schema":1}'), f"{PATH}:4: a line of the ki"),
    "no header": (corrupt(1, lines_of(point(1))[:-1]), f"{PATH}:1: a line of the kind 'series'"),
    "a header of another file": (
        corrupt(1, lines_of(header("another"))[:-1]),
        f"{PATH}:1: this is the series 'another'",
    ),
    "a file under another name": (moved, f"{OTHER}:1: this is the series '{KERNEL}'"),
    "an emptied file": (put(PATH, b""), f"{PATH}:1: the line that names the series is missing"),
    "a point among nights": (
        put(NIGHTS, lines_of(night(1), point(1), night(2))),
        f"{NIGHTS}:2: a line of the kind 'night'",
    ),
    "no nights": (put(NIGHTS, None), f"there: no {NIGHTS} there"),
    "all series gone": (
        put(PATH, None),
        f"there: no series, although {NIGHTS} says that {date(1)} was measured: restore metrics/",
    ),
    "nights emptied": (put(NIGHTS, b""), f"{NIGHTS}: empty, although there are 1 series"),
    "no format": (put(FORMAT, None), f"there: no {FORMAT} there"),
    "another format": (put(FORMAT, b'{"schema": 2}'), f"{FORMAT}: schema 2, but"),
    "a broken format": (put(FORMAT, b'{"sche'), f"{FORMAT}: not JSON"),
    "a list as format": (put(FORMAT, b"[1]"), f"{FORMAT}: schema None"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_corrupt_is_an_error_and_never_a_shorter_history(name: str) -> None:
    change, message = FAULTS[name]
    files = files_of({header(): [point(1), point(2), point(3)]})
    assert read_points(files) == [date(1), date(2), date(3)]
    change(files)
    with pytest.raises(RunciError) as caught:
        read(files)
    assert str(caught.value).startswith(message)
    assert caught.value.code == Exit.USAGE


def test_a_file_that_is_none_of_the_history_is_told() -> None:
    files = files_of({header(): [point(1)]}) | {"metrics/notes.txt": b"", "x": b"", README: b"own"}
    assert read(files).messages == (
        "metrics/notes.txt: no file of the history: left alone",
        "x: no file of the history: left alone",
    )


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "other"])
def test_a_folder_without_a_history_is_an_error(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "h"
    if kind == "file":
        folder.write_text("")
    elif kind != "missing":
        folder.mkdir()
    if kind == "other":
        (folder / NIGHTS).write_text("")
    with pytest.raises(RunciError, match=r"no such folder|this is no history"):
        read_folder(folder)


def test_git_s_own_files_in_a_checkout_are_left_out(tmp_path: Path) -> None:
    start_folder(tmp_path / "h")
    (tmp_path / "h" / ".git").mkdir()
    (tmp_path / "h" / ".git" / "HEAD").write_text("ref: x")
    assert read_folder(tmp_path / "h") == History()


# Nights: two records, clocks


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
    assert "the clock went backwards, from 2026-12-01T03:10:00Z to 2026-12-01T03:09:59Z" in message


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
        ("2026-12-01", True),
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
        (" 2026-12-01", False),
        ("", False),
    ],
)
def test_a_night_is_a_date_that_one_can_count_from(text: str, is_one: bool) -> None:
    assert is_night(text) is is_one


def test_one_per_night_sorts() -> None:
    assert [p.night for p in one_per_night([point(3), point(1), point(2)])] == [
        date(n) for n in (1, 2, 3)
    ]


# Renames


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
    with pytest.raises(RunciError, match=r"renames in perf\.yml go in a circle: '[ab]' → '[ab]'"):
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


# Appending


def test_a_new_series_gets_its_header_and_others_stay() -> None:
    files = files_of({header(): [point(1)]})
    changed = append_to(parse_files(files, "there"), added(1, metric=LINEAR))
    assert changed.files == {path_of(series_id(LINEAR)): lines_of(header(LINEAR), point(1))}
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
    with pytest.raises(RunciError, match=r"could not be read again.*nothing was written") as caught:
        append_to(parse_files(files_of({header(): [point(2)]}), "there"), added(1, line))
    assert caught.value.code == Exit.FAULT


def test_what_is_no_text_is_refused_before_anything_is_written() -> None:
    """Half of a pair of surrogates, as a command line in another encoding has them."""
    line = accept(1, reason="caf\udce9")
    with pytest.raises(RunciError, match=r"'caf\\udce9' is no text") as caught:
        append_to(parse_files(files_of({header(): [point(1)]}), "there"), added(2, line))
    assert caught.value.code == Exit.USAGE


def test_what_is_there_is_not_appended_again_and_told() -> None:
    files = files_of({header(): [point(1)]})
    again = append_to(parse_files(files, "there"), added(1))
    assert (again.files, again.lines) == ({}, 0)
    assert again.messages == (
        f"{KERNEL}: the point of {date(1)} is there already",
        f"{NIGHTS}: the night of {date(1)} is there already",
    )


def test_the_same_run_at_another_time_is_the_same_and_with_other_contents_is_not() -> None:
    """A record repeated by a second attempt of its job, and tests that were run again by it."""
    files = files_of({header(): [point(1)]})
    late = f"{date(1)}T09:00:00Z"
    same = Additions((Addition(header(), (point(1, at=late),)),), (night(1, at=late),))
    assert append_to(parse_files(files, "there"), same).files == {}
    other = append_to(parse_files(files, "there"), added(1, point(1, 7.0)))
    assert other.files == {PATH: files[PATH] + lines_of(point(1, 7.0))}


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
    late = "2026-12-09T00:00:00Z"
    same = [dataclasses.replace(accept(1), at=late), dataclasses.replace(event(2), at=late)]
    new = [event(2, Turn.RECOVERED), accept(1, "another reason"), accept(2)]
    additions = known_series(history_of(known, {}), {series_id(): [*same, *new]})
    assert append_to(known, additions).files == {PATH: files[PATH] + lines_of(*new)}


def test_lines_of_a_renamed_series_without_a_file_start_one() -> None:
    known = parse_files(files_of({header("old"): [point(1)]}), "there")
    additions = known_series(history_of(known, {"old": "new"}), {series_id("new"): [accept(1)]})
    assert append_to(known, additions).files == {
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
    with pytest.raises(RunciError, match=r"is in ns .* but its series has us"):
        append_to(known, Additions((Addition(header(unit="ns"), (point(2),)),)))


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/tmp/x", ".git/config", "a/.git/hooks/x"])
def test_no_file_is_written_outside_its_folder(tmp_path: Path, path: str) -> None:
    """git's plumbing makes trees with such names; git itself checks none of them out."""
    folder = tmp_path / "in"
    with pytest.raises(RunciError, match="no file of a history has such a name"):
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
    assert found.nights == (night(1), night(2), night(3))
    with pytest.raises(RunciError, match="there already: nothing was changed"):
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
