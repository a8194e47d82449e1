"""The loop of a run: starts what fits, ends what takes too long, records what ended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.errors import RunciError
from runci.results import FileResult, Outcome
from runci.run.events import reports
from runci.run.files import order_jobs
from runci.run.gpu import PATIENCE, MemoryWatch, culprit
from runci.run.model import Ending, FileReport, Job, RunFile, Selection
from runci.run.outcome import decide, describe_ending, green, retry, settle
from runci.run.pool import Pool, Running
from runci.run.processes import describe
from runci.run.progress import Ended, Progress, State
from runci.run.store import Store
from runci.run.summary import Finished, Summary, repeat_command
from runci.suites import Execution

_TICK = 0.25


@dataclass(frozen=True, slots=True)
class Policy:
    """What the command line asked for. Times are in seconds; None: no limit."""

    timeout: float | None = None
    suite_timeout: float | None = None
    retries: int = 0
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
    memory: MemoryWatch | None = None
    last: str | None = None
    since: float = 0.0
    waited: bool = False


class Interrupt:
    """The signal that asked the run to end, and how often it came."""

    number: int = 0
    count: int = 0


class Loop:
    """Runs the jobs of a selection. `first` gives the first attempt's number of a file."""

    def __init__(
        self,
        selection: Selection,
        policy: Policy,
        slots: Sequence[Slot],
        pool: Pool,
        store: Store,
        progress: Progress,
        interrupt: Interrupt,
        allowed: Callable[[str], bool],
        first: Callable[[str], int],
    ) -> None:
        self._selection, self._policy = selection, policy
        self._pool, self._store, self._progress = pool, store, progress
        self._interrupt, self._allowed, self._first = interrupt, allowed, first
        self._free = list(slots)
        self._slots = len(slots)
        self._queue: deque[Job] = deque()
        self._history: dict[str, list[Outcome]] = {}
        self._finished: dict[tuple[str, int], Finished] = {}
        self._why = ""
        self._unwritten = 0

    def run(self, jobs: Sequence[Job], seed: int | None = None) -> Summary:
        """Run all jobs; what was not started stands in the summary."""
        self._began = time.monotonic()
        self._total = sum(len(job.files) for job in jobs)
        self._queue.extend(jobs)
        try:
            self._broken()
            while self._queue or self._pool.running:
                self._stop_what_must()
                if not self._why:
                    self._start_what_fits()
                elif not self._pool.running:
                    break
                for running, ending in self._pool.wait(self._patience()):
                    self._free.append(running.slot)
                    self._record(running, ending)
                self._pass_on_notes()
                self._progress.tick(self._state())
        finally:
            self._progress.close()
        missing = tuple(file.path for job in self._queue for file in job.files)
        if self._why == "suite-timeout":
            self._not_started(missing)
            missing = ()
        return Summary(
            self._selection,
            tuple(self._finished.values()),
            time.monotonic() - self._began,
            self._policy.flaky_fails,
            missing,
            self._why,
            self._unwritten,
            seed,
        )

    # Starting and stopping

    def _start_what_fits(self) -> None:
        waiting: list[Slot] = []
        while self._queue and self._free:
            slot = self._free.pop(0)
            if not self._ready(slot):
                waiting.append(slot)
                continue
            job = self._queue.popleft()
            slot.last, slot.waited, slot.since = job.name, False, 0.0
            self._pool.start(job, slot, slot.env, self._as_script(job))
        self._free += waiting

    def _ready(self, slot: Slot) -> bool:
        """Whether the slot's GPU memory is back; after a bounded time the culprit is named."""
        if slot.memory is None or slot.waited:
            return True
        held = slot.memory.held()
        if not held:
            return True
        now = time.monotonic()
        slot.since = slot.since or now
        if now - slot.since < PATIENCE:
            return False
        for one in held:
            names = {pid: describe(pid) for pid, _ in one.processes}
            self._progress.note(culprit(one, slot.last, names))
        slot.waited = True
        return True

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
            if running.stopped is not None:
                if self._interrupt.count > 1 and running.stopped == "interrupt":
                    self._pool.stop(running, "interrupt")
            elif self._why == "suite-timeout":
                self._pool.stop(running, "suite-timeout", suite)
            elif self._why == "interrupted":
                self._pool.stop(running, "interrupt")
            elif limit is not None and running.pids and now - running.began >= limit:
                self._pool.stop(running, "timeout", limit)
        if self._interrupt.count > 1:
            self._interrupt.count = 1

    def _patience(self) -> float:
        """Seconds until something must be looked at again."""
        now = time.monotonic()
        ends = [now + _TICK]
        for running in self._pool.running:
            limit = self._limit(running.job)
            if limit is not None and running.pids and running.stopped is None:
                ends.append(running.began + limit)
        return max(min(ends) - now, 0.0)

    # Recording

    def _record(self, running: Running, ending: Ending) -> None:
        if running.stopped == "interrupt":
            # Not a result of the file: it is put back among those that did not run.
            self._queue.appendleft(running.job)
            return
        job = running.job
        content = running.output.content()
        found = reports(running.events, [file.path for file in job.files])
        failing = {path for path, report in found.items() if report.failures}
        for file in job.files:
            report = found[file.path]
            outcome, message = decide(
                report,
                ending,
                self._allowed,
                benchmark=file.benchmark,
                explained=bool(failing - {file.path}),
            )
            if file.benchmark and outcome is Outcome.PASSED and not report.tests:
                tests = 1
            else:
                tests = report.tests
            outcome, message = settle(self._history.get(file.path, ()), outcome, message)
            message = ". ".join(filter(None, (message, describe_ending(ending))))
            seconds = _seconds(job, report, ending)
            result = self._result(file, job.attempt, outcome, message, seconds, running.began_unix)
            result = replace(
                result,
                tests=tests,
                failed=sum(case.outcome == "failed" for case in report.cases),
                skipped=report.skipped,
                exit_status=ending.status,
                signal=ending.signal,
                peak_memory_mb=ending.peak_memory_mb,
                device=running.slot.device,
            )
            self._end_file(file, job, result, report, content)

    def _end_file(
        self, file: RunFile, job: Job, result: FileResult, report: FileReport, content: bytes
    ) -> None:
        again = None
        if retry(result.outcome, len(self._history.get(file.path, ())) + 1, self._policy.retries):
            self._history.setdefault(file.path, []).append(result.outcome)
            again = job.attempt + 1
            self._queue.appendleft(Job((file,), again, job.repeat))
        self._write(result)
        log = self._store.write_log(file.path, result.attempt, content)
        failed = not green(result.outcome, self._policy.flaky_fails) and again is None
        self._finished[file.path, job.repeat] = Finished(result, report, file.predicted)
        self._progress.ended(Ended(result, report, content, failed, self._repeat(job), log, again))
        if failed and self._policy.fail_fast and not self._why:
            self._why = "--fail-fast"

    def _result(
        self, file: RunFile, attempt: int, outcome: Outcome, message: str, seconds: float, at: float
    ) -> FileResult:
        chosen = self._selection
        return FileResult(
            suite=chosen.suite,
            backend=chosen.backend.value,
            shard=chosen.shard,
            path=file.path,
            outcome=outcome,
            tests=0,
            failed=0,
            skipped=(),
            seconds=round(seconds, 3),
            started=at,
            attempt=self._first(file.path) + attempt - 1,
            message=message,
            commit=chosen.commit,
            plan=chosen.plan,
        )

    def _write(self, result: FileResult) -> None:
        """Write a result; where that cannot be, it is printed, so that it is not lost."""
        try:
            self._store.write(result)
        except RunciError as error:
            self._unwritten += 1
            self._progress.note(f"{error}; the result is: {result.to_json().strip()}")

    def _broken(self) -> None:
        for path, why in self._selection.broken:
            self._whole(RunFile(path, 0.0), Outcome.FAILED, why)

    def _not_started(self, paths: Sequence[str]) -> None:
        """The suite's time is over: what was not started failed by that."""
        limit = self._policy.suite_timeout or 0.0
        for path in paths:
            why = f"not started: the {limit:g} s of the suite were over"
            self._whole(RunFile(path, 0.0), Outcome.TIMEOUT, why)

    def _whole(self, file: RunFile, outcome: Outcome, why: str) -> None:
        result = self._result(file, 1, outcome, why, 0.0, time.time())
        report = FileReport(file.path)
        self._write(result)
        self._finished[file.path, 1] = Finished(result, report, file.predicted)
        self._progress.ended(Ended(result, report, b"", True, self._repeat(Job((file,)))))

    def _repeat(self, job: Job) -> str:
        paths = [file.path for file in job.files]
        return repeat_command(self._selection, paths, self._policy.extra)

    # Showing

    def _pass_on_notes(self) -> None:
        for note in self._pool.notes:
            self._progress.note(note)
        self._pool.notes.clear()

    def _state(self) -> State:
        now = time.monotonic()
        under_way = [
            (running.job.name, now - running.began, running.job.predicted)
            for running in self._pool.running
        ]
        waiting = [job.predicted for job in self._queue]
        rest = [max(predicted - took, 0.0) for _, took, predicted in under_way]
        left = max([*rest, *waiting, (sum(rest) + sum(waiting)) / max(self._slots, 1)], default=0.0)
        names = tuple(f"{took:.0f} s  {name}" for name, took, _ in under_way)
        return State(len(self._finished), self._total, names, now - self._began, left)


def stress(jobs: Sequence[Job], times: int, order: str, slots: int, seed: int) -> list[Job]:
    """All jobs, `times` over: one round after another, each in its order."""
    rounds: list[Job] = []
    for number in range(1, times + 1):
        ordered = order_jobs(jobs, order, slots, seed + number - 1)
        rounds += [replace(job, repeat=number, attempt=number) for job in ordered]
    return rounds


def _seconds(job: Job, report: FileReport, ending: Ending) -> float:
    """The wall time of a file; of several in one child, what its tests took."""
    if len(job.files) == 1:
        return ending.seconds
    return sum(case.seconds for case in report.cases)
