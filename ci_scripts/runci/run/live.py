"""A run on a terminal: plain lines above a bar that moves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from runci.report.table import path_end
from runci.report.terminal import crop, printable
from runci.run.progress import Plain, State
from runci.run.summary import Summary, duration

if TYPE_CHECKING:
    from rich.live import Live


class Terminal(Plain):
    """Plain lines above a bar that moves: what runs now, elapsed and predicted time left."""

    def __init__(self, stream: TextIO, color: bool, width: int) -> None:
        super().__init__(stream, color, width)
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
        now = time.monotonic()
        if self._live is None or now < self._next:
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
