"""The files of the history, their lines, one JSON object a line, and bytes → lines; pure."""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from runci.config.perf import is_night
from runci.core.errors import RunciError
from runci.nightly.record import SCHEMA, Direction, SeriesId, slug

README = "README.md"
FORMAT = "format.json"
NIGHTS = "nights.jsonl"
METRICS = "metrics/"
SUFFIX = ".jsonl"
LONGEST_SLUG = 80
LAST = "9999-12-31"  # the end of all nights
_RESTORE = "nobody edits the history by hand: restore the file from an earlier commit of its branch"
_SCHEMA = b'"schema":%d' % SCHEMA

_README_TEXT = """\
# What the nightly measured

`runci perf record` appends to this branch every night; `runci perf check` and `runci perf accept`
append what was decided. Nobody edits it by hand, nothing is ever taken away, and nothing else
pushes here. To read it: `runci perf history`, or `runci perf history --csv FILE`.

- `format.json`: the version of these files, and of each its lines and newest night.
- `nights.jsonl`: one line for each run of the nightly, whatever came of it.
- `metrics/MACHINE/METRIC-HASH.jsonl`: one series. The first line says which; then come its points
  (`point`), acceptances (`accept`) and confirmed changes (`event`), one JSON object a line.
"""


def path_of(series: SeriesId) -> str:
    """The series' file. The digest of the whole id keeps apart what the readable part does not."""
    machine, metric = (slug(text)[:LONGEST_SLUG] for text in (series.machine_key, series.metric))
    return f"{METRICS}{machine}/{metric}-{series.digest[:10]}{SUFFIX}"


def is_series(path: str) -> bool:
    """Whether a path has the shape of a series' file."""
    return path.startswith(METRICS) and path.endswith(SUFFIX) and path.count("/") == 2


@dataclass(frozen=True, slots=True)
class Listed:
    """What a file held when it was last appended to: its lines, and the newest night in them.

    No lines: somebody says that it is gone for good.
    """

    lines: int
    night: str


def format_text(listed: Mapping[str, Listed]) -> bytes:
    """format.json, which lists the other files, one a line: a commit shows what it added."""
    them = {path: {"lines": one.lines, "night": one.night} for path, one in listed.items()}
    lines = ",".join(f"\n  {json.dumps(path)}: {json.dumps(them[path])}" for path in sorted(them))
    return f'{{"schema": {SCHEMA}, "files": {{{lines}}}}}\n'.encode()


def first_files() -> Mapping[str, bytes]:
    """What a new branch holds."""
    return {
        README: _README_TEXT.encode(),
        FORMAT: format_text({NIGHTS: Listed(0, "")}),
        NIGHTS: b"",
    }


@dataclass(frozen=True, slots=True)
class SeriesHeader:
    """The first line of a series' file."""

    id: SeriesId
    unit: str
    direction: Direction
    kind: str = "series"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one metric: the median of each repetition, candidate and baseline in pairs.

    For a metric whose unit is `exact` there are no figures and `passed` says how it went.
    `reference` is the candidate's median over that of the reference metric (F.linear).
    `unusable` has the reasons why the figures do not count. `arms` are medians of other commits
    that were measured beside, by name; nothing is decided by them.
    """

    night: str
    at: str
    run_id: str
    commit: str
    baseline_commit: str = ""
    candidate: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    again_candidate: tuple[float, ...] = ()
    again_baseline: tuple[float, ...] = ()
    reference: float | None = None
    passed: bool | None = None
    detail: str = ""
    unusable: tuple[str, ...] = ()
    run_url: str = ""
    temperature: int | None = None
    sm_clock: int | None = None
    arms: tuple[tuple[str, tuple[float, ...]], ...] = ()
    kind: str = "point"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Accept:
    """Somebody takes the level from `night` on as the new normal: a new segment begins there."""

    night: str
    at: str
    by: str
    reason: str
    kind: str = "accept"
    schema: int = SCHEMA


class Turn(str, enum.Enum):
    """What an event says happened to a series."""

    REGRESSION = "regression"
    RECOVERED = "recovered"
    IMPROVEMENT = "improvement"


@dataclass(frozen=True, slots=True)
class Event:
    """A confirmed change, written down when it was decided, so that no later night unsays it.

    `night` is the night of the decision, `since` the first night at the new level, `since_commit`
    its commit and `last_good` the commit of the night before. `change` is relative, above 0 worse,
    between `low` and `high` with 95 % confidence.
    """

    night: str
    at: str
    turn: Turn
    since: str
    since_commit: str
    last_good: str
    change: float
    low: float
    high: float
    level: float
    confirmed_by: str
    kind: str = "event"
    schema: int = SCHEMA


Line = Point | Accept | Event


@dataclass(frozen=True, slots=True)
class SuiteNight:
    """A nightly suite's results: counts of tests, and the tests and files that failed."""

    suite: str
    executed: int
    failed: int
    skipped: int
    failures: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what `runci verify` missed

    @property
    def is_bad(self) -> bool:
        """It needs a look: a failed test, or one that did not run."""
        return bool(self.failed or self.failures or self.problems)


@dataclass(frozen=True, slots=True)
class Night:
    """One run of the nightly, whatever came of it. `measured` is false where no record came.

    `files` is how many files format.json lists with this line, and `after` how many nights it had
    listed before; `files` is 0 in a line from before it listed any.
    """

    night: str
    at: str
    run_id: str
    commit: str
    measured: bool
    unusable: tuple[str, ...] = ()
    suites: tuple[SuiteNight, ...] = ()
    run_url: str = ""
    machine: str = ""
    files: int = 0
    after: int = 0
    kind: str = "night"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Series:
    """A series as it is read: each kind of line in the order in which it was appended."""

    id: SeriesId
    unit: str
    direction: Direction
    points: tuple[Point, ...] = ()
    accepts: tuple[Accept, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All that the branch holds. `messages` say what was mended or looked odd while reading."""

    series: Mapping[SeriesId, Series] = field(default_factory=dict)
    nights: tuple[Night, ...] = ()
    messages: tuple[str, ...] = ()


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


def one_per_night(points: Iterable[Point], until: str = LAST) -> tuple[Point, ...]:
    """One point a night up to `until`, by night: the last usable one, else the last.

    `points` are as `Series.points` has them: those of one night in the order of their appending.
    """
    chosen: dict[str, Point] = {}
    for point in points:
        before = chosen.get(point.night)
        if point.night <= until and (before is None or not point.unusable or before.unusable):
            chosen[point.night] = point
    return tuple(chosen[night] for night in sorted(chosen))


def odd_order(points: Sequence[Point]) -> str | None:
    """What is odd about the clock of the newest of these points, in the order of their appending.

    Only the newest: each night is told of its own, not of what was said before.
    """
    for before, point in itertools.pairwise(points[-2:]):
        if point.night < before.night:
            return f"the night {point.night} was appended after {before.night}"
        # To the second: what follows is a fraction or the zone, which is always UTC.
        if point.at[:19] < before.at[:19]:
            return f"the clock went backwards, from {before.at} to {point.at}"
    return None


def parse_format(data: bytes) -> Mapping[str, Listed]:
    """The files that format.json lists; none in a history from before it did.

    Raises RunciError where it is of another version, or is none.
    """
    try:
        given = msgspec.json.decode(data)
        schema = given.get("schema") if isinstance(given, dict) else None
        if schema != SCHEMA:
            raise RunciError(f"{FORMAT}: schema {schema!r}, but this runci reads {SCHEMA}")
        return msgspec.convert(given.get("files", {}), dict[str, Listed])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise RunciError(f"{FORMAT}: not JSON of its form ({error}): {_RESTORE}") from error


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


def is_readable(text: bytes) -> bool:
    """Whether a line can be read again: JSON has no NaN, no infinity and no half characters."""
    kinds = {**_LINES, "night": _NIGHT}
    try:
        _dated(kinds[_plain(text, "")["kind"]].decode(text), "", 0)  # type: ignore[index]
    except (KeyError, RunciError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


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
