"""One night's record: metrics, raw samples of every repetition, the machine before and after."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runci.config.perf import check_night
from runci.core.errors import RunciError
from runci.core.paths import read_named
from runci.text.terminal import note

SCHEMA = 1  # of every file that these stages hand on
EXACT = "exact"  # the unit of a metric that passes or fails
T = TypeVar("T")


class Direction(str, enum.Enum):
    """Which way is better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, order=True)
class SeriesId:
    """One series of nights: a metric on one kind of machine, by one version of a benchmark.

    `driver_major` is the first number of the driver's version, such as 580.
    """

    metric: str
    benchmark: str
    version: str
    gpu: str
    driver_major: int

    @property
    def machine_key(self) -> str:
        """The part that is not the metric: `NVIDIA GeForce RTX 5090/580/sm120_ba_gemm/1`."""
        return f"{self.gpu}/{self.driver_major}/{self.benchmark}/{self.version}"

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for this series: in marks of issues, page anchors."""
        exact = [self.metric, self.benchmark, self.version, self.gpu, self.driver_major]
        return hashlib.sha256(json.dumps(exact).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One metric of one process. `reference` names another metric that it is compared with."""

    metric: str
    unit: str
    direction: Direction
    values: tuple[float, ...]
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold exactly, such as equal bits. `detail` says what was compared."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """All of it. `versions` is of what the figures depend on."""

    samples: tuple[Sampled, ...]
    checks: tuple[Check, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class MachineState:
    """What NVML and the system said at one moment; None is what could not be asked.

    Clocks in MHz, temperature in °C, power in W, memory in MiB. `processes` are those of others on
    the GPU, `throttled` the reasons that hold its clocks down.
    """

    at: str  # ISO 8601, UTC
    sm_clock: int | None = None
    memory_clock: int | None = None
    temperature: int | None = None
    power: float | None = None
    memory_used: int | None = None
    throttled: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    load: float | None = None  # of the host, one minute


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU and the host. `driver` is its whole version, such as 580.159.04."""

    gpu: str
    driver: str
    host: str = ""
    cpu: str = ""
    capability: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric: the raw values of each repetition's process, in the order they were run.

    `candidate[i]` and `baseline[i]` are pair i. The `again_` ones are the immediate paired re-run
    of a night that looked suspicious; empty without one. `unusable` has the reasons why this
    metric's figures alone do not count; it may then have none. `arms` are other commits by
    their name in perf.yml, repetition i of each measured in the same round as pair i.
    """

    metric: str
    unit: str
    direction: Direction
    candidate: tuple[tuple[float, ...], ...]
    baseline: tuple[tuple[float, ...], ...]
    reference: str | None = None
    again_candidate: tuple[tuple[float, ...], ...] = ()
    again_baseline: tuple[tuple[float, ...], ...] = ()
    unusable: tuple[str, ...] = ()
    arms: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of the night in figures, as computed from its measurement; None where it has none.

    `candidate` and `baseline` are medians over the repetitions, `ratio` is the median over the
    pairs of the first to the second, `to_reference` the candidate's median over that of its
    reference metric, and `spread` lies between the quartiles of the pairs, relative to `ratio`.
    `arms` are such ratios to each arm.
    """

    metric: str
    unit: str
    candidate: float | None
    baseline: float | None = None
    ratio: float | None = None
    to_reference: float | None = None
    spread: float | None = None
    arms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that one run of `runci perf measure` found.

    `night` is a date (UTC). `order` has "candidate", "baseline" or the name of an arm for each
    process that ran, and `arms` the commit of each.
    `unusable` has the reasons why no figure of it must enter a series; empty where they may.
    `checks` are the candidate's, a failed one of any repetition first. `during` has, for each
    process of `order`, the highest figures and all reasons that were seen while it ran; none for
    what has no GPU.
    """

    night: str
    started: str
    finished: str
    benchmark: str
    version: str
    command: tuple[str, ...]
    commit: str
    baseline_commit: str
    seed: int
    order: tuple[str, ...]
    machine: Machine
    before: MachineState
    after: MachineState
    measurements: tuple[Measurement, ...]
    summary: tuple[Summary, ...] = ()  # for readers; other steps compute from the measurements
    checks: tuple[Check, ...] = ()
    unusable: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    run_id: str = ""
    run_url: str = ""
    during: tuple[MachineState, ...] = ()
    arms: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def series_id(self, metric: str) -> SeriesId:
        """Where a metric of this record is remembered. The driver's major number is its first."""
        major = int(self.machine.driver.split(".")[0])
        return SeriesId(metric, self.benchmark, self.version, self.machine.gpu, major)


def worse_by(ratio: float, direction: Direction) -> float:
    """How much worse `ratio` (new over old, above 0) is: 0.05 is 5 % more time, or 5 % less speed.

    Negative where it is better.
    """
    return ratio - 1.0 if direction is Direction.LOWER else 1.0 - ratio


def anchor(series: SeriesId) -> str:
    """The id of the series' section on the page, for links to it."""
    return f"metric-{series.digest}"


def slug(text: str) -> str:
    """A file name's part: lower-case letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-.") or "x"


def decode(data: bytes, kind: type[T], where: str) -> T:
    """One object of the dataclass `kind`; `where` (a file, or a file and its line) is for messages.

    JSON has no NaN and no infinity, so neither gets in. Raises RunciError for what is not JSON,
    for a missing or mistyped field (with its place), and for another schema version.
    """
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunciError(f"{where}: not JSON: {error}") from error
    return build(given, kind, where)


def build(given: Any, kind: type[T], where: str) -> T:
    """As `decode`, from what the JSON held."""
    schema = given.get("schema") if isinstance(given, dict) else None
    if schema != SCHEMA:
        raise RunciError(f"{where}: schema {schema!r}, but this runci reads {SCHEMA}")
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RunciError(f"{where}: {error}") from error


def encode(value: Any) -> bytes:
    """A dataclass as one line of JSON, keys sorted, without the newline.

    Raises RunciError where a text holds what no file can: half of a pair of surrogates.
    """
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError as error:
        raise RunciError(f"{error.object!r} is no text that a file can hold, in UTF-8") from error


def read_json(path: str, kind: type[T]) -> T:
    """As `decode`, of a file."""
    return decode(read_named(path), kind, path)


def read_records(places: Iterable[str]) -> list[tuple[str, Record]]:
    """Each with its file. A folder that is not there holds none: a night that measured nothing.

    Raises RunciError where a file is absent or no record, or its night is no date.
    """
    found = [(path, read_json(path, Record)) for path in _files(places)]
    for path, record in found:
        check_night(record.night, f"{path}: night")
    return found


def _files(places: Iterable[str]) -> list[str]:
    files = []
    for place in map(Path, places):
        if place.is_file() or place.suffix == ".json":
            files.append(place.as_posix())
            continue
        below = sorted(path.as_posix() for path in place.rglob("*.json"))
        if not below:
            note(f"{place.as_posix()}: no record there: nothing was measured")
        files += below
    return files
