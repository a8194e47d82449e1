"""What a run shows, as plain lines; `live` and `github` build on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from runci.report.summary import plural
from runci.report.terminal import CYAN, DIM, GREEN, RED, YELLOW, paint, printable
from runci.results import FileResult, Outcome
from runci.run.model import FileReport, Selection
from runci.run.output import last_lines
from runci.run.summary import (
    SLOWEST,
    Summary,
    duration,
    last_line,
    slowest,
    total_line,
)

if TYPE_CHECKING:
    pass

SHOWN_LINES = 60


@dataclass(frozen=True, slots=True)
class State:
    """What a live display needs: files that ended, all files, jobs under way, seconds."""

    done: int
    total: int
    running: tuple[str, ...]
    elapsed: float
    left: float


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt that ended. `again` is the attempt that follows, `repeat` the command."""

    result: FileResult
    report: FileReport
    output: bytes
    failed: bool
    repeat: str
    log: Path | None = None
    again: int | None = None


class Progress(Protocol):
    """Where a run is shown."""

    def begin(self, selection: Selection, lines: Sequence[str]) -> None: ...  # noqa: D102
    def tick(self, state: State) -> None: ...  # noqa: D102
    def ended(self, ended: Ended) -> None: ...  # noqa: D102
    def note(self, text: str) -> None: ...  # noqa: D102
    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class Plain:
    """A line a file, the output of failed files, a summary."""

    def __init__(self, stream: TextIO, color: bool, width: int) -> None:
        self._stream, self._color, self._width = stream, color, width

    def begin(self, selection: Selection, lines: Sequence[str]) -> None:
        """Say what runs."""
        for line in lines:
            self.write(printable(line))
        for path, reason in selection.disabled:
            self.write(self._paint(f"disabled  {printable(f'{path}: {reason}')}", DIM))

    def tick(self, state: State) -> None:
        """Nothing: lines do not move."""

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self.write(self._paint(f"runci: {printable(text)}", YELLOW))

    def ended(self, ended: Ended) -> None:
        """A file ended."""
        self.write(self._line(ended))
        if ended.result.message:
            self.write(f"    {printable(ended.result.message)}")
        if not ended.result.outcome.green:
            self.write_output(ended, SHOWN_LINES)
        if ended.failed:
            self.write(self._paint(f"    repeat: {printable(ended.repeat)}", CYAN))

    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None:
        """The closing lines; `whole` repeats a shard without its plan, and may be empty."""
        if len(summary.finished) > SLOWEST:
            self.write("\nslowest files")
            for one in slowest(summary, SLOWEST):
                took, said = duration(one.result.seconds), duration(one.predicted)
                times = f"  {took:>8}  (predicted {said})  "
                self.write(times + self._path(one.result.title, len(times)))
        if summary.flaky:
            self.write("\nflaky files")
            for one in summary.flaky:
                self.write(self._paint(f"  {printable(one.result.title)}", YELLOW))
        if summary.failed and len(summary.finished) > 1:
            self.write("\nfailed files; a command repeats each")
            for one, repeat in zip(summary.failed, repeats, strict=True):
                said = f"{one.result.title}: {one.result.outcome.value}: {one.result.message}"
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
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def write_output(self, ended: Ended, most: int) -> None:
        """The end of what the file printed, and where the rest stands."""
        lines = last_lines(ended.output, most + 1)
        if len(lines) > most:
            where = f": all in {ended.log}" if ended.log else ""
            self.write(self._paint(f"    ... the last {most} lines{printable(where)}", DIM))
        elif lines:
            self.write(self._paint("    ... its output:", DIM))
        for line in lines[-most:]:
            self.write(printable(line.expandtabs()))
        if lines:
            self.write(self._paint("    ... end of its output", DIM))

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
