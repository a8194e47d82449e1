"""The loop of a run: starts what fits, ends what takes too long, records what ended."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runci.config.taxonomy import Execution
from runci.core.errors import RunciError
from runci.core.machine import Machine
from runci.core.result import (
    Failure,
    FailureClass,
    FileResult,
    Outcome,
    digests_of,
    names_of,
    times_of,
)
from runci.run import processes, sanitized
from runci.run.dumps import Dumps, due
from runci.run.events import current_test, reports
from runci.run.files import order_jobs
from runci.run.gpu import GpuFacts, MemoryWatch, culprit
from runci.run.model import Ending, FileReport, Job, RunFile, Selection
from runci.run.outcome import chose_nothing, decide, describe, green, retry, settle, within
from runci.run.pool import UNSTARTED, Pool, Running
from runci.run.progress import Ended, Plain, State
from runci.run.sanitized import Seen
from runci.run.store import Store
from runci.run.summary import Finished, Summary, duration, repeat_command

if TYPE_CHECKING:
    from runci.run.classes import Classified

_TICK = 0.25
_STARTS = 3  # how often a job may not come to its start


@dataclass(frozen=True, slots=True)
class Policy:
    """What the command line asked for. Times are in seconds; None: no limit."""

    timeout: float | None = None
    suite_timeout: float | None = None
    soft_timeout: float | None = None
    retries: int = 0
    machine_retries: int = 0
    repeat: int = 1
    fail_fast: bool = False
    flaky_fails: bool = False
    script: bool = False
    extra: tuple[str, ...] = ()  # options that the command to repeat needs


@dataclass(slots=True, eq=False)
class Slot:
    """A place where one job runs at a time: a share of the CPU, or leased GPUs."""

    env: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    machine: Machine | None = None
    memory: MemoryWatch | None = None
    last: str | None = None

    @property
    def uuids(self) -> frozenset[str]:
        """Of its GPUs."""
        return frozenset(gpu.uuid for gpu in self.machine.gpus) if self.machine else frozenset()

    def facts(self) -> tuple[GpuFacts, ...]:
        """What became of its GPUs since its job began."""
        return self.memory.facts() if self.memory is not None else ()


class Interrupt:
    """The signal that asked the run to end, and how often it came; `asked`: to say what runs."""

    number: int = 0
    count: int = 0
    asked: bool = False


class Recorder:
    """Keeps what became of each file. `first` gives the first attempt's number of a file."""

    def __init__(
        self,
        selection: Selection,
        policy: Policy,
        store: Store,
        progress: Plain,
        allowed: Callable[[str], bool],
        first: Callable[[str], int],
    ) -> None:
        self._selection, self._policy = selection, policy
        self._store, self._progress = store, progress
        self._allowed, self._first = allowed, first
        self._history: dict[str, list[FileResult]] = {}
        self._ends: dict[str, list[tuple[Outcome, bool]]] = {}
        self._failed_tests: dict[str, frozenset[str]] = {}
        self.finished: dict[tuple[str, int], Finished] = {}
        self.idle: dict[tuple[str, int], int] = {}  # files of which nothing was chosen: how many
        self.unwritten = 0
        self.failed = False

    def record(
        self, running: Running, ending: Ending, move: Callable[[Classified], bool]
    ) -> list[Job]:
        """Write and show the results of a job's files; the jobs that try again.

        `move` gets another GPU for a failure that is this one's, and says whether there is one.
        """
        from runci.run.classes import classify  # `--list` does without its patterns

        job, slot = running.job, running.slot
        content = running.output.content()
        found = reports(running.events, [file.path for file in job.files])
        tool = self._seen(running)
        files = [file for file in job.files if not self._is_idle(file, job, found, ending)]
        judged = [self._judge(file, job, found, ending, tool) for file in files]
        if tool is not None:
            found = {path: sanitized.added(report, tool) for path, report in found.items()}
        gpus = slot.facts() if any(not one.outcome.green for one in judged) else ()
        again = []
        stacks = tuple(running.stacks)
        for file, one in zip(files, judged, strict=True):
            report = found[file.path]
            known = classify(one.outcome, one.message, report, ending, gpus)
            if known is not None and tool is not None:
                known = sanitized.reclassed(known, one.outcome, report, ending, tool)
            free = known is not None and known.again and (not known.elsewhere or move(known))
            self._ends.setdefault(file.path, []).append((one.outcome, free))
            result = replace(
                one,
                started=running.began_unix,
                device=slot.device,
                machine=slot.machine,
                stacks=running.stacks_log,
                failure=known.failure if known else None,
            )
            if self._end_file(file, job, result, report, content, stacks):
                avoid = slot.uuids if known is not None and known.elsewhere else frozenset()
                again.append(Job((file,), job.attempt + 1, job.repeat, avoid))
        return again

    def seen(self, running: Running, lines: Sequence[str], remedy: str) -> None:
        """Keep and show where the processes of a job are, and what would show more."""
        running.stacks += lines
        running.shown = len(lines) > 1  # else it says why nobody could look
        running.note_answers()
        title = running.job.files[0].title
        number = self._first(running.job.files[0].path) + running.job.attempt - 1
        running.stacks_log = self._store.write_stacks(title, number, running.stacks)
        self._progress.stacks(lines, self._store.path(running.stacks_log))
        if remedy:
            self._progress.note(remedy)

    def interrupted(self, running: Running) -> None:
        """Keep and show what a job printed until it was told to end; no result of its files."""
        content = running.output.content()
        found = reports(running.events, [file.path for file in running.job.files])
        for file in running.job.files:
            number = self._first(file.path) + running.job.attempt - 1
            log = self._store.write_log(file.title, number, content)
        under_way = [report for report in found.values() if report.running]
        where = within((under_way or list(found.values()))[0])
        self._progress.interrupted(f"{running.job.name}{where}", content, log)

    def fail(self, path: str, outcome: Outcome, why: str) -> None:
        """A file that was never started has failed."""
        file = RunFile(path, 0.0, selected=self._selection.selected)
        timeout = outcome is Outcome.TIMEOUT
        failure = Failure(FailureClass.TIMEOUT if timeout else FailureClass.TEST, why)
        result = replace(self._result(file, 1, outcome, why), started=time.time(), failure=failure)
        report = FileReport(path)
        self._write(result)
        self.finished[path, 1] = Finished(result, report, 0.0)
        self.failed = True
        self._progress.ended(Ended(result, report, b"", True, self._repeat(Job((file,)))))

    def _judge(
        self,
        file: RunFile,
        job: Job,
        found: Mapping[str, FileReport],
        ending: Ending,
        tool: Seen | None,
    ) -> FileResult:
        report = plain = found[file.path]
        if tool is not None:
            report = sanitized.added(plain, tool)
            ending = sanitized.ended(ending, plain, tool)
        others = _others_failed(file, found)
        outcome, message = decide(
            report,
            ending,
            self._allowed,
            benchmark=file.benchmark,
            explained=others,
            only=file.only,
            selected=file.selected,
            max_deselected=self._selection.max_deselected,
        )
        if tool is not None:
            outcome, message = sanitized.overruled(outcome, message, plain, ending, tool)
        # A benchmark that ended well is a test that was executed.
        measured = file.benchmark and outcome is Outcome.PASSED and not report.tests
        # The status of the child is of all its files: where another one explains it, not of this.
        shared = outcome.green and others
        result = replace(
            self._result(file, job.attempt, outcome, message),
            tests=1 if measured else report.tests,
            failed=sum(case.outcome == "failed" for case in report.cases),
            skipped=report.skipped,
            seconds=round(_seconds(job, report, ending), 3),
            deselected=report.deselected,
            failed_tests=names_of(report.failed_tests),
            passed_tests=digests_of(report.passed_tests),
            durations=times_of(file.path, report.seconds_of_tests),
            exit_status=None if shared else ending.status,
            signal=ending.signal,
            peak_memory_mb=ending.peak_memory_mb,
            errors=tool.errors if tool is not None else (),
        )
        settled = settle(self._history.get(file.path, ()), result)
        message = ". ".join(filter(None, (settled.message, describe(report, ending))))
        return replace(settled, message=message)

    def _is_idle(
        self, file: RunFile, job: Job, found: Mapping[str, FileReport], ending: Ending
    ) -> bool:
        """Whether -k and -m chose nothing of a file: then there is nothing to have a result of."""
        report = found[file.path]
        explained = _others_failed(file, found)
        if file.path in self._history or not chose_nothing(report, ending, explained=explained):
            return False
        self.idle[file.path, job.repeat] = report.unselected or 0
        return True

    def _end_file(
        self,
        file: RunFile,
        job: Job,
        result: FileResult,
        report: FileReport,
        content: bytes,
        stacks: tuple[str, ...],
    ) -> bool:
        history = self._history.setdefault(file.path, [])
        ends, policy = self._ends[file.path], self._policy
        again = retry(ends, policy.retries, policy.machine_retries)
        if again:
            history.append(result)
        self._write(result)
        log = self._store.write_log(file.title, result.attempt, content)
        failed = not again and not green(result.outcome, self._policy.flaky_fails)
        self.failed = self.failed or failed
        before = self._failed_tests.get(file.path, frozenset())
        self._failed_tests[file.path] = before.union(report.failed_tests)
        self.finished[file.path, job.repeat] = Finished(
            result, report, file.predicted, stacks, before
        )
        following = result.attempt + 1 if again else None
        self._progress.ended(
            Ended(result, report, content, failed, self._repeat(job), log, following, stacks)
        )
        return again

    def _result(self, file: RunFile, attempt: int, outcome: Outcome, message: str) -> FileResult:
        chosen = self._selection
        return FileResult(
            suite=chosen.suite,
            backend=chosen.backend.value,
            shard=chosen.shard,
            path=file.path,
            only=file.only,
            selected=file.selected,
            outcome=outcome,
            tests=0,
            failed=0,
            skipped=(),
            seconds=0.0,
            started=0.0,
            attempt=self._first(file.path) + attempt - 1,
            message=message,
            commit=chosen.commit,
            plan=chosen.plan,
            under=chosen.under,
        )

    def tool_log(self, job: Job) -> Path | None:
        """Where the tool that the job runs under is to write, if it runs under one."""
        if self._selection.under is None:
            return None
        number = self._first(job.files[0].path) + job.attempt - 1
        return self._store.tool_log(job.files[0].title, number, self._selection.under)

    def _seen(self, running: Running) -> Seen | None:
        """What the tool found that a job ran under."""
        tool, log = self._selection.under, running.tool_log
        if tool is None or log is None:
            return None
        data = None
        with contextlib.suppress(OSError):
            data = log.read_bytes()
        return sanitized.seen(tool, data, running.events)

    def _write(self, result: FileResult) -> None:
        """Write a result; where that cannot be, it is printed, so that it is not lost."""
        try:
            self._store.write(result)
        except RunciError as error:
            self.unwritten += 1
            self._progress.note(f"{error}; the result is: {result.to_json().strip()}")

    def _repeat(self, job: Job) -> str:
        return repeat_command(self._selection, job.files, self._policy.extra)


def _others_failed(file: RunFile, found: Mapping[str, FileReport]) -> bool:
    return any(r.failures for path, r in found.items() if path != file.path)


def _seconds(job: Job, report: FileReport, ending: Ending) -> float:
    """The wall time of a file; of several in one child, what its tests took."""
    if len(job.files) == 1:
        return ending.seconds
    return sum(case.seconds for case in report.cases)


class Loop:
    """Runs the jobs of a selection in `slots`."""

    def __init__(
        self,
        selection: Selection,
        policy: Policy,
        slots: Sequence[Slot],
        pool: Pool,
        recorder: Recorder,
        progress: Plain,
        interrupt: Interrupt,
        spare: Callable[[], Slot | None] = lambda: None,
    ) -> None:
        self._spare, self._all = spare, list(slots)
        self._selection, self._policy = selection, policy
        self._pool, self._recorder = pool, recorder
        self._progress, self._interrupt = progress, interrupt
        self._dumps = Dumps(str(pool.root))
        self._free = list(slots)
        self._queue: deque[Job] = deque()
        self._why = ""
        self._unstarted: Counter[str] = Counter()

    def run(self, jobs: Sequence[Job]) -> Summary:
        """Run all jobs; what was not started stands in the summary."""
        self._began = time.monotonic()
        self._total = sum(len(job.files) for job in jobs) + len(self._selection.broken)
        self._queue.extend(jobs)
        for path, why in self._selection.broken:
            self._recorder.fail(path, Outcome.FAILED, why)
        while self._pool.running or (self._queue and not self._why):
            self._stop_what_must()
            if not self._why:
                self._start_what_fits()
            for running, ending in self._pool.wait(self._patience()):
                self._free.append(running.slot)
                self._end(running, ending)
            for note in self._pool.take_notes():
                self._progress.note(note)
            self._show_present()
        return self._summary()

    def _show_present(self) -> None:
        for running, lines, remedy in self._dumps.take():
            if running in self._pool.running:
                self._recorder.seen(running, lines, remedy)
        state = self._state()
        self._progress.tick(state)
        if self._interrupt.asked:
            self._interrupt.asked = False
            self._progress.present(state)
            for running in self._pool.running:
                self._look(running, "SIGUSR1")

    def _look(self, running: Running, why: str) -> None:
        """Look at its processes, beside the loop."""
        took = time.monotonic() - running.began
        name = current_test(running.events) or running.job.name
        self._dumps.begin(running, f"where {name} is after {duration(took)} ({why}):")

    def _summary(self) -> Summary:
        missing = tuple(file.path for job in self._queue for file in job.files)
        if self._why == "suite-timeout":
            limit = self._policy.suite_timeout or 0.0
            for path in missing:
                why = f"not started: the {limit:g} s of the suite were over"
                self._recorder.fail(path, Outcome.TIMEOUT, why)
            missing = ()
        return Summary(
            self._selection,
            tuple(self._recorder.finished.values()),
            time.monotonic() - self._began,
            self._policy.flaky_fails,
            missing,
            self._why,
            self._recorder.unwritten,
            tuple(self._recorder.idle.values()),
        )

    def _end(self, running: Running, ending: Ending) -> None:
        name = running.job.name
        self._unstarted[name] += running.stopped == UNSTARTED
        if running.stopped == "interrupt" or (
            running.stopped == UNSTARTED and self._unstarted[name] < _STARTS
        ):
            # Says nothing of the file: it still stands among those that are to run.
            self._queue.appendleft(running.job)
            if running.stopped == "interrupt":
                self._recorder.interrupted(running)
            return
        moved: list[bool] = []

        def move(known: Classified) -> bool:
            moved[:] = moved or [self._move(running.slot, known.failure.kind)]
            return moved[0]

        self._queue.extendleft(self._recorder.record(running, ending, move))
        if self._recorder.failed and self._policy.fail_fast and not self._why:
            self._why = "-x" if self._selection.selected.first else "--fail-fast"

    def _move(self, slot: Slot, kind: FailureClass) -> bool:
        """Whether a job may be repeated: on another GPU, where this one is lost only there.

        One more is leased, where it is free at once, in place of this one, which stays leased.
        """
        fresh = self._spare()
        others = [one for one in (*self._all, *([fresh] if fresh else [])) if one is not slot]
        lost = kind is FailureClass.GPU_LOST
        if fresh is not None or (lost and others):
            self._free = [one for one in self._free if one is not slot]
            self._all = others
        if fresh is not None:
            self._free.append(fresh)
            self._progress.note(f"{kind.value}: goes on with {fresh.device}")
        return bool(others) or not lost

    def _start_what_fits(self) -> None:
        waiting: list[Slot] = []
        while self._queue and self._free:
            slot = self._free.pop(0)
            job = first_for(slot.uuids, self._queue, [one.uuids for one in self._all])
            if job is None or not self._ready(slot):
                waiting.append(slot)
                continue
            self._queue.remove(job)
            slot.last = job.name
            if slot.memory is not None:
                slot.memory.begin()
            log = self._recorder.tool_log(job)
            self._pool.start(job, slot, slot.env, self._as_script(job), log)
        self._free += waiting

    def _ready(self, slot: Slot) -> bool:
        """Whether the slot's GPU memory is back; after a bounded time the culprit is named."""
        if slot.memory is None:
            return True
        ready, culprits = slot.memory.ready(time.monotonic())
        for one in culprits:
            names = {pid: processes.describe(pid) for pid, _ in one.processes}
            self._progress.note(culprit(one, slot.last, names))
        return ready

    def _as_script(self, job: Job) -> bool:
        """Files that share a child go through pytest: a script ends its process."""
        if len(job.files) > 1:
            return False
        script = self._policy.script or self._selection.execution is Execution.SCRIPT
        return script or job.files[0].benchmark

    def _limit(self, job: Job) -> float | None:
        timeout = self._policy.timeout
        return timeout * len(job.files) if timeout is not None else None

    def _stop_what_must(self) -> None:
        now = time.monotonic()
        suite = self._policy.suite_timeout
        if suite is not None and now - self._began >= suite and not self._why:
            self._why = "suite-timeout"
        if self._interrupt.count:
            self._why = "interrupted"
        for running in self._pool.running:
            limit = self._limit(running.job)
            self._watch(running, now)
            if running.stopped is not None:
                self._go_on_ending(running, running.stopped)
            elif self._why == "suite-timeout":
                self._time_is_over(running, "suite-timeout", suite)
            elif self._why == "interrupted":
                self._pool.stop(running, "interrupt")
            elif limit is not None and running.pids and now - running.began >= limit:
                self._time_is_over(running, "timeout", limit)
            elif due(self._soft(running.job), now - running.began, running.looked):
                running.looked = bool(running.pids)
                self._look(running, "--soft-timeout")
        if self._interrupt.count > 1:
            self._interrupt.count = 1

    def _go_on_ending(self, running: Running, why: str) -> None:
        """Tell it to end once it was looked at; who interrupts waits for no look, twice: kills."""
        looking = self._dumps.under_way(running) and self._why != "interrupted"
        again = self._interrupt.count > 1 and why == "interrupt"
        if again or not (running.told or looking):
            self._pool.stop(running, why)

    def _time_is_over(self, running: Running, why: str, limit: float | None) -> None:
        """It is ended once its processes were looked at; whatever it does until then."""
        running.stopped, running.limit = why, limit
        self._look(running, why)

    def _soft(self, job: Job) -> float | None:
        soft = self._policy.soft_timeout
        return soft * len(job.files) if soft is not None else None

    def _watch(self, running: Running, now: float) -> None:
        """Near a limit, see whether the job works: afterwards nobody can tell."""
        limits = [running.began + limit for limit in filter(None, [self._limit(running.job)])]
        limits += [self._began + limit for limit in filter(None, [self._policy.suite_timeout])]
        if not limits or not running.pids or running.stopped is not None:
            return
        over = now >= min(limits)
        if over or running.watch.due(now, running.began, min(limits)):
            cpu = processes.cpu_seconds(running.pids[0])
            if over:
                running.last = running.watch.last(now, cpu, running.heard)
            running.watch.look(now, cpu)

    def _patience(self) -> float:
        """Seconds until something must be looked at again."""
        now = time.monotonic()
        ends = [now + _TICK]
        for running in self._pool.running:
            limit = self._limit(running.job)
            if limit is not None and running.pids and running.stopped is None:
                ends.append(running.began + limit)
        return max(min(ends) - now, 0.0)

    def _state(self) -> State:
        now = time.monotonic()
        under_way = [(now - running.began, running.job.predicted) for running in self._pool.running]
        waiting = [job.predicted for job in self._queue]
        rest = [max(predicted - took, 0.0) for took, predicted in under_way]
        shared = (sum(rest) + sum(waiting)) / max(len(self._all), 1)
        left = max([*rest, *waiting, shared])
        names = tuple(_at(running, time.time()) for running in self._pool.running)
        done = len(self._recorder.finished) + len(self._recorder.idle)
        return State(done, self._total, names, now - self._began, left)


def _at(running: Running, now: float) -> str:
    """The test that it is in, else its name, and how long and since when that runs."""
    test = current_test(running.events)
    began = running.entered if test else running.began_unix
    since = time.strftime("%H:%M:%S", time.localtime(began))
    return f"{duration(max(now - began, 0.0))}  {test or running.job.name}, since {since}"


def first_for(
    gpus: frozenset[str], jobs: Iterable[Job], slots: Sequence[frozenset[str]]
) -> Job | None:
    """The first job that may run on these GPUs: none that avoids them while another slot is there;
    pure."""
    for job in jobs:
        if not job.avoid & gpus or all(job.avoid & other for other in slots):
            return job
    return None


def stress(jobs: Sequence[Job], times: int, order: str, slots: int, seed: int) -> list[Job]:
    """All jobs, `times` over: one round after another, each in its order."""
    rounds: list[Job] = []
    for number in range(1, times + 1):
        ordered = order_jobs(jobs, order, slots, seed + number - 1)
        rounds += [replace(job, repeat=number, attempt=number) for job in ordered]
    return rounds
