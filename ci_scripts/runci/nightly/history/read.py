"""The branch's files → the history; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runci.core.errors import RunciError
from runci.nightly.history.layout import FORMAT, METRICS, NIGHTS, README, is_series
from runci.nightly.history.lines import (
    Accept,
    Event,
    History,
    NightsFile,
    Point,
    Series,
    SeriesFile,
    check_format,
    odd_order,
    parse_nights,
    parse_series,
)
from runci.nightly.history.renames import rename
from runci.nightly.record import SeriesId


@dataclass(frozen=True, slots=True)
class Files:
    """All of the branch's files, parsed but not yet put together."""

    series: Mapping[SeriesId, SeriesFile]
    nights: NightsFile
    messages: tuple[str, ...] = ()


def parse_files(files: Mapping[str, bytes], where: str) -> Files:
    """Parse everything. `where` is for messages: a folder or a branch.

    Raises RunciError where the history is not there at all, or any of it is corrupt.
    """
    if FORMAT not in files or NIGHTS not in files:
        absent = FORMAT if FORMAT not in files else NIGHTS
        raise RunciError(
            f"{where}: no {absent} there: this is no history. Name the right branch or folder, "
            "or start one with `runci perf history --init`"
        )
    check_format(files[FORMAT])
    nights = parse_nights(NIGHTS, files[NIGHTS])
    series: dict[SeriesId, SeriesFile] = {}
    messages = list(nights.messages)
    for path in sorted(set(files) - {FORMAT, NIGHTS, README}):
        if not is_series(path):
            messages.append(f"{path}: no file of the history: left alone")
            continue
        parsed = parse_series(path, files[path])
        series[parsed.header.id] = parsed
        messages += parsed.messages
    if series and not nights.nights:
        raise RunciError(
            f"{NIGHTS}: empty, although there are {len(series)} series: restore it from an earlier "
            "commit of its branch"
        )
    measured = [night.night for night in nights.nights if night.measured]
    if measured and not series:
        raise RunciError(
            f"{where}: no series, although {NIGHTS} says that {measured[-1]} was measured: restore "
            f"{METRICS} from an earlier commit of its branch"
        )
    return Files(series, nights, tuple(messages))


def history_of(files: Files, renames: Mapping[str, str]) -> History:
    """Put together what was parsed, under the names of today; all in the order of the nights."""
    messages = [*files.messages, *_odd_orders(files.series.values())]
    series, said = rename(map(_series, files.series.values()), renames)
    nights = sorted(files.nights.nights, key=lambda night: night.night)
    return History(series, tuple(nights), (*messages, *said))


def _odd_orders(series: Iterable[SeriesFile]) -> list[str]:
    """What is odd about the newest points, once for all the series that it holds for."""
    found: dict[str, list[str]] = {}
    for file in series:
        odd = odd_order([line for line in file.lines if isinstance(line, Point)])
        if odd is not None:
            found.setdefault(odd, []).append(file.path)
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more' if paths[1:] else ''}: {odd}: "
        "kept, and put in the order of its night"
        for odd, paths in found.items()
    ]


def _series(file: SeriesFile) -> Series:
    """One file's series, its points as they were appended."""
    return Series(
        file.header.id,
        file.header.unit,
        file.header.direction,
        tuple(line for line in file.lines if isinstance(line, Point)),
        tuple(line for line in file.lines if isinstance(line, Accept)),
        tuple(line for line in file.lines if isinstance(line, Event)),
    )
