"""What running one test file gave: one JSON object a file and attempt."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from runci.core.decode import Count, Megabytes, Positive, Seconds, UnixTime, build, parse
from runci.core.errors import RunciError
from runci.core.machine import Machine
from runci.core.selected import EVERYTHING, Selected
from runci.core.targets import title

Key = tuple[str, str, str, str]  # backend, suite, path, the tool that it ran under or ""
# 2: a result may be of a part of a file; 3: which tests failed and passed, how many were
# deselected; 4: the class of a failure; 5: what a run was given for pytest, seconds of its tests,
# the tool that it ran under
VERSION = 5
# What results of earlier versions may lack.
_LACKED: dict[int, dict[str, Any]] = {
    4: {"selected": EVERYTHING.as_dict, "durations": [], "under": None, "errors": []}
}
_LACKED[3] = {**_LACKED[4], "machine": None, "stacks": None, "failure": None}
NAMED = 1000  # failed tests that a result names
LONGEST_NAME = 300
LONGEST_EVIDENCE = 500


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


class FailureClass(str, enum.Enum):
    """What a failure was: the test's, or the machine's around it."""

    TEST = "test"
    TIMEOUT = "timeout"  # ended at a limit while it worked
    HANG = "hang"  # ended at a limit at which none of its processes worked
    MEMORY_OURS = "out of memory: ours"
    MEMORY_OTHERS = "out of memory: another process"
    GPU_LOST = "GPU lost"
    DISK_FULL = "disk full"
    NETWORK = "network"
    RUNNER = "runner"  # runci's own processes, or somebody who ended the file's


@dataclass(frozen=True, slots=True)
class Failure:
    """The class of a failure, and the line that it was told by: text of others, as it was."""

    kind: FailureClass
    evidence: Annotated[str, msgspec.Meta(max_length=LONGEST_EVIDENCE)] = ""

    @property
    def shown(self) -> str:
        """«network: socket.gaierror: ...»."""
        return f"{self.kind.value}: {self.evidence}" if self.evidence else self.kind.value


@dataclass(frozen=True, slots=True)
class ToolError:
    """One error that a tool such as memcheck found, `times` over: as the tool calls it.

    `kernel` is the function that was launched, `place` the source line of the access where it was
    compiled with lines, `address` what was accessed. `test` is the one that ran when it was
    printed, or had ended last; "" before the first.
    """

    what: str
    kernel: str = ""
    place: str = ""
    address: str = ""
    test: str = ""
    times: Positive = 1

    @property
    def shown(self) -> str:
        """«Invalid __global__ write of size 4 bytes, kernel scale (scale.cu:7), Address 0x...»."""
        kernel = f"kernel {self.kernel}" if self.kernel else ""
        place = f"({self.place})" if self.place else ""
        times = f"{self.times} times" if self.times > 1 else ""
        where = " ".join(filter(None, (kernel, place)))
        return ", ".join(filter(None, (self.what, where, self.address, times)))


@dataclass(frozen=True, slots=True)
class SkippedTest:
    """A test that did not run, and the reason that it gave."""

    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a test took, all its phases; `test` is its name after the path."""

    test: str
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class FileResult:
    """One attempt at one file.

    `tests` were executed, of which `failed` failed; `skipped` were not, and
    `deselected` were left out. `seconds` is wall time,
    `started` Unix time; `peak_memory_mb` is of the largest process. `plan` is the plan's digest,
    None where the file was run without one. `attempt` counts from 1. `only` are the tests of the
    file that were asked for, as `Class::test`; empty for the whole file. `selected` is what pytest
    was given beside them: where there is anything, the result is of a part. `failed_tests` are
    names that `names_of` gave, those in which the file ended too; `passed_tests` are digests of
    names; `durations` are of tests that were executed, as `times_of` gave them.
    `stacks` is the file, from the folder of results, that says where its processes were.
    `device` is for people; `machine` is set where a suite's runner has GPUs, `failure` where the
    outcome is not green. `under` is the tool of compute-sanitizer that it ran under, `errors` what
    that found.
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
    deselected: Count = 0
    failed_tests: tuple[str, ...] = ()
    passed_tests: tuple[str, ...] = ()
    machine: Machine | None = None
    stacks: str | None = None
    failure: Failure | None = None
    under: str | None = None
    errors: tuple[ToolError, ...] = ()
    selected: Selected = EVERYTHING
    durations: tuple[Duration, ...] = ()
    version: int = VERSION

    @property
    def key(self) -> Key:
        """What a plan knows it by."""
        return self.backend, self.suite, self.path, self.under or ""

    @property
    def title(self) -> str:
        """The path, or the tests of it that were asked for."""
        return title(self.path, self.only, self.selected)

    @property
    def end(self) -> str:
        """«failed», and of what failed its class: «failed (network)»."""
        kind = self.failure.kind.value if self.failure else self.outcome.value
        return self.outcome.value + (f" ({kind})" if kind != self.outcome.value else "")

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True) + "\n"


def by_class(results: Iterable[FileResult]) -> str:
    """«2 test, 1 network»: how many of these failed in which way; "" where none did."""
    counts = Counter(r.failure.kind for r in results if r.failure)
    return ", ".join(f"{counts[kind]} {kind.value}" for kind in FailureClass if counts[kind])


def names_of(tests: Iterable[str], most: int = NAMED) -> tuple[str, ...]:
    """The names of tests, each once: at most `most` and one more, which stands for the others."""
    names = list(dict.fromkeys(map(_bounded, tests)))
    more = (f"{len(names) - most} more",) if len(names) > most else ()
    return (*names[:most], *more)


def times_of(path: str, seconds: Mapping[str, float], most: int = NAMED) -> tuple[Duration, ...]:
    """How long tests of a file took, the longest first: at most `most` and one more, which stands
    for the others and has the sum of them."""
    ordered = sorted(seconds.items(), key=lambda one: (-one[1], one[0]))
    rest = ordered[most:]
    more = [(f"{len(rest)} more", sum(took for _, took in rest))] if rest else []
    named = ((_bounded(test.removeprefix(f"{path}::")), took) for test, took in ordered[:most])
    return tuple(Duration(test, round(took, 4)) for test, took in (*named, *more))


def digests_of(tests: Iterable[str]) -> tuple[str, ...]:
    """What a result keeps of the tests that passed: enough to find a name among them."""
    return tuple(sorted({_digest(_bounded(test)) for test in tests}))


def not_made_good(attempts: Sequence[FileResult]) -> list[str]:
    """The tests that failed in one of these attempts, in their order, and passed in none later."""
    open_: dict[str, None] = {}
    for result in attempts:
        passed = set(result.passed_tests)
        open_ = {name: None for name in open_ if _digest(name) not in passed}
        open_ |= dict.fromkeys(result.failed_tests)
    return list(open_)


def _bounded(test: str) -> str:
    return test if len(test) <= LONGEST_NAME else f"{test[:LONGEST_NAME]}... {_digest(test)}"


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def from_json(data: bytes, path: str) -> FileResult:
    """Read one result. Raises RunciError for a torn file or another version."""
    try:
        entry = parse(data)
        version = entry.get("version", VERSION)
        if version in _LACKED:
            entry = {**_LACKED[version], **entry, "version": VERSION}
        elif version != VERSION:
            raise RunciError(
                f"{path}: result version {version!r}, but this runci reads {VERSION}: run it "
                "again, or read it with the runci that wrote it"
            )
        return build(entry, FileResult)
    except ValueError as error:
        raise RunciError(f"{path}: not a whole result ({error})") from error
