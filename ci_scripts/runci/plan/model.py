"""plan.json: the immutable list of shards of one commit, which run and verify both read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from runci.errors import RunciError
from runci.registration import Backend
from runci.suites import Execution

VERSION = 2  # 2: files may be planned in part


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A test file of a shard. `source` says what `seconds` is: measured, estimate or default.

    `only` are the tests of it that are planned, as `Class::test`; empty for the whole file.
    """

    path: str
    seconds: float
    source: str = "estimate"
    group: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shard:
    """One job's part of a suite; `index` from 0. Files of one group stand side by side."""

    id: str
    index: int
    count: int
    seconds: float
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True)
class PlannedSuite:
    """One suite with all its shards. `reasons` say what started it."""

    backend: str
    name: str
    kind: str
    runner: str | None
    label: str | None
    gpus: int
    timeout_minutes: float | None
    execution: str
    shards: tuple[Shard, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run for a commit. `everything` says why all suites were planned, or is None."""

    commit: str
    suites: tuple[PlannedSuite, ...]
    everything: str | None = None
    notes: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the plan says."""
        return hashlib.sha256(_canonical(dataclasses.asdict(self))).hexdigest()

    def to_json(self) -> str:
        """The same bytes for the same plan, on every machine."""
        document = {**dataclasses.asdict(self), "digest": self.digest}
        return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def from_json(data: bytes, path: str) -> Plan:
    """Read plan.json. Raises RunciError for another version, a torn or an edited file."""
    try:
        document = json.loads(data)
        version = document["version"]
        if version != VERSION:
            raise RunciError(
                f"{path}: plan version {version}, but this runci reads {VERSION}: make it again "
                "with `runci plan`"
            )
        plan = _plan(document)
        _check_types(plan)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunciError(
            f"{path}: not a plan ({error}): make it again with `runci plan`"
        ) from error
    if plan.digest != document.get("digest"):
        raise RunciError(f"{path}: the plan does not match its digest: it was edited or torn")
    wrong = faults(plan)
    if wrong:
        raise RunciError(f"{path}: {'; '.join(wrong)}: make it again with `runci plan`")
    return plan


def faults(plan: Plan) -> list[str]:
    """What would make a file run twice or a shard run nothing: a plan has no such fault."""
    found: list[str] = []
    shards: set[str] = set()
    for suite in plan.suites:
        name = f"{suite.backend} {suite.name}"
        if not suite.shards:
            found.append(f"{name} has no shard")
        paths: dict[str, str] = {}
        for shard in suite.shards:
            if shard.id in shards:
                found.append(f"two shards have the id {shard.id}")
            shards.add(shard.id)
            if not shard.files:
                found.append(f"shard {shard.id} has no file")
            for file in shard.files:
                if file.path in paths:
                    found.append(f"{file.path} is in {paths[file.path]} and in {shard.id}")
                paths[file.path] = shard.id
    return found


def _plan(document: dict[str, Any]) -> Plan:
    suites = tuple(_suite(entry) for entry in document["suites"])
    notes = tuple(document["notes"])
    return Plan(document["commit"], suites, document["everything"], notes, document["version"])


def _suite(entry: dict[str, Any]) -> PlannedSuite:
    shards = tuple(
        Shard(**{**shard, "files": tuple(_file(file) for file in shard["files"])})
        for shard in entry["shards"]
    )
    return PlannedSuite(**{**entry, "shards": shards, "reasons": tuple(entry["reasons"])})


def _file(entry: dict[str, Any]) -> PlannedFile:
    if not isinstance(entry["only"], list):
        raise TypeError(f"{entry['only']!r} is no list of tests")
    return PlannedFile(**{**entry, "only": tuple(entry["only"])})


def _check_types(plan: Plan) -> None:
    """What is added up and compared must be what it seems. Raises TypeError or ValueError."""
    _texts(plan.commit, *plan.notes, *_given(plan.everything))
    for suite in plan.suites:
        Backend(suite.backend)
        Execution(suite.execution)
        _texts(suite.name, suite.kind, *suite.reasons, *_given(suite.runner, suite.label))
        _numbers(suite.gpus, *_given(suite.timeout_minutes))
        for shard in suite.shards:
            _texts(shard.id)
            _numbers(shard.index, shard.count, shard.seconds)
            for file in shard.files:
                _texts(file.path, file.source, *file.only, *_given(file.group))
                _numbers(file.seconds)


def _given(*values: object) -> list[object]:
    return [value for value in values if value is not None]


def _texts(*values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")


def _numbers(*values: object) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise TypeError(f"{value!r} is no number that a plan can have")


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
