"""Bytes of one file → its lines, what was mended, or an error with file and line; pure.

The last line may be torn: an append that was cut short. It is left out and told, and the next
append writes the file without it. Anything else that is wrong is an error: a history that cannot
be read is never taken for an empty one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from runci.errors import RunciError
from runci.perf.history.layout import FORMAT, is_series, path_of
from runci.perf.history.nights import is_night
from runci.perf.lines import Accept, Event, Night, Point, SeriesHeader
from runci.perf.metric import SCHEMA

Line = Point | Accept | Event

_RESTORE = "nobody edits the history by hand: restore the file from an earlier commit of its branch"
_SCHEMA = b'"schema":%d' % SCHEMA
_HEADER = msgspec.json.Decoder(SeriesHeader)
_NIGHT = msgspec.json.Decoder(Night)
_POINT = msgspec.json.Decoder(Point)
_LINES: dict[str, msgspec.json.Decoder[Any]] = {
    "point": _POINT,
    "accept": msgspec.json.Decoder(Accept),
    "event": msgspec.json.Decoder(Event),
}
_Kind = TypeVar("_Kind")
_Dated = TypeVar("_Dated", Night, Point, Line)


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """A series' file as it stands: `whole` is what of its bytes the next append keeps."""

    path: str
    header: SeriesHeader
    lines: tuple[Line, ...]
    whole: bytes
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NightsFile:
    """`nights.jsonl` as it stands."""

    nights: tuple[Night, ...]
    whole: bytes
    messages: tuple[str, ...] = ()


def check_format(data: bytes) -> None:
    """Raises RunciError where format.json is of another version, or is none."""
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RunciError(f"{FORMAT}: not JSON ({error}): {_RESTORE}") from error
    schema = given.get("schema") if isinstance(given, dict) else None
    if schema != SCHEMA:
        raise RunciError(f"{FORMAT}: schema {schema!r}, but this runci reads {SCHEMA}")


def parse_series(path: str, data: bytes) -> SeriesFile:
    """One file below `metrics/`. Raises RunciError for a fault that is not a torn last line."""
    if not is_series(path):
        raise RunciError(f"{path}: no series' file has such a name: {_RESTORE}")
    raw, whole, messages = _split(path, data)
    if not raw:
        raise RunciError(f"{path}:1: the line that names the series is missing: {_RESTORE}")
    header = _decoded(raw[0], f"{path}:1", "series", _HEADER)
    if path_of(header.id) != path:
        raise RunciError(
            f"{path}:1: this is the series {header.id.metric!r} of {header.id.machine_key}, "
            f"whose file is {path_of(header.id)}: {_RESTORE}"
        )
    lines = tuple(_line(text, path, number) for number, text in enumerate(raw[1:], 2))
    return SeriesFile(path, header, lines, whole, messages)


def parse_nights(path: str, data: bytes) -> NightsFile:
    """`nights.jsonl`; raises as `parse_series`. A new branch has no line in it."""
    raw, whole, messages = _split(path, data)
    nights = tuple(
        _dated(_decoded(text, f"{path}:{number}", "night", _NIGHT), path, number)
        for number, text in enumerate(raw, 1)
    )
    return NightsFile(nights, whole, messages)


def _split(path: str, data: bytes) -> tuple[list[bytes], bytes, tuple[str, ...]]:
    """Lines without their ends, the bytes to keep, and what was mended."""
    raw = data.split(b"\n")
    tail = raw.pop()
    if tail:
        raw.append(tail)
    if not raw or _is_json(raw[-1]):
        if not tail:
            return raw, data, ()
        number = len(raw)
        said = f"{path}:{number}: the last line lacks its end, which the next append adds"
        return raw, data + b"\n", (said,)
    number = len(raw)
    torn = raw.pop()
    kept = data[: len(data) - len(torn) - (0 if tail else 1)]
    said = f"{path}:{number}: the last line is torn ({len(torn)} bytes): left out"
    return raw, kept, (f"{said}; the next append removes it",)


def is_readable(text: bytes) -> bool:
    """Whether a line can be read again: JSON has no NaN, no infinity and no half characters."""
    kinds = {**_LINES, "night": _NIGHT}
    try:
        _dated(kinds[_plain(text, "")["kind"]].decode(text), "", 0)  # type: ignore[index]
    except (KeyError, RunciError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    except RecursionError:  # whole or not, it is none of ours: the decoder says so
        return True
    return True


def _line(text: bytes, path: str, number: int) -> Line:
    # Nearly all lines are points, and a quote inside a text is escaped: this finds only the keys.
    if b'"kind":"point"' in text and _SCHEMA in text:
        try:
            point = _POINT.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        else:
            if point.kind == "point" and point.schema == SCHEMA:
                return _dated(point, path, number)
    where = f"{path}:{number}"
    kind = _plain(text, where).get("kind")
    decoder = _LINES.get(kind) if isinstance(kind, str) else None
    if decoder is None:
        raise RunciError(f"{where}: a line of the kind {kind!r} cannot stand here: {_RESTORE}")
    line: Line = _decoded(text, where, str(kind), decoder)
    return _dated(line, path, number)


def _plain(text: bytes, where: str) -> dict[str, object]:
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunciError(f"{where}: not JSON ({error}): {_RESTORE}") from error
    if not isinstance(given, dict):
        raise RunciError(f"{where}: not an object: {_RESTORE}")
    if given.get("schema") != SCHEMA or isinstance(given["schema"], bool):
        raise RunciError(f"{where}: schema {given.get('schema')!r}, but this runci reads {SCHEMA}")
    return given


def _decoded(text: bytes, where: str, kind: str, decoder: msgspec.json.Decoder[_Kind]) -> _Kind:
    given = _plain(text, where)
    if given.get("kind") != kind:
        raise RunciError(
            f"{where}: a line of the kind {kind!r} must stand here, "
            f"not {given.get('kind')!r}: {_RESTORE}"
        )
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunciError(f"{where}: {error}: {_RESTORE}") from error


def _dated(line: _Dated, path: str, number: int) -> _Dated:
    if not is_night(line.night):
        raise RunciError(f"{path}:{number}: night {line.night!r} is no date: {_RESTORE}")
    if isinstance(line, Event) and not (is_night(line.since) and line.since <= line.night):
        raise RunciError(
            f"{path}:{number}: since {line.since!r} is no date up to {line.night}: {_RESTORE}"
        )
    return line
