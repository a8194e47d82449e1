"""One run from its request to its exit status: locks, leases, the pool, the reports."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runci.config.taxonomy import Execution, Taxonomy
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError, UnfitMachine, with_extra
from runci.core.machine import Gpu
from runci.core.result import FileResult
from runci.read.decode import read
from runci.read.files import processors
from runci.read.written import ANY, written
from runci.run.again import Again, again
from runci.run.files import jobs, order_jobs
from runci.run.loop import Interrupt, Loop, Policy, Recorder, Slot, stress
from runci.run.model import Job, RunFile, Selection
from runci.run.outcome import allowed_skips
from runci.run.pool import Pool, Settings
from runci.run.progress import GitHub, Plain, Terminal
from runci.run.store import Store
from runci.run.summary import Summary, as_junit, repeat_command
from runci.text.terminal import chosen_color, printable, terminal_width
from runci.text.wording import plural

if TYPE_CHECKING:
    from runci.run.machine import Here
    from runci.run.sanitizer import Tool

# A rerun of a job in GitHub Actions starts its attempts at 11, 21, …: no two are the same.
ATTEMPTS_A_RUN = 10
DEFAULT_RESULTS = ".runci/results"
_HEAVY = ("torch", "numpy", "triton")
_NEEDS = ("pytest", "psutil", "filelock")


@dataclass(frozen=True, slots=True)
class Request:
    """A run that is fully decided: what, where, in which order."""

    options: Namespace
    root: Path
    taxonomy: Taxonomy
    selection: Selection
    results: Path
    config: Path
    tool: Tool | None = None


def require_posix() -> None:
    """Say what is missing before anything starts."""
    if os.name != "posix":
        raise RunciError("`runci run` needs Linux or macOS (process groups, forks)")
    from importlib.util import find_spec

    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise RunciError(f"`runci run` needs {', '.join(missing)}: {with_extra('run')}")


def heavy_modules(root: Path, selection: Selection, given: str | None) -> tuple[str, ...]:
    """What to import before forking: as asked, else the heavy modules that the files name."""
    if given is not None:
        return tuple(name.strip() for name in given.split(",") if name.strip())
    from importlib.util import find_spec

    texts = []
    for file in selection.files:
        with contextlib.suppress(OSError):
            texts.append((root / file.path).read_bytes())
    named = [
        name
        for name in _HEAVY
        if any(re.search(rb"\b" + name.encode() + rb"\b", text) for text in texts)
    ]
    return tuple(name for name in named if find_spec(name) is not None)


def first_attempt() -> int:
    """The number of the first attempt in this run of the job, which may be a rerun."""
    given = os.environ.get("GITHUB_RUN_ATTEMPT", "1")
    rerun = max(int(given), 1) if given.isdecimal() else 1
    return (rerun - 1) * ATTEMPTS_A_RUN + 1


@contextlib.contextmanager
def catch_signals() -> Iterator[tuple[Interrupt, int]]:
    """Note SIGINT, SIGTERM and SIGUSR1, and wake whoever waits on the descriptor that is given."""
    interrupt = Interrupt()

    def noted(number: int, _frame: object) -> None:
        if number == signal.SIGUSR1:
            interrupt.asked = True
            return
        interrupt.number = interrupt.number or number
        interrupt.count += 1

    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.signal(number, noted) for number in numbers]
    old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield interrupt, read
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(read)
        os.close(write)


def threads(slots: int) -> dict[str, str]:
    """Several files at once share the processors: a library may not take them all in each."""
    if slots < 2 or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(processors() // slots, 1))}


def cpu() -> str:
    """For results: where a file ran."""
    return f"{platform.machine()}, {processors()} processors"


class Session:
    """A run that is decided. `seed` orders it where the order is random."""

    def __init__(self, request: Request, seed: int) -> None:
        self._request, self._seed = request, seed
        self._options, self._selection = request.options, request.selection
        runner = self._selection.runner
        self._gpus = runner.gpus if runner else 0
        self._slots = self._options.jobs or (1 if self._gpus else processors())

    def only_due(self) -> None:
        """With --last-failed, leave out what would not run; changes no file."""
        if self._options.last_failed:
            store = Store(self._request.results, self._selection.shard)
            due = [self._due(file, store).file for file in self._selection.files]
            self._selection = replace(self._selection, files=tuple(filter(None, due)))

    def paths(self) -> str:
        """The files, one a line."""
        return "".join(f"{file.title}\n" for file in self._selection.files)

    def describe(self) -> str:
        """What would be started, in order."""
        lines = [*self._header()]
        for job in self._ordered(jobs(self._selection.files)):
            together = f"  (in one process: {job.files[0].group})" if len(job.files) > 1 else ""
            lines += [f"{file.predicted:8.1f} s  {file.title}{together}" for file in job.files]
        return "".join(f"{line}\n" for line in lines)

    def run(self, interrupt: Interrupt, wake: int) -> int:
        """Run it; the exit status."""
        progress = _progress(self._options)
        try:
            with Store(self._request.results, self._selection.shard) as store:
                try:
                    summary = self._run(store, progress, interrupt, wake)
                except UnfitMachine as error:
                    store.write_unfit(str(error))
                    raise
        except KeyboardInterrupt:  # while it waited for a GPU
            return 128 + interrupt.number
        finally:
            progress.close()
        if summary is None:
            return Exit.OK
        whole = self._finish(summary, progress, store.junit_path) and not summary.unwritten
        if interrupt.number:
            return 128 + interrupt.number
        if summary.failed or summary.missing:
            return Exit.FINDINGS
        if summary.idle and not summary.finished:
            raise RunciError(
                f"{summary.selection.selected.shown}: no file has such a test: nothing was run",
                Exit.NOTHING,
            )
        return Exit.OK if whole else Exit.USAGE

    def debug(self, interrupt: Interrupt) -> int:
        """Run the one file at pytest's debugger; the exit status. Nothing of it is a result."""
        from runci.run.debug import debug, not_debuggable

        chosen = self._selection
        script, terminal = self._options.as_script, sys.stdin.isatty() and sys.stdout.isatty()
        if (why := not_debuggable(chosen, script=script, terminal=terminal)) is not None:
            raise RunciError(why)
        (file,) = chosen.files
        self._slots = 1
        progress = Plain(sys.stdout, chosen_color(self._options.color, sys.stdout), 80)
        if chosen.execution is Execution.SCRIPT:
            progress.note(f"{file.path} runs as a script in {chosen.suite}; here it is pytest's")
        try:
            with self._leased(progress, interrupt) as ((slot, *_), _):
                invocation = chosen.invocation
                env = {**invocation.env, **slot.env}
                return debug(file, self._request.root, env, invocation.pytest_args)
        except KeyboardInterrupt:  # while it waited for a GPU
            return 128 + interrupt.number

    def _run(
        self, store: Store, progress: Plain, interrupt: Interrupt, wake: int
    ) -> Summary | None:
        selection, first = self._history(store, progress)
        if not selection.files and not selection.broken:
            sys.stdout.write("no file failed last time\n0 passed, 0 failed, 0 skipped\n")
            return None
        todo = self._ordered(jobs(selection.files))
        with self._leased(progress, interrupt) as (slots, spare):
            progress.begin(selection, self._header())
            self._set_up(slots[0].env, store, progress, interrupt)
            with Pool(self._settings(), wake) as pool:
                policy = self._policy()
                runner = selection.runner.name if selection.runner else None
                allowed = allowed_skips(self._request.taxonomy.skips, runner)
                recorder = Recorder(selection, policy, store, progress, allowed, first)
                places = (slots, pool, recorder, progress, interrupt, spare)
                summary = Loop(selection, policy, *places).run(todo)
                return replace(summary, durations=self._options.durations)

    def _set_up(
        self, leased: Mapping[str, str], store: Store, progress: Plain, interrupt: Interrupt
    ) -> None:
        """Run the suite's `setup`. Raises UnfitMachine where it fails."""
        command = self._selection.invocation.setup
        if not command:
            return
        from runci.run.setup import set_up

        seconds = set_up(
            command,
            self._request.root,
            {**os.environ, **self._selection.invocation.env, **leased},
            store.setup_log,
            limit=self._policy().suite_timeout,
            stopped=lambda: interrupt.count > 0,
        )
        progress.note(f"set-up: {seconds:.1f} s, its output: {store.setup_log}")

    def _history(self, store: Store, progress: Plain) -> tuple[Selection, Callable[[str], int]]:
        """What to run given earlier results, and the number of each file's first attempt."""
        selection = self._selection
        if not self._options.last_failed:
            # A part is kept beside what is there of the whole.
            some = bool(self._options.paths or selection.selected)
            store.clear([f.title for f in selection.files] if some else None)
            return selection, lambda _path: first_attempt()
        following: dict[str, int] = {}
        kept = []
        others_of: dict[str, list[str]] = {}
        for file in selection.files:
            self._forget_unusable(file, store, progress, others_of)
            due = self._due(file, store)
            if due.why:
                progress.note(f"{file.title}: {due.why}")
            if due.file is None:
                continue
            if due.file.title != file.title:
                self._forget_unusable(due.file, store, progress, others_of)
            earlier, _ = store.earlier(due.file.title)
            kept.append(due.file)
            following[file.path] = earlier[-1].attempt + 1 if earlier else first_attempt()
        for commit, titles in sorted(others_of.items()):
            progress.note(
                f"the results of {plural(len(titles), 'files')} are of commit {commit}, not of "
                f"{self._selection.commit[:12] or 'an unknown one'}: removed, and all of them run"
            )
        parts = [file for file in kept if file not in selection.files]
        if parts:
            progress.note(
                f"of {plural(len(parts), 'files')} only the tests that failed run; once they pass, "
                "--last-failed runs all of it, which is what counts"
            )
        return replace(selection, files=tuple(kept)), lambda p: following.get(p, first_attempt())

    def _forget_unusable(
        self, file: RunFile, store: Store, progress: Plain, others_of: dict[str, list[str]]
    ) -> None:
        """Remove results that are not whole, and those of another commit, noted by that."""
        earlier, torn = store.earlier(file.title)
        for path in torn:
            progress.note(f"{path}: not a whole result: removed, and its file runs again")
            path.unlink()
        others = self._of_others(earlier)
        if others:
            others_of.setdefault(others, []).append(file.title)
        if others or torn:
            store.clear([file.title])

    def _due(self, file: RunFile, store: Store) -> Again:
        """What of a file --last-failed runs; changes no file."""
        whole = replace(file, selected=file.selected.widened)
        earlier, torn = store.earlier(whole.title)
        if not earlier and not torn:
            earlier, torn = store.earlier(file.title)
        if torn or self._of_others(earlier):
            return Again(file)
        parts = [one for one in store.of_file(file.path) if not self._of_others([one])]
        found = again(whole, earlier, parts, self._options.flaky_fails, self._may_have(file.path))
        due = replace(found.file, selected=file.selected) if found.file else None
        return replace(found, file=due)

    def _may_have(self, path: str) -> Callable[[str], bool]:
        data = read(self._request.root, path)
        return written(data).may_have if isinstance(data, bytes) else ANY.may_have

    def _of_others(self, earlier: Sequence[FileResult]) -> str:
        """The commit of earlier results where that is not the one that runs now."""
        commits = {result.commit for result in earlier} - {self._selection.commit}
        return min((commit[:12] or "unknown" for commit in commits), default="")

    def _ordered(self, items: Sequence[Job]) -> list[Job]:
        options = self._options
        if options.repeat > 1:
            return stress(items, options.repeat, options.order, self._slots, self._seed)
        return order_jobs(items, options.order, self._slots, self._seed)

    def _header(self) -> list[str]:
        chosen, options = self._selection, self._options
        predicted = sum(file.predicted for file in chosen.files)
        files = f"{len(chosen.files)} files" if len(chosen.files) != 1 else "1 file"
        head = f"{chosen.shard}: {files}, {predicted:.0f} s predicted, {self._slots} at once"
        order = [f"order: random, --seed {self._seed}"] if options.order == "random" else []
        shard = [f"this shard again: {self._whole()}"] if "--shard" in chosen.given else []
        return [head, *order, *shard, *chosen.invocation.shown]

    def _without_plan(self) -> str:
        """The command that runs all files of a planned shard where the plan is not at hand."""
        chosen = self._selection
        if "--plan" not in chosen.given:
            return ""
        return repeat_command(chosen, chosen.files, self._extra())

    def _whole(self) -> str:
        given, chosen = self._selection.given, self._selection.selected
        return shlex.join(["runci", "run", *given, *chosen.options, *self._extra(), *chosen.rest])

    def _extra(self) -> tuple[str, ...]:
        """Options that change how a file runs."""
        options = self._options
        found: list[str] = []
        if options.isolate:
            found += ["--isolate", options.isolate]
        if options.as_script:
            found.append("--as-script")
        if options.preload is not None:
            found += ["--preload", options.preload]
        if options.timeout_per_file is not None:
            found += ["--timeout-per-file", f"{options.timeout_per_file:.10g}"]
        return tuple(found)

    def _policy(self) -> Policy:
        options, minutes = self._options, self._selection.timeout_minutes
        return Policy(
            timeout=options.timeout_per_file,
            soft_timeout=options.soft_timeout,
            suite_timeout=options.suite_timeout or (minutes * 60 if minutes else None),
            # An error that a tool found once is there, whatever a repeat finds.
            retries=0 if self._selection.under else options.retries,
            machine_retries=options.machine_retries if options.repeat == 1 else 0,
            repeat=options.repeat,
            fail_fast=options.fail_fast or self._selection.selected.first,
            flaky_fails=options.flaky_fails,
            script=options.as_script,
            extra=self._extra(),
        )

    def _settings(self) -> Settings:
        options = self._options
        tool = self._request.tool
        isolate = options.isolate or ("spawn" if sys.platform == "darwin" else "fork")
        fresh = isolate == "spawn" or tool is not None
        modules = heavy_modules(self._request.root, self._selection, options.preload)
        invocation = self._selection.invocation
        environment = threads(self._slots) if not self._gpus else {}
        own = tool.environment if tool is not None else {}
        environment = {**environment, **invocation.env, **own}
        given = invocation.pytest_args
        return Settings(self._request.root, fresh, options.grace, modules, environment, given, tool)

    @contextlib.contextmanager
    def _leased(
        self, progress: Plain, interrupt: Interrupt
    ) -> Iterator[tuple[list[Slot], Callable[[], Slot | None]]]:
        """The places to run in, for a GPU suite leased GPUs, and what leases one more if it can."""
        if not self._gpus:
            yield [Slot(device=cpu()) for _ in range(self._slots)], lambda: None
            return
        from runci.run.gpu import Lease, taken
        from runci.run.machine import find
        from runci.run.processes import describe

        runner, count = self._selection.runner, self._gpus * self._slots
        assert runner is not None  # noqa: S101 (it has GPUs)
        here = find(self._selection.backend, runner, self._request.taxonomy.path, count)
        if here.not_compared:
            progress.note(f"not compared with what {runner.name} declares: {here.not_compared}")
        with Lease(
            here.usable,
            count,
            patience=self._options.lease_timeout,
            waiting=progress.note,
            stopped=lambda: interrupt.count > 0,
        ) as lease:
            shares = [lease.gpus[i : i + self._gpus] for i in range(0, count, self._gpus)]
            slots = [here.slot(share) for share in shares]
            for found in (one for slot in slots if slot.memory for one in slot.memory.in_use()):
                names = {pid: describe(pid) for pid, _ in found.processes}
                progress.note(taken(found, names))
            with contextlib.ExitStack() as stack:
                leased = [*lease.gpus]
                yield slots, lambda: self._one_more(here, leased, stack)

    def _one_more(self, here: Here, leased: list[Gpu], stack: contextlib.ExitStack) -> Slot | None:
        """Another place on GPUs that are free at once, until the run ends; notes them as leased."""
        from runci.run.gpu import Lease

        free = [gpu for gpu in here.usable if gpu not in leased]
        if not here.variable or len(free) < self._gpus:
            return None
        try:
            lease = stack.enter_context(Lease(free, self._gpus, patience=0))
        except RunciError:
            return None
        leased += lease.gpus
        return here.slot(lease.gpus)

    def _learn(self, summary: Summary, progress: Plain) -> bool:
        """Show or write what `--learn-skips` proposes; False where it cannot be written."""
        given = self._options.learn_skips
        if given is None:
            return True
        from runci.run.learn import proposed, write

        taxonomy, runner = self._request.taxonomy, self._selection.runner
        if runner is None:
            progress.note(
                f"--learn-skips: {self._selection.suite} names no runner in {taxonomy.path}, and "
                "skips: allows by runner: give the suite one"
            )
            return True
        found = proposed(summary, taxonomy, runner.name)
        try:
            target = Path(given) if given else None
            for line in write(found, target, self._request.config, taxonomy.path):
                progress.write(printable(line))
        except RunciError as error:
            progress.note(f"--learn-skips: {error}")
            for line in write(found, None, self._request.config, taxonomy.path):
                progress.write(printable(line))  # what a run has learned is not lost
            return False
        return True

    def _finish(self, summary: Summary, progress: Plain, junit_path: Path) -> bool:
        """Write and show what it came to; False where a file that was asked for is not there."""
        repeats = [
            repeat_command(summary.selection, [one.result], self._extra()) for one in summary.failed
        ]
        document = as_junit(summary).encode()
        target = Path(self._options.junit) if self._options.junit else None
        problems = {path: _try_to_write(path, document) for path in (junit_path, target) if path}
        for problem in filter(None, problems.values()):
            progress.note(f"JUnit XML: {problem}")
        learned = self._learn(summary, progress)
        progress.finish(summary, repeats, self._without_plan())
        return learned and (target is None or problems[target] is None)


def _try_to_write(path: Path, data: bytes) -> str | None:
    try:
        replace_file(path, data)
    except RunciError as error:
        return str(error)
    return None


def _progress(options: Namespace) -> Plain:
    shown, chosen = chosen_color(options.color, sys.stdout), options.format
    width = terminal_width()
    action = os.environ.get("GITHUB_ACTIONS") == "true"
    if chosen == "github" or (chosen == "auto" and action):
        return GitHub(sys.stdout, shown, width)
    moving = chosen == "auto" and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return (Terminal if moving else Plain)(sys.stdout, shown, width, action)
