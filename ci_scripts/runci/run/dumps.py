"""When the processes of jobs are looked at, beside the loop that runs them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from runci.run.pool import Running

_BUDGET = 8.0  # seconds for a look
LATEST = _BUDGET + 1.5  # seconds after which nobody waits for a look any more


@dataclass(slots=True, eq=False)
class _Look:
    """One look that is under way, or over: then with its lines."""

    running: Running
    began: float
    lines: list[str] = field(default_factory=list)
    remedy: str = ""
    over: threading.Event = field(default_factory=threading.Event)


def due(soft: float | None, took: float, looked: bool) -> bool:
    """Whether a job that runs for `took` seconds is to be looked at without being ended; pure."""
    return soft is not None and took >= soft and not looked


class Dumps:
    """The looks of one run. `root` is the repository's, for the names of files."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._under_way: list[_Look] = []
        self._remedies: set[str] = set()

    def begin(self, running: Running, why: str) -> None:
        """Look at a job in a thread of its own; nothing where that is done already."""
        if not running.pids or self.under_way(running):
            return
        from runci.run.hang import Target, look

        one = _Look(running, time.monotonic())
        # A number of its own: the job may end meanwhile.
        target = Target(running.pids[0], running.marker, os.dup(running.answers), self._root)

        def work() -> None:
            try:
                one.lines, one.remedy = look(target, why, _BUDGET)
            except Exception as error:  # noqa: BLE001  it may not be in the way of anything
                one.lines = [f"{why}: its processes could not be looked at: {error!r}"]
            finally:
                os.close(target.answers)
                one.over.set()

        self._under_way.append(one)
        threading.Thread(target=work, daemon=True).start()

    def under_way(self, running: Running) -> bool:
        """Whether a look at this job may still tell something."""
        return any(one.running is running for one in self._under_way)

    def take(self) -> list[tuple[Running, Sequence[str], str]]:
        """The jobs that were looked at since the last call, with lines and a new remedy."""
        now = time.monotonic()
        over = [one for one in self._under_way if one.over.is_set() or now - one.began > LATEST]
        self._under_way = [one for one in self._under_way if one not in over]
        taken: list[tuple[Running, Sequence[str], str]] = []
        for one in over:
            lines = one.lines or [f"its processes could not be looked at within {LATEST:g} s"]
            new = one.remedy if one.remedy not in self._remedies else ""
            self._remedies.add(one.remedy)
            taken.append((one.running, lines, new))
        return taken
