"""A job that runs: the parent's ends of its pipes, and what came through them."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runci.run import processes
from runci.run.events import Lines
from runci.run.model import Ending, Job
from runci.run.output import Output

READ = 1 << 20
UNSTARTED = "unstarted"  # the fork server was ended before it came to this job


@dataclass(slots=True, eq=False)
class Running:
    """A job that was started. `slot` is whatever the caller gave.

    `pipes` are events and output, `pids` the keeper and the job once they run. `stopped` says why
    it was told to end; at `lost_at` nobody waits for an answer any more.
    """

    job: Job
    slot: Any
    control: socket.socket
    pipes: tuple[int, int]
    began: float
    began_unix: float
    kills: int | None
    output: Output = field(default_factory=Output)
    events: list[dict[str, Any]] = field(default_factory=list)
    pids: tuple[int, ...] = ()
    stopped: str | None = None
    limit: float | None = None
    order: bytes = b""
    lost_at: float = float("inf")
    lines: Lines = field(default_factory=Lines)
    replies: Lines = field(default_factory=Lines)
    ended: Mapping[str, Any] | None = None

    def hear(self) -> None:
        """Read what the keeper says: that the job runs, how it ended. Silence: it is gone."""
        data = b""
        with contextlib.suppress(OSError):
            data = self.control.recv(65536)
        for reply in self.replies.feed(data):
            if "started" in reply:
                self.pids = tuple(reply["started"])
                self.began, self.began_unix = time.monotonic(), time.time()
                if self.stopped is None:
                    self.lost_at = float("inf")
                self.send_order()
            elif "ended" in reply:
                self.ended = reply
        if not data and self.ended is None:
            self.ended = {}
            if not self.pids and self.stopped is None:
                self.stopped = UNSTARTED

    def send_order(self) -> None:
        """Tell the keeper to end the job; it is told only when it has said that it runs."""
        if self.pids and self.order:
            with contextlib.suppress(OSError):
                self.control.sendall(self.order)
            self.order = b""

    def drain(self, pipe: int, *, once: bool = False) -> bool:
        """Read what a pipe holds now; whether it goes on.

        A process that was left may hold its other end for ever, so nobody waits for that end.
        """
        while True:
            try:
                data = os.read(pipe, READ)
            except BlockingIOError:
                return True
            if pipe == self.pipes[0]:
                self.events += self.lines.feed(data)
            else:
                self.output.add(data)
            if not data or once:
                return bool(data)

    def close(self, selector: selectors.BaseSelector) -> None:
        """Give the descriptors back."""
        for place in (self.control, *self.pipes):
            with contextlib.suppress(KeyError):
                selector.unregister(place)
        self.control.close()
        for pipe in self.pipes:
            os.close(pipe)

    def ending(self) -> Ending:
        """How it ended."""
        reply = self.ended or {}
        kills = processes.kernel_kills()
        status = reply.get("ended")
        killed = status is not None and os.WIFSIGNALED(status)
        return Ending(
            seconds=float(reply.get("seconds", time.monotonic() - self.began)),
            status=None if status is None or killed else os.WEXITSTATUS(status),
            signal=processes.signal_name(os.WTERMSIG(status)) if status and killed else None,
            stopped=self.stopped if reply else self.stopped or "lost",
            limit=self.limit,
            peak_memory_mb=reply.get("rss"),
            left=tuple(reply.get("left", ())),
            stuck=tuple(reply.get("stuck", ())),
            out_of_memory=kills is not None and self.kills is not None and kills > self.kills,
        )
