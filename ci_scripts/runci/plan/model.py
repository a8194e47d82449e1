"""plan.json: the immutable list of shards of one commit, which run and verify both read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from runci.config.taxonomy import Execution
from runci.core.decode import Count, Megabytes, Positive, Seconds, build, parse
from runci.core.errors import RunciError
from runci.core.invocation import PLAIN, Invocation
from runci.core.labels import Group
from runci.core.paths import read_named
from runci.core.registration import Backend

_REMEDY = ": download it from the job that planned, or make it with `runci plan --output FILE`"
# 2: files may be planned in part; 3: what is accepted and not planned; 4: how many tests of a file
# may be deselected; 5: a label may be a list or a group, a suite says how it is invoked, a shard
# under which tool it runs
VERSION = 5
Labels: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A test file of a shard. `source` says what `seconds` is: measured, estimate or default.

    `only` are the tests of it that are planned, as `Class::test`; empty for the whole file.
    """

    path: str
    seconds: Seconds
    source: str = "estimate"
    group: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shard:
    """One job's part of a suite; `index` from 0. Files of one group stand side by side.

    `under` is the tool of compute-sanitizer that all of it runs under, None for none.
    """

    id: str
    index: Count
    count: Positive
    seconds: Seconds
    files: tuple[PlannedFile, ...]
    under: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedSuite:
    """One suite with all its shards. `reasons` say what started it.

    `gpus`, `gpu`, `compute_capability` and `memory_gb` are what its runner declares.
    `max_deselected`: how many tests of one file may be; None for any number. `invocation` is the
    suite's when it was planned, and what its files are run with.
    """

    backend: str
    name: str
    kind: str
    runner: str | None
    label: str | Labels | Group | None
    gpus: Count
    timeout_minutes: Count | Seconds | None  # as suites.yml has it: the digest tells 30 from 30.0
    execution: str
    shards: tuple[Shard, ...]
    reasons: tuple[str, ...] = ()
    gpu: str | None = None
    compute_capability: str | None = None
    memory_gb: Count | Megabytes | None = None
    max_deselected: Count | None = None
    invocation: Invocation = PLAIN


@dataclass(frozen=True, slots=True)
class Accepted:
    """What would run but for a fault that a comment or a baseline lets stand, and why it does."""

    path: str
    line: Positive
    text: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run for a commit. `everything` says why all suites were planned, or is None.

    `accepted` is not planned, and somebody said that this is right.
    """

    commit: str
    suites: tuple[PlannedSuite, ...]
    everything: str | None = None
    notes: tuple[str, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    version: int = VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the plan says."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """The same bytes for the same plan, on every machine."""
        document = {**dataclasses.asdict(self), "digest": self.digest}
        return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def read_plan(path: str, option: str = "") -> Plan:
    """The plan in a file. Raises RunciError as `from_json`, and where it cannot be read.

    `option` stands before the path there.
    """
    return from_json(read_named(path, remedy=_REMEDY, option=option), path)


def from_json(data: bytes, path: str) -> Plan:
    """Read plan.json. Raises RunciError for another version, a torn or an edited file."""
    try:
        document = parse(data)
        version = document.get("version", VERSION)
        if version != VERSION:
            raise RunciError(
                f"{path}: plan version {version!r}, but this runci reads {VERSION}: make it again "
                "with `runci plan`"
            )
        digest = document.pop("digest", None)
        plan = build(document, Plan)
        for suite in plan.suites:
            Backend(suite.backend)
            Execution(suite.execution)
    except ValueError as error:
        raise RunciError(
            f"{path}: not a plan ({error}): make it again with `runci plan`"
        ) from error
    if plan.digest != digest:
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
        shard_of: dict[tuple[str, str | None], str] = {}
        for shard in suite.shards:
            if shard.id in shards:
                found.append(f"two shards have the id {shard.id}")
            shards.add(shard.id)
            if not shard.files:
                found.append(f"shard {shard.id} has no file")
            for file in shard.files:
                key = (file.path, shard.under)
                if key in shard_of:
                    found.append(f"{file.path} is in {shard_of[key]} and in {shard.id}")
                shard_of[key] = shard.id
    return found
