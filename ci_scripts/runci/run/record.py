"""What ended becomes results: decided, written, shown; and whether it is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from runci.errors import RunciError
from runci.results import FileResult, Outcome
from runci.run.events import reports
from runci.run.model import Ending, FileReport, Job, RunFile, Selection
from runci.run.outcome import decide, describe_ending, green, retry, settle
from runci.run.progress import Ended, Progress
from runci.run.running import Running
from runci.run.store import Store
from runci.run.summary import Finished, repeat_command


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


class Recorder:
    """Keeps what became of each file. `first` gives the first attempt's number of a file."""

    def __init__(
        self,
        selection: Selection,
        policy: Policy,
        store: Store,
        progress: Progress,
        allowed: Callable[[str], bool],
        first: Callable[[str], int],
    ) -> None:
        self._selection, self._policy = selection, policy
        self._store, self._progress = store, progress
        self._allowed, self._first = allowed, first
        self._history: dict[str, list[Outcome]] = {}
        self.finished: dict[tuple[str, int], Finished] = {}
        self.unwritten = 0
        self.failed = False

    def record(self, running: Running, ending: Ending) -> list[Job]:
        """Write and show the results of a job's files; the jobs that try again."""
        job = running.job
        content = running.output.content()
        found = reports(running.events, [file.path for file in job.files])
        again = []
        for file in job.files:
            result = self._judge(file, job, found, ending)
            result = replace(result, started=running.began_unix, device=running.slot.device)
            if self._end_file(file, job, result, found[file.path], content):
                again.append(Job((file,), job.attempt + 1, job.repeat))
        return again

    def fail(self, path: str, outcome: Outcome, why: str) -> None:
        """A file that was never started has failed."""
        file = RunFile(path, 0.0)
        result = replace(self._result(file, 1, outcome, why), started=time.time())
        report = FileReport(path)
        self._write(result)
        self.finished[path, 1] = Finished(result, report, 0.0)
        self.failed = True
        self._progress.ended(Ended(result, report, b"", True, self._repeat(Job((file,)))))

    def _judge(
        self, file: RunFile, job: Job, found: Mapping[str, FileReport], ending: Ending
    ) -> FileResult:
        report = found[file.path]
        others = any(r.failures for path, r in found.items() if path != file.path)
        outcome, message = decide(
            report,
            ending,
            self._allowed,
            benchmark=file.benchmark,
            explained=others,
            only=file.only,
        )
        # A benchmark that ended well is a test that was executed.
        measured = file.benchmark and outcome is Outcome.PASSED and not report.tests
        outcome, message = settle(self._history.get(file.path, ()), outcome, message)
        message = ". ".join(filter(None, (message, describe_ending(ending))))
        return replace(
            self._result(file, job.attempt, outcome, message),
            tests=1 if measured else report.tests,
            failed=sum(case.outcome == "failed" for case in report.cases),
            skipped=report.skipped,
            seconds=round(_seconds(job, report, ending), 3),
            exit_status=ending.status,
            signal=ending.signal,
            peak_memory_mb=ending.peak_memory_mb,
        )

    def _end_file(
        self, file: RunFile, job: Job, result: FileResult, report: FileReport, content: bytes
    ) -> bool:
        history = self._history.setdefault(file.path, [])
        again = retry(result.outcome, len(history) + 1, self._policy.retries)
        if again:
            history.append(result.outcome)
        self._write(result)
        log = self._store.write_log(file.title, result.attempt, content)
        failed = not again and not green(result.outcome, self._policy.flaky_fails)
        self.failed = self.failed or failed
        self.finished[file.path, job.repeat] = Finished(result, report, file.predicted)
        following = result.attempt + 1 if again else None
        self._progress.ended(
            Ended(result, report, content, failed, self._repeat(job), log, following)
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
        )

    def _write(self, result: FileResult) -> None:
        """Write a result; where that cannot be, it is printed, so that it is not lost."""
        try:
            self._store.write(result)
        except RunciError as error:
            self.unwritten += 1
            self._progress.note(f"{error}; the result is: {result.to_json().strip()}")

    def _repeat(self, job: Job) -> str:
        return repeat_command(self._selection, job.files, self._policy.extra)


def _seconds(job: Job, report: FileReport, ending: Ending) -> float:
    """The wall time of a file; of several in one child, what its tests took."""
    if len(job.files) == 1:
        return ending.seconds
    return sum(case.seconds for case in report.cases)
