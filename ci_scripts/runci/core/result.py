"""What running one test file gave: one JSON object a file and attempt."""

from __future__ import annotations

import dataclasses
import enum
import json
from dataclasses import dataclass

from runci.core.decode import Count, Megabytes, Positive, Seconds, UnixTime, build, parse
from runci.core.errors import RunciError
from runci.core.targets import title

Key = tuple[str, str, str]  # backend, suite, path
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
    tests: Count
    failed: Count
    skipped: tuple[SkippedTest, ...]
    seconds: Seconds
    started: UnixTime
    attempt: Positive = 1
    exit_status: int | None = None
    signal: str | None = None
    peak_memory_mb: Megabytes | None = None
    device: str | None = None
    message: str = ""
    commit: str = ""
    plan: str | None = None
    only: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def key(self) -> Key:
        """What a plan knows it by."""
        return self.backend, self.suite, self.path

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
        entry = parse(data)
        version = entry.get("version", VERSION)
        if version != VERSION:
            raise RunciError(
                f"{path}: result version {version!r}, but this runci reads {VERSION}: run it "
                "again, or read it with the runci that wrote it"
            )
        return build(entry, FileResult)
    except ValueError as error:
        raise RunciError(f"{path}: not a whole result ({error})") from error
