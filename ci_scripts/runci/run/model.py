"""What the parts of `runci run` hand to each other: plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runci.config.taxonomy import Execution, Runner
from runci.core.invocation import PLAIN, Invocation
from runci.core.registration import Backend
from runci.core.result import SkippedTest
from runci.core.selected import EVERYTHING, Selected
from runci.core.targets import targets, title


@dataclass(frozen=True, slots=True)
class RunFile:
    """A test file to run. `predicted` is in seconds; files of one `group` share a child.

    `benchmark`: a script of measurements, whose exit status is its one test. `only` are the tests
    of it that run, as `Class::test`; empty for all. `selected` is what pytest gets beside them.
    """

    path: str
    predicted: float
    group: str | None = None
    benchmark: bool = False
    only: tuple[str, ...] = ()
    selected: Selected = EVERYTHING

    @property
    def targets(self) -> list[str]:
        """How the command line names it."""
        return targets(self.path, self.only)

    @property
    def title(self) -> str:
        """The path, or the tests of it that run."""
        return title(self.path, self.only, self.selected)


@dataclass(frozen=True, slots=True)
class Selection:
    """What one `runci run` runs, in order.

    `given` are the options that select the same again, but for `selected`, which pytest gets.
    `broken` files cannot be read, so nobody knows their suite; each is a failure, with the reason.
    `disabled` are paths and reasons. `under` is the tool of compute-sanitizer that they run under.
    """

    backend: Backend
    suite: str
    shard: str
    files: tuple[RunFile, ...]
    runner: Runner | None = None
    execution: Execution = Execution.PYTEST
    timeout_minutes: float | None = None
    given: tuple[str, ...] = ()
    selected: Selected = EVERYTHING
    commit: str = ""
    plan: str | None = None
    max_deselected: int | None = None
    invocation: Invocation = PLAIN
    under: str | None = None
    disabled: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Files that share one child, and the attempt at them; `repeat` counts runs of a stress.

    `avoid` are UUIDs of GPUs that it runs on only where there is no other.
    """

    files: tuple[RunFile, ...]
    attempt: int = 1
    repeat: int = 1
    avoid: frozenset[str] = frozenset()

    @property
    def predicted(self) -> float:
        """Seconds that the whole job should take."""
        return sum(file.predicted for file in self.files)

    @property
    def name(self) -> str:
        """The file, or the first of several."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return self.files[0].title + more


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, as the process that it ended a test in saw it.

    `types` are the names of its class and of the ones above, such as `torch.OutOfMemoryError`;
    those of builtins are plain. `place` is where it was raised, `errno` the system's number. `peer`
    is whom a connection was to, `here` whether that is the machine itself. `code` is CUDA's number
    of an error, or the status of an HTTP answer.
    """

    types: tuple[str, ...]
    message: str = ""
    place: str = ""
    errno: int | None = None
    peer: str = ""
    here: bool = False
    code: int | None = None


# An exception that ended a test, and then what it was explicitly raised from.
Chain = tuple[Raised, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One test that ended: «passed», «flaky», «failed» or «skipped»; `line` is where it failed.

    `part_of` is the test that this one is a subtest of; `raised` is of each phase that failed.
    `place` is where it was skipped, PATH:LINE, `xfail` whether it was not executed as it is xfail.
    """

    test: str
    outcome: str
    seconds: float = 0.0
    message: str = ""
    line: int | None = None
    part_of: str = ""
    raised: tuple[Chain, ...] = ()
    place: str = ""
    xfail: bool = False

    @property
    def whole(self) -> str:
        """The test that pytest and unittest run: itself, or what it is a part of."""
        return self.part_of or self.test


@dataclass(frozen=True, slots=True)
class FileReport:
    """What a child said of one file.

    `errors` are failures outside tests, such as of collection. `running` is the test that was
    begun and never ended, `left` the first that was collected and never begun. `code` is pytest's
    or the script's exit status; None: it never ended. `absent` are tests that were asked for and
    are none of the file's, with the first of those that are. `foreign` is a test of another file
    that a script ran. `deselected` counts tests that a conftest, a plugin or an option left out,
    `unselected` those that -k and -m did (None: they were not asked), `unbegun` those that were to
    run and were never begun.
    """

    path: str
    cases: tuple[Case, ...] = ()
    errors: tuple[Case, ...] = ()
    running: str | None = None
    begun: bool = False
    code: int | None = None
    left: str | None = None
    absent: str = ""
    foreign: str = ""
    deselected: int = 0
    unselected: int | None = None
    unbegun: int = 0
    raised: Chain = ()
    fault: str = ""
    signalled: frozenset[str] = frozenset()

    @property
    def cut_short(self) -> str | None:
        """A test that did not end although its child did; a script itself is none."""
        running = self.running if self.running != self.path else None
        return running or self.left

    @property
    def tests(self) -> int:
        """Tests that were executed."""
        return sum(case.outcome != "skipped" for case in self.cases)

    @property
    def failures(self) -> tuple[Case, ...]:
        """Failed tests, then errors outside tests."""
        return tuple(c for c in self.cases if c.outcome == "failed") + self.errors

    @property
    def failed_tests(self) -> tuple[str, ...]:
        """Failed tests, each once, and the one that was begun and never ended."""
        failed = [case.whole for case in self.cases if case.outcome == "failed"]
        begun = [self.running] if self.running not in (None, self.path) else []
        return tuple(dict.fromkeys([*failed, *filter(None, begun)]))

    @property
    def passed_tests(self) -> tuple[str, ...]:
        """Tests that were executed and of which no part failed or was skipped."""
        not_passed = {c.whole for c in self.cases if c.outcome in ("failed", "skipped")}
        return tuple(dict.fromkeys(c.whole for c in self.cases if c.whole not in not_passed))

    @property
    def seconds_of_tests(self) -> dict[str, float]:
        """How long each test took that was executed; its subtests are parts of it."""
        found: dict[str, float] = {}
        for case in self.cases:
            if case.outcome != "skipped":
                found[case.whole] = max(found.get(case.whole, 0.0), case.seconds)
        return found

    @property
    def skipped(self) -> tuple[SkippedTest, ...]:
        """Tests that were not executed."""
        return tuple(SkippedTest(c.test, c.message) for c in self.cases if c.outcome == "skipped")


@dataclass(frozen=True, slots=True)
class Activity:
    """What all processes of a job did in its last `seconds`: CPU seconds, and whether it said
    anything: output, a test that began or ended."""

    seconds: float
    cpu: float
    said: bool = False


LIMITS = ("timeout", "suite-timeout")  # why runci ends a job that it has looked at before


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job's child ended.

    `stopped` says why runci ended it («timeout», «suite-timeout», «interrupt», «lost»,
    «unstarted»), else None.
    `left` names processes that the child left behind and that were ended; `stuck` are those that
    could not be. `removed` names files and segments that it left and that were removed, `stays`
    temporary files that could not be, `shared` shared memory that it or what ran beside it left.
    `out_of_memory`: the kernel ended something of ours for memory meanwhile; None: it cannot be
    asked. `last` says of a job that a limit ended what it did before, `fault` why one could not
    start.
    """

    seconds: float
    status: int | None = None
    signal: str | None = None
    stopped: str | None = None
    limit: float | None = None
    peak_memory_mb: float | None = None
    left: Sequence[str] = field(default=())
    stuck: Sequence[str] = field(default=())
    shared: Sequence[str] = field(default=())
    removed: Sequence[str] = field(default=())
    stays: Sequence[str] = field(default=())
    out_of_memory: bool | None = False
    last: Activity | None = None
    fault: Chain = ()
