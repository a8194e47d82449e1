"""What a run shows: plain lines, a bar that moves, or folded groups and annotations of GitHub."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from runci.core.result import FileResult, Outcome
from runci.run.model import FileReport, Selection
from runci.run.output import last_lines
from runci.run.summary import (
    SLOWEST,
    Summary,
    duration,
    last_line,
    slowest,
    slowest_tests,
    step_summary,
    total_line,
)
from runci.text.github import annotation, escape_data, no_command
from runci.text.tables import path_end
from runci.text.terminal import CYAN, DIM, GREEN, RED, YELLOW, crop, paint, printable
from runci.text.wording import plural

if TYPE_CHECKING:
    from rich.live import Live

# Lines of a failed file's output: in a log, and in a group of GitHub's, which is folded.
SHOWN_LINES = 60
GROUPED_LINES = 5000
SHOWN_STACKS = 80  # lines of where processes are
ANNOTATED_STACKS = 12  # of them in an annotation
HEARTBEAT = 60.0  # seconds between lines that say what runs


@dataclass(frozen=True, slots=True)
class State:
    """What a display of the present needs: files that ended, all files, jobs under way, seconds."""

    done: int
    total: int
    running: tuple[str, ...]
    elapsed: float
    left: float


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt that ended. `again` is the attempt that follows, `repeat` the command, `stacks`
    are lines that say where its processes were."""

    result: FileResult
    report: FileReport
    output: bytes
    failed: bool
    repeat: str
    log: Path | None = None
    again: int | None = None
    stacks: tuple[str, ...] = ()


class Plain:
    """Where a run is shown: a line a file, the output of failed files, a summary.

    `guard`: GitHub's runner reads it, and may take nothing that a test said for a command.
    """

    def __init__(self, stream: TextIO, color: bool, width: int, guard: bool = False) -> None:
        self._stream, self._color, self._width = stream, color, width
        self._guard = guard
        self._beat = HEARTBEAT

    def begin(self, selection: Selection, lines: Sequence[str]) -> None:
        """Say what runs."""
        for line in lines:
            self.write(printable(line))
        for path, reason in selection.disabled:
            self.write(self._paint(f"disabled  {printable(f'{path}: {reason}')}", DIM))

    def tick(self, state: State) -> None:
        """Once a minute say what runs: whoever reads a log cannot see it move."""
        if state.elapsed >= self._beat:
            self._beat = state.elapsed + HEARTBEAT
            self.present(state)

    def present(self, state: State) -> None:
        """Say what runs."""
        for line in present(state):
            self.write(self._paint(f"runci: {printable(line)}", DIM))

    def stacks(self, lines: Sequence[str], log: Path | None) -> None:
        """Where the processes of a job are, and where all of it stands."""
        self.write(self._paint(f"runci: {printable(lines[0])}", YELLOW))
        for line in lines[1 : SHOWN_STACKS + 1]:
            self.write(f"    {printable(line)}")
        self.write(self._paint(f"    all {len(lines)} lines: {printable(str(log))}", DIM))

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self.write(self._paint(f"runci: {printable(text)}", YELLOW))

    def ended(self, ended: Ended) -> None:
        """A file ended."""
        self.write(self._line(ended))
        if ended.result.message:
            self.write(f"    {printable(ended.result.message)}")
        self._write_class(ended.result)
        if not ended.result.outcome.green:
            self.write_output(ended.output, ended.log, SHOWN_LINES)
        if ended.failed:
            self.write(self._paint(f"    repeat: {printable(ended.repeat)}", CYAN))

    def interrupted(self, where: str, output: bytes, log: Path | None) -> None:
        """A job was told to end: what it had printed."""
        self.write(self._paint(f"INTERRUPTED {printable(where)}", YELLOW))
        self.write_output(output, log, SHOWN_LINES)

    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None:
        """The closing lines; `whole` repeats a shard without its plan, and may be empty."""
        if len(summary.finished) > SLOWEST:
            self.write("\nslowest files")
            for one in slowest(summary, SLOWEST):
                took, said = duration(one.result.seconds), duration(one.predicted)
                times = f"  {took:>8}  (predicted {said})  "
                self.write(times + self._path(one.result.title, len(times)))
        if tests := slowest_tests(summary):
            self.write("\nslowest tests")
        for test, seconds in tests:
            took = f"  {duration(seconds) if seconds >= 60 else f'{seconds:.2f} s':>8}  "
            self.write(took + self._path(test, len(took)))
        if summary.flaky:
            self.write("\nflaky files")
            for one in summary.flaky:
                self.write(self._paint(f"  {printable(one.result.title)}", YELLOW))
        if summary.failed and len(summary.finished) > 1:
            self.write("\nfailed files; a command repeats each")
            for one, repeat in zip(summary.failed, repeats, strict=True):
                said = f"{one.result.title}: {one.result.end}: {one.result.message}"
                self.write(self._paint(f"  {printable(said)}", RED))
                self.write(f"    {printable(repeat)}")
        if summary.failed and whole:
            self.write("\nthe whole shard, without the plan")
            self.write(f"    {printable(whole)}")
        self.write("")
        self.write(total_line(summary))
        self.write(self._paint(last_line(summary), RED if summary.failed else GREEN))

    def close(self) -> None:
        """Nothing is held."""

    def write(self, line: str) -> None:
        """Write one line at once, so that a log shows it while the run goes on."""
        self._stream.write(f"{no_command(line) if self._guard else line}\n")
        self._stream.flush()

    def write_output(self, output: bytes, log: Path | None, most: int) -> None:
        """The end of what the file printed, and where the rest stands."""
        lines = last_lines(output, most + 1)
        if len(lines) > most:
            where = f": all in {log}" if log else ""
            self.write(self._paint(f"    ... the last {most} lines{printable(where)}", DIM))
        elif lines:
            self.write(self._paint("    ... its output:", DIM))
        for line in lines[-most:]:
            self.write(printable(line.expandtabs()))
        if lines:
            self.write(self._paint("    ... end of its output", DIM))

    def _write_class(self, result: FileResult) -> None:
        """What a failure was, and the line that it was told by."""
        if result.failure is not None:
            self.write(f"    class: {printable(result.failure.shown)}")

    def _line(self, ended: Ended) -> str:
        result = ended.result
        name = result.outcome.value.upper()
        style = RED if ended.failed else YELLOW if result.outcome is Outcome.FLAKY else GREEN
        attempt = f" (attempt {result.attempt})" if result.attempt > 1 or ended.again else ""
        again = f", attempt {ended.again} follows" if ended.again else ""
        tests = plural(result.tests, "tests")
        head = f" {duration(result.seconds):>7} {tests:>9}  "
        room = 0 if ended.failed else len(head) + 8 + len(attempt) + len(again)
        path = self._path(result.title, room)
        return f"{self._paint(f'{name:<8}', style)}{head}{path}{attempt}{again}"

    def _path(self, path: str, _used: int) -> str:
        """A path as it is shown after `used` columns; in a log, whole."""
        return printable(path)

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style, self._color)


class Terminal(Plain):
    """Plain lines above a bar that moves: what runs now, elapsed and predicted time left."""

    def __init__(self, stream: TextIO, color: bool, width: int, guard: bool = False) -> None:
        super().__init__(stream, color, width, guard)
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError:
            self._live: Live | None = None
            return
        console = Console(file=stream, no_color=not color, highlight=False, width=width)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        self._next = 0.0

    def _path(self, path: str, used: int) -> str:
        """Its end where the line is too short; of a file that failed, all, to be copied."""
        return path_end(printable(path), self._width - used) if used else printable(path)

    def tick(self, state: State) -> None:
        """Move the bar, a few times a second."""
        if self._live is None:
            super().tick(state)
            return
        now = time.monotonic()
        if now < self._next:
            return
        from rich.text import Text

        self._next = now + 0.2
        self._live.update(Text("\n".join(bar(state, self._width - 1))), refresh=True)

    def write(self, line: str) -> None:
        """Write above the bar."""
        if self._live is None or not self._live.is_started:
            super().write(line)
            return
        from rich.text import Text

        self._live.console.print(Text.from_ansi(line), soft_wrap=True)

    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None:
        """Take the bar away first."""
        self.close()
        super().finish(summary, repeats, whole)

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None and self._live.is_started:
            from rich.text import Text

            self._live.update(Text(""), refresh=True)
            self._live.stop()


def bar(state: State, width: int) -> list[str]:
    """The moving lines: a bar with times, and what runs now."""
    size = min(24, max(width - 50, 8))
    full = size * state.done // max(state.total, 1)
    left = f"about {duration(state.left)} left" if state.left >= 1 else "about to end"
    head = (
        f"[{'#' * full}{'.' * (size - full)}] {state.done}/{state.total} files  "
        f"{duration(state.elapsed)} elapsed, {left}"
    )
    return [
        crop(line, width) for line in [head, *(f"  {printable(name)}" for name in state.running)]
    ]


def present(state: State) -> list[str]:
    """What runs now and since when; pure."""
    head = f"{state.done} of {state.total} files ended, {duration(state.elapsed)} elapsed; running:"
    return [head, *(f"  {one}" for one in state.running or ("nothing",))]


class GitHub(Plain):
    """Folded groups with all output, annotations of failed files, a summary on the job's page."""

    def __init__(self, stream: TextIO, color: bool, width: int, guard: bool = True) -> None:
        super().__init__(stream, color, width, guard)

    def command(self, text: str) -> None:
        """Give the runner a command; a test's words in it may hold none of the other kind."""
        # Not `no_command`, which would make it none.
        self._stream.write(text.replace("##[", "##\\[") + "\n")
        self._stream.flush()

    def ended(self, ended: Ended) -> None:
        """A group a file; what the tests printed can give the runner no command."""
        self._fold(self._line(ended), ended.output, ended.log)
        if ended.result.message:
            self.write(f"    {printable(ended.result.message)}")
        self._write_class(ended.result)
        if ended.failed or ended.result.outcome is Outcome.FLAKY:
            self.command(_annotation(ended))
        if ended.failed:
            self.write(f"    repeat: {printable(ended.repeat)}")

    def interrupted(self, where: str, output: bytes, log: Path | None) -> None:
        """A group, too."""
        self._fold(f"INTERRUPTED {where}", output, log)

    def stacks(self, lines: Sequence[str], log: Path | None) -> None:
        """A group, too: what lines beside it say is folded as well."""
        self.command(f"::group::{escape_data(lines[0])}")
        for line in lines[1:]:
            self.write(printable(line))
        self.write(f"all {len(lines)} lines: {printable(str(log))}")
        self.command("::endgroup::")

    def _fold(self, head: str, output: bytes, log: Path | None) -> None:
        self.command(f"::group::{escape_data(head)}")
        token = secrets.token_hex(16)
        self.command(f"::stop-commands::{token}")
        self.write_output(output, log, GROUPED_LINES)
        self.command(f"::{token}::")
        self.command("::endgroup::")

    def note(self, text: str) -> None:
        """An annotation without a file."""
        self.command(annotation("notice", text, {"title": "runci"}))

    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None:
        """The closing lines, and the page of the job where there is one."""
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if page:
            try:
                # Names and messages may hold bytes that are no text.
                with Path(page).open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(step_summary(summary))
            except OSError as error:
                self.note(f"{page}: cannot write: {error.strerror}")
        super().finish(summary, repeats, whole)


def _annotation(ended: Ended) -> str:
    """The workflow command for a file that failed or was flaky."""
    result = ended.result
    first = next(iter(ended.report.failures), None)
    properties = {"file": result.path, "title": f"{result.end}: {result.title}"}
    if first is not None and first.line is not None:
        properties["line"] = str(first.line)
    kind = "error" if ended.failed else "warning"
    told = [f"class: {result.failure.shown}"] if result.failure else []
    stacks = ended.stacks[:ANNOTATED_STACKS]
    said = [result.message, *told, *stacks, f"repeat: {ended.repeat}"]
    return annotation(kind, "\n".join(said), properties)
