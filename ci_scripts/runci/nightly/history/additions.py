"""What to append, and the files with it; pure. What is there already is not appended again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from runci.core.errors import Exit, RunciError
from runci.nightly.history.layout import FORMAT, NIGHTS, format_text, path_of
from runci.nightly.history.lines import (
    Accept,
    Event,
    History,
    Line,
    Night,
    SeriesFile,
    SeriesHeader,
    is_readable,
)
from runci.nightly.history.read import Files, list_files
from runci.nightly.record import SeriesId, encode

_Added = TypeVar("_Added", Line, Night)


@dataclass(frozen=True, slots=True)
class Addition:
    """Lines of one series; the header is written where the series is new."""

    header: SeriesHeader
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Additions:
    """Everything that one command appends."""

    series: tuple[Addition, ...] = ()
    nights: tuple[Night, ...] = ()


@dataclass(frozen=True, slots=True)
class Changed:
    """The files that an append writes, whole; how many lines are new; what to tell."""

    files: Mapping[str, bytes]
    lines: int
    messages: tuple[str, ...] = ()


def known_series(history: History, lines: Mapping[SeriesId, Sequence[Accept | Event]]) -> Additions:
    """Lines of series that the history has. Raises RunciError for one that it has not."""
    additions = []
    for series_id, those in lines.items():
        series = history.series.get(series_id)
        if series is None:
            raise RunciError(
                f"no series {series_id.metric!r} on {series_id.machine_key}: "
                "`runci perf history` lists them"
            )
        header = SeriesHeader(series_id, series.unit, series.direction)
        additions.append(Addition(header, tuple(those)))
    return Additions(tuple(additions))


def append_to(files: Files, additions: Additions) -> Changed:
    """The files with the additions, torn ends removed; only those that change.

    Raises RunciError where a metric's unit or direction is not that of its series.
    """
    changed: dict[str, bytes] = {}
    series = dict(files.series)
    nights = files.nights
    messages: list[str] = []
    count = 0
    for addition in _merged(additions.series):
        header, path = addition.header, path_of(addition.header.id)
        file = series.get(header.id) or SeriesFile(path, header, (), encode(header) + b"\n")
        _same_kind(header, file.header)
        new = _new(addition.lines, file.lines, header.id.metric, messages)
        if new:
            changed[path] = file.whole + _text(new)
            series[header.id] = replace(file, lines=(*file.lines, *new), whole=changed[path])
            count += len(new)
    new_nights = _new(additions.nights, nights.nights, NIGHTS, messages)
    if new_nights:
        # After the series, so that where files are written one by one a night is there when its
        # points are; and then the list, so that a file is never shorter than it says.
        changed[NIGHTS] = nights.whole + _text(new_nights)
        nights = replace(nights, nights=(*nights.nights, *new_nights))
    listed = format_text(list_files(series.values(), nights))
    if listed != files.format:
        changed[FORMAT] = listed
    return Changed(changed, count + len(new_nights), tuple(messages))


def _merged(additions: Iterable[Addition]) -> Iterable[Addition]:
    """One addition a series: two records of one call may have the same."""
    merged: dict[SeriesId, Addition] = {}
    for one in additions:
        before = merged.get(one.header.id)
        if before is not None:
            _same_kind(one.header, before.header)
            one = Addition(one.header, before.lines + one.lines)  # noqa: PLW2901
        merged[one.header.id] = one
    return merged.values()


def _same_kind(new: SeriesHeader, old: SeriesHeader) -> None:
    if (new.unit, new.direction) != (old.unit, old.direction):
        raise RunciError(
            f"{new.id.metric!r} is in {new.unit} ({new.direction.value} is better), but its series "
            f"has {old.unit} ({old.direction.value}): give the benchmark a new version in perf.yml"
        )


def _new(
    lines: Iterable[_Added], known: Iterable[_Added], name: str, messages: list[str]
) -> list[_Added]:
    lines = tuple(lines)
    nights = {line.night for line in lines}
    seen = {_identity(line) for line in known if line.night in nights}
    new = []
    for line in lines:
        identity = _identity(line)
        if identity in seen:
            messages.append(f"{name}: the {line.kind} of {line.night} is there already")
        else:
            new.append(line)
        seen.add(identity)
    return new


def _identity(line: Line | Night) -> Hashable:
    """What makes two lines the same, however often and with whatever clock they are made.

    A run that was repeated in part has the same number and other contents: both are kept.
    """
    if isinstance(line, Event):
        return line.night, line.turn, line.since
    if isinstance(line, Accept) or line.run_id:
        return replace(line, at="")
    return line


def _text(lines: Iterable[Line | Night]) -> bytes:
    """Raises RunciError for a line that nobody could read again: it would close the history."""
    texts = []
    for line in lines:
        text = encode(line)
        if not is_readable(text):
            said = f"the {line.kind} of {line.night} could not be read again: {text[:200]!r}"
            raise RunciError(f"{said}: nothing was written; please report it", Exit.FAULT)
        texts.append(text + b"\n")
    return b"".join(texts)
