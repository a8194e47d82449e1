"""A history that is corrupt is an error, with file and line."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import (
    KERNEL,
    added,
    date,
    event,
    files_of,
    header,
    lines_of,
    listed,
    night,
    point,
    read,
    read_points,
    series_id,
)

from runci import register_cpu_ci
from runci.core.errors import Exit, RunciError
from runci.nightly.history.additions import Additions, append_to
from runci.nightly.history.lines import FORMAT, NIGHTS, README, History, first_files, path_of
from runci.nightly.history.read import parse_files
from runci.nightly.history.store import read_folder, start_folder

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = path_of(series_id())
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
    "a list of files that is none": (put(FORMAT, b'{"schema":1,"files":[1]}'), f"{FORMAT}: not JS"),
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


def cut(path: str, lines: int) -> Callable[[dict[str, bytes]], None]:
    """Keep so many lines of a file."""

    def change(files: dict[str, bytes]) -> None:
        files[path] = b"".join(files[path].splitlines(keepends=True)[:lines])

    return change


LOST = {
    "one of two series": (put(OTHER, None), OTHER),
    "its last line, of a night that has another": (cut(PATH, 4), PATH),
    "all of its lines": (cut(PATH, 1), PATH),
    "a line that is torn": (corrupt(5, b'{"torn'), PATH),
    "the newest night, an older one twice": (
        put(OTHER, lines_of(header("another"), point(1), point(1))),
        OTHER,
    ),
    "a line of the nights": (cut(NIGHTS, 2), NIGHTS),
}


@pytest.mark.parametrize("name", LOST)
def test_what_the_history_lists_and_has_no_more_is_an_error(name: str) -> None:
    change, path = LOST[name]
    series = {
        header(): [point(1), point(2), point(3), event(3)],
        header("another"): [point(1), point(2)],
    }
    old = files_of(series, [night(1), night(2), night(3)])
    files = listed(old)
    assert read(files) == read(old)  # from before it listed anything
    change(files)
    with pytest.raises(RunciError) as caught:
        read(files)
    assert path in str(caught.value)
    assert caught.value.code == Exit.USAGE


def appended(files: dict[str, bytes], additions: Additions) -> dict[str, bytes]:
    return {**files, **append_to(parse_files(files, "there"), additions).files}


def with_another(number: int) -> Additions:
    """What a night appends to two series."""
    one, other = added(number), added(number, metric="another")
    return Additions((*one.series, *other.series), one.nights)


def change_list(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A change of what format.json lists."""

    def changed(text: bytes) -> bytes:
        given = json.loads(text)
        change(given["files"])
        return json.dumps(given).encode()

    return changed


START = first_files()[FORMAT]
OUTDATED: dict[str, Callable[[bytes], bytes]] = {
    "of a version that listed nothing": lambda _: b'{"schema": 1}\n',
    "emptied": change_list(dict.clear),
    "without the series": change_list(lambda files: files.pop(OTHER)),
    "without the nights": change_list(lambda files: [files.pop(OTHER), files.pop(NIGHTS)]),
    "of the start": lambda _: START,
    "of an earlier night": lambda _: appended(dict(first_files()), added(1))[FORMAT],
}


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("name", OUTDATED)
def test_a_list_that_lost_something_hides_no_lost_series(name: str, lost: bool) -> None:
    files = dict(first_files())
    for number in (1, 2, 3):
        files = appended(files, with_another(number))
    files[FORMAT] = OUTDATED[name](files[FORMAT])
    if lost:
        del files[OTHER]
    with pytest.raises(RunciError, match=rf"{FORMAT} (is|lists) .*: restore it") as caught:
        read(files)
    assert caught.value.code == Exit.USAGE


def test_many_nights_of_one_append_are_none_that_the_list_forgot() -> None:
    nights = Additions((), tuple(night(n, measured=False) for n in (1, 2, 3)))
    changed = append_to(parse_files(dict(first_files()), "there"), nights).files
    stopped = {**first_files(), NIGHTS: changed[NIGHTS]}
    assert len(read(stopped).nights) == 3
    assert len(read(appended(stopped, added(4))).nights) == 4
    with pytest.raises(RunciError, match=f"lists no {NIGHTS}"):
        read({**stopped, FORMAT: b'{"schema": 1}'})


def test_a_loss_that_is_meant_is_said_in_the_list_and_stays_there() -> None:
    files = appended(dict(first_files()), with_another(1))
    del files[OTHER]
    meant = change_list(lambda listed: listed.update({OTHER: {"lines": 0, "night": ""}}))
    files[FORMAT] = meant(files[FORMAT])
    for number in (2, 3):
        assert [series.metric for series in read(files).series] == [KERNEL]
        files = appended(files, added(number))
    files = appended(files, with_another(4))  # measured again
    assert len(read(files).series) == 2
    del files[OTHER]
    with pytest.raises(RunciError, match=f"{OTHER} is gone"):
        read(files)


def test_an_append_that_was_stopped_before_the_list_is_no_loss() -> None:
    files = listed(files_of({header(): [point(1)]}))
    changed = append_to(parse_files(files, "there"), added(2)).files
    assert list(changed) == [PATH, NIGHTS, FORMAT]  # as they are written
    assert read_points({**files, PATH: changed[PATH]}) == [date(1), date(2)]
    assert read_points({**files, **changed}) == [date(1), date(2)]


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
    with pytest.raises(RunciError, match=r"no such folder|no history"):
        read_folder(folder)


def test_git_s_own_files_in_a_checkout_are_left_out(tmp_path: Path) -> None:
    start_folder(tmp_path / "h")
    (tmp_path / "h" / ".git").mkdir()
    (tmp_path / "h" / ".git" / "HEAD").write_text("ref: x")
    assert read_folder(tmp_path / "h") == History()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
