"""What running one test file gave: one JSON object a file and attempt."""

from __future__ import annotations

import dataclasses
import enum
import json
from dataclasses import dataclass
from typing import Any

from runci.errors import RunciError
from runci.targets import title

VERSION = 2  # 2: a result may be of a part of a file


class Outcome(str, enum.Enum):
    """How a file ended. `FLAKY` passed on a later attempt; `EXCUSED` executed no test."""

    PASSED = "passed"
    EXCUSED = "excused"  # every test was skipped, each as suites.yml allows on this runner
    FLAKY = "flaky"
    FAILED = "failed"  # a test failed, or the file did
    NO_TESTS = "no-tests"  # nothing was executed
    SKIPPED = "skipped"  # skipped on the hardware that the suite declares
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # a signal, or an end before the result was written

    @property
    def green(self) -> bool:
        """Whether this does not fail a job; a flaky file does so only when asked."""
        return self in (Outcome.PASSED, Outcome.FLAKY, Outcome.EXCUSED)


@dataclass(frozen=True, slots=True)
class SkippedTest:
    """A test that did not run, and the reason that it gave."""

    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileResult:
    """One attempt at one file.

    `tests` were executed, of which `failed` failed; `skipped` were not. `seconds` is wall time,
    `started` Unix time; `peak_memory_mb` is of the largest process. `plan` is the plan's digest,
    None where the file was run without one. `attempt` counts from 1. `only` are the tests of the
    file that were asked for, as `Class::test`; empty for the whole file.
    """

    suite: str
    backend: str
    shard: str
    path: str
    outcome: Outcome
    tests: int
    failed: int
    skipped: tuple[SkippedTest, ...]
    seconds: float
    started: float
    attempt: int = 1
    exit_status: int | None = None
    signal: str | None = None
    peak_memory_mb: float | None = None
    device: str | None = None
    message: str = ""
    commit: str = ""
    plan: str | None = None
    only: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def title(self) -> str:
        """The path, or the tests of it that were asked for."""
        return title(self.path, self.only)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True) + "\n"


def from_json(data: bytes, path: str) -> FileResult:
    """Read one result. Raises RunciError for a torn file or another version."""
    try:
        entry: dict[str, Any] = json.loads(data)
        if entry["version"] != VERSION:
            version = entry["version"]
            raise RunciError(
                f"{path}: result version {version}, but this runci reads {VERSION}: run it again, "
                "or read it with the runci that wrote it"
            )
        _check_types(entry)
        entry["only"] = tuple(entry["only"])
        entry["outcome"] = Outcome(entry["outcome"])
        entry["skipped"] = tuple(SkippedTest(**item) for item in entry["skipped"])
        return FileResult(**entry)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunciError(f"{path}: not a whole result ({error})") from error


_TEXTS = ("suite", "backend", "shard", "path", "message", "commit")
_COUNTS = ("tests", "failed", "attempt")
_NUMBERS = ("seconds", "started")


def _check_types(entry: dict[str, Any]) -> None:
    """What is compared and added up must be what it seems. Raises TypeError."""
    for names, kinds in ((_TEXTS, (str,)), (_COUNTS, (int,)), (_NUMBERS, (int, float))):
        for name in names:
            value = entry.get(name, kinds[0]())
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise TypeError(f"{name} is {value!r}")
    only = entry["only"]
    if not isinstance(only, list) or not all(isinstance(test, str) for test in only):
        raise TypeError(f"only is {only!r}")
