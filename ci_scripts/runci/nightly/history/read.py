"""The branch's files → the history, under the names that metrics have today; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.core.errors import RunciError
from runci.nightly.history.lines import (
    FORMAT,
    METRICS,
    NIGHTS,
    README,
    Accept,
    Event,
    History,
    Line,
    Listed,
    Night,
    NightsFile,
    Point,
    Series,
    SeriesFile,
    is_series,
    odd_order,
    parse_format,
    parse_nights,
    parse_series,
)
from runci.nightly.record import SeriesId


@dataclass(frozen=True, slots=True)
class Files:
    """All of the branch's files, parsed but not yet put together."""

    series: Mapping[SeriesId, SeriesFile]
    nights: NightsFile
    messages: tuple[str, ...] = ()
    listed: Mapping[str, Listed] = field(default_factory=dict)
    format: bytes = b""


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
    listed = parse_format(files[FORMAT])
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
    if odd := _outdated(listed, nights.nights):
        raise RunciError(f"{where}: {FORMAT} {odd}: restore it from a commit of its branch")
    if lost := _lost(listed, list_files(series.values(), nights)):
        raise RunciError(
            f"{where}: {lost}: restore it from an earlier commit of its branch; where the loss is "
            f"meant, write 0 for its lines in {FORMAT}"
        )
    return Files(series, nights, tuple(messages), listed, files[FORMAT])


def list_files(series: Iterable[SeriesFile], nights: NightsFile) -> Mapping[str, Listed]:
    """What format.json has to say of these files."""
    listed = {file.path: Listed(len(file.lines) + 1, _newest(file.lines)) for file in series}
    return {NIGHTS: Listed(len(nights.nights), _newest(nights.nights)), **listed}


def _newest(lines: Iterable[Line | Night]) -> str:
    return max((line.night for line in lines), default="")


def _outdated(listed: Mapping[str, Listed], nights: Sequence[Night]) -> str:
    """Whether the list is another than the nights say; empty where it is not.

    Of nights that an append wrote just before it was stopped it does not know: they followed it.
    """
    told = [night for night in nights if night.files]
    if told and NIGHTS not in listed:
        return f"lists no {NIGHTS}, which says that it listed {told[-1].files} files"
    lines = listed[NIGHTS].lines if NIGHTS in listed else 0
    for night in nights[lines:]:
        if night.files and night.after != lines:
            return f"is from before the night {night.night}, with {lines} of {len(nights)} nights"
    for night in nights[:lines]:
        if night.files > len(listed):
            return f"lists {len(listed)} files, and {night.files} on the night {night.night}"
    return ""


def _lost(listed: Mapping[str, Listed], found: Mapping[str, Listed]) -> str:
    """Which file is gone or shorter than when it was appended to; empty where none is.

    One that is longer was written just before an append was stopped.
    """
    for path, then in listed.items():
        now = found.get(path)
        if now is None and not then.lines:
            continue
        if now is None:
            return f"{path} is gone, which had {then.lines} lines up to the night {then.night}"
        if now.lines < then.lines or now.night < then.night:
            return (
                f"{path} had {then.lines} lines up to the night {then.night}, and has {now.lines} "
                f"whole ones up to {now.night or 'none'}"
            )
    return ""


def history_of(files: Files, renames: Mapping[str, str]) -> History:
    """Put together what was parsed, under the names of today; all in the order of the nights."""
    messages = [*files.messages, *_odd_orders(files.series.values())]
    series, said = rename(map(_series, files.series.values()), renames)
    nights = sorted(files.nights.nights, key=lambda night: night.night)
    return History(series, tuple(nights), (*messages, *said))


def newest_names(renames: Mapping[str, str]) -> Mapping[str, str]:
    """Each old name with the name that it has today. Raises RunciError for a circle."""
    newest: dict[str, str] = {}
    for old in renames:
        chain = {old: None}  # in order
        name = renames[old]
        while name in renames and name not in newest:
            if name in chain:
                names = list(chain)
                circle = " → ".join(map(repr, [*names[names.index(name) :], name]))
                raise RunciError(f"renames in perf.yml go in a circle: {circle}: remove one")
            chain[name] = None
            name = renames[name]
        newest |= dict.fromkeys(chain, newest.get(name, name))
    return newest


def rename(
    found: Iterable[Series], renames: Mapping[str, str]
) -> tuple[Mapping[SeriesId, Series], tuple[str, ...]]:
    """The series under the names of today, by night, and what is odd about that.

    Raises RunciError for a circle, and where a name joins series of another unit or direction.
    """
    newest = newest_names(renames)
    parts: dict[SeriesId, list[Series]] = {}
    for series in found:
        today = newest.get(series.id.metric, series.id.metric)
        parts.setdefault(replace(series.id, metric=today), []).append(series)
    joined, messages = {}, []
    for series_id, those in parts.items():
        those.sort(key=lambda one: _age(one.id.metric, renames))
        joined[series_id], said = _join(series_id, those)
        messages += said
    return joined, tuple(messages)


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


def _age(name: str, renames: Mapping[str, str]) -> tuple[int, str]:
    """Sorts the oldest name first: the most renames lie between it and today's."""
    steps = 0
    while name in renames:
        name = renames[name]
        steps -= 1
    return steps, name


def _join(series_id: SeriesId, parts: list[Series]) -> tuple[Series, list[str]]:
    newest = parts[-1]
    messages = []
    points = list(newest.points)
    for older in reversed(parts[:-1]):
        if (older.unit, older.direction) != (newest.unit, newest.direction):
            raise RunciError(
                f"perf.yml renames {older.id.metric!r} ({older.unit}, {older.direction.value}) to "
                f"{series_id.metric!r} ({newest.unit}, {newest.direction.value}), on "
                f"{series_id.machine_key}: a name cannot join these: remove the rename"
            )
        known = {point.night for point in points}
        both = sorted({point.night for point in older.points} & known)
        if both:
            messages.append(
                f"{older.id.metric!r} was renamed to {series_id.metric!r}, but both have points of "
                f"{both[0]}{f' and {len(both) - 1} later nights' if len(both) > 1 else ''}: the "
                "newer name's count; where both are still measured, remove the rename in perf.yml"
            )
        points = [point for point in older.points if point.night not in known] + points
    joined = Series(
        series_id,
        newest.unit,
        newest.direction,
        # Stable: those of one night stay as they were appended.
        tuple(sorted(points, key=lambda point: point.night)),
        tuple(accept for part in parts for accept in part.accepts),
        tuple(event for part in parts for event in part.events),
    )
    return joined, messages
