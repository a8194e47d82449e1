"""The loop of a run: starts what fits, ends what takes too long, has recorded what ended."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.results import Outcome
from runci.run.files import order_jobs
from runci.run.gpu import MemoryWatch, culprit
from runci.run.model import Ending, Job, Selection
from runci.run.pool import Pool
from runci.run.processes import describe
from runci.run.progress import Progress, State
from runci.run.record import Policy, Recorder
from runci.run.running import UNSTARTED, Running
from runci.run.summary import Summary
from runci.suites import Execution

_TICK = 0.25


@dataclass(slots=True, eq=False)
class Slot:
    """A place where one job runs at a time: a share of the CPU, or leased GPUs."""

    env: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    memory: MemoryWatch | None = None
    last: str | None = None


class Interrupt:
    """The signal that asked the run to end, and how often it came."""

    number: int = 0
    count: int = 0


class Loop:
    """Runs the jobs of a selection in `slots`."""

    def __init__(
        self,
        selection: Selection,
        policy: Policy,
        slots: Sequence[Slot],
        pool: Pool,
        recorder: Recorder,
        progress: Progress,
        interrupt: Interrupt,
    ) -> None:
        self._selection, self._policy = selection, policy
        self._pool, self._recorder = pool, recorder
        self._progress, self._interrupt = progress, interrupt
        self._free = list(slots)
        self._slots = len(slots)
        self._queue: deque[Job] = deque()
        self._why = ""

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
            self._progress.tick(self._state())
        return self._summary()

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
        )

    def _end(self, running: Running, ending: Ending) -> None:
        if running.stopped in ("interrupt", UNSTARTED):
            # Says nothing of the file: it still stands among those that are to run.
            self._queue.appendleft(running.job)
            return
        self._queue.extendleft(self._recorder.record(running, ending))
        if self._recorder.failed and self._policy.fail_fast and not self._why:
            self._why = "--fail-fast"

    def _start_what_fits(self) -> None:
        waiting: list[Slot] = []
        while self._queue and self._free:
            slot = self._free.pop(0)
            if not self._ready(slot):
                waiting.append(slot)
                continue
            job = self._queue.popleft()
            slot.last = job.name
            self._pool.start(job, slot, slot.env, self._as_script(job))
        self._free += waiting

    def _ready(self, slot: Slot) -> bool:
        """Whether the slot's GPU memory is back; after a bounded time the culprit is named."""
        if slot.memory is None:
            return True
        ready, culprits = slot.memory.ready(time.monotonic())
        for one in culprits:
            names = {pid: describe(pid) for pid, _ in one.processes}
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
        return State(len(self._recorder.finished), self._total, names, now - self._began, left)


def stress(jobs: Sequence[Job], times: int, order: str, slots: int, seed: int) -> list[Job]:
    """All jobs, `times` over: one round after another, each in its order."""
    rounds: list[Job] = []
    for number in range(1, times + 1):
        ordered = order_jobs(jobs, order, slots, seed + number - 1)
        rounds += [replace(job, repeat=number, attempt=number) for job in ordered]
    return rounds
