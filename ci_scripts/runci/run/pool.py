"""The parent's side of running jobs: started by the fork server, and read."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runci.core.errors import Exit, RunciError
from runci.run import leftovers, processes
from runci.run.activity import Watch
from runci.run.events import Lines, read_chain
from runci.run.keeper import KILL, TERMINATE
from runci.run.model import LIMITS, Activity, Chain, Ending, Job
from runci.run.output import Output
from runci.run.server import FRESH

if TYPE_CHECKING:
    from runci.run.sanitizer import Tool

READ = 1 << 20
UNSTARTED = "unstarted"  # the fork server, or the keeper, ended before it came to this job

# How long a keeper may take to answer beyond the time that it gives the job.
_LOST = 20.0
_GATHER = 0.005  # a child that runs many short tests is not read for each of them
_START = 600.0  # the server imports first, on a machine that may be busy


@dataclass(frozen=True, slots=True)
class Settings:
    """How children run. `fresh`: a new interpreter each; `grace`: seconds between SIGTERM and
    SIGKILL; `preload`: modules that the server imports; `environment` is added to its own,
    `options` to pytest's. `tool` stands in front of each child."""

    root: Path
    fresh: bool = False
    grace: float = 5.0
    preload: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    tool: Tool | None = None


@dataclass(slots=True, eq=False)
class Running:
    """A job that was started. `slot` is whatever the caller gave.

    `pipes` are events and output, `pids` the keeper and the job once they run. `stopped` says why
    it is to end, `last` what it did before, and `told` that it was told; at `lost_at` nobody waits
    for an answer any more. At `heard` it last said something, at `entered` (Unix time) it began a
    test. `fault` is why it
    could not be started.
    `marker` stands in the environment of its processes, into `answers` they write stacks. `looked`
    says that it was looked at for --soft-timeout, `stacks` what was seen, `stacks_log` where, in
    the folder of results, that stands, `shown` that the newest look saw its processes, and `known`
    how many bytes of `answers` are of looks. Into `tool_log` the tool writes that it runs under.
    """

    job: Job
    slot: Any
    control: socket.socket
    pipes: tuple[int, int]
    began: float
    began_unix: float
    kills: int | None
    marker: str
    answers: int
    output: Output = field(default_factory=Output)
    events: list[dict[str, Any]] = field(default_factory=list)
    pids: tuple[int, ...] = ()
    stopped: str | None = None
    told: bool = False
    limit: float | None = None
    order: bytes = b""
    lost_at: float = float("inf")
    lines: Lines = field(default_factory=Lines)
    replies: Lines = field(default_factory=Lines)
    looked: bool = False
    stacks: list[str] = field(default_factory=list)
    stacks_log: str | None = None
    shown: bool = False
    known: int = 0
    ended: Mapping[str, Any] | None = None
    watch: Watch = field(default_factory=Watch)
    last: Activity | None = None
    heard: float = 0.0
    entered: float = 0.0
    tool_log: Path | None = None
    fault: Chain = ()

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
            elif "fault" in reply:
                self.fault = read_chain(reply["fault"])
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
            self.heard = time.monotonic() if data else self.heard
            if pipe == self.pipes[0]:
                said = self.lines.feed(data)
                if any(one.get("event") == "start" for one in said):
                    self.entered = time.time()
                self.events += said
            else:
                self.output.add(data)
            if not data or once:
                return bool(data)

    def note_answers(self) -> None:
        """What stands in `answers` by now is of a look."""
        self.known = os.fstat(self.answers).st_size

    def last_stacks(self) -> bytes:
        """Where it was when SIGTERM came; nothing where a look before its limit showed that."""
        if self.shown and self.stopped in LIMITS:
            return b""
        said = os.pread(self.answers, READ, self.known)
        return b"\n[runci: where it was as SIGTERM came]\n" + said if said else b""

    def close(self, selector: selectors.BaseSelector) -> None:
        """Give the descriptors back."""
        for place in (self.control, *self.pipes):
            with contextlib.suppress(KeyError):
                selector.unregister(place)
        self.control.close()
        for descriptor in (*self.pipes, self.answers):
            os.close(descriptor)

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
            shared=tuple(reply.get("shared", ())),
            removed=tuple(reply.get("removed", ())),
            stays=tuple(reply.get("stays", ())),
            out_of_memory=None if kills is None or self.kills is None else kills > self.kills,
            last=self.last,
            fault=self.fault,
        )


class Pool:
    """Runs jobs; a context, at whose end nothing of them is left.

    `wake` is a descriptor that becomes readable when a signal came.
    """

    def __init__(self, settings: Settings, wake: int) -> None:
        self._settings, self._wake = settings, wake
        self.root = settings.root.absolute()
        self._selector = selectors.DefaultSelector()
        self._selector.register(wake, selectors.EVENT_READ)
        self.running: list[Running] = []
        self._temporary: Path | None = None
        self._started = 0
        self._notes: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Pool:
        processes.become_subreaper()
        self._temporary = leftovers.make_folder()
        self._start_server()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()  # the server and all keepers see the end of it
        for running in self.running:
            running.control.close()
        if self._server is not None:  # it started
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(5)
            self._server.kill()
            self._server.wait()
        processes.kill_all(keep=self._foreign)
        processes.become_subreaper(False)
        self._selector.close()
        if self._temporary is not None:  # of keepers that were killed
            leftovers.temporary(self._temporary)

    def start(
        self,
        job: Job,
        slot: Any,
        env: Mapping[str, str],
        script: bool,
        tool_log: Path | None = None,
    ) -> Running:
        """Start a job in a child of its own, with a tool one that writes into `tool_log`."""
        tool = self._settings.tool
        ours, theirs = socket.socketpair()
        events, events_end = os.pipe()
        output, output_end = os.pipe()
        answers = _memory_file()
        _enlarge(output)
        for pipe in (events, output):
            os.set_blocking(pipe, False)
        own = None
        if self._temporary is not None:
            own = self._temporary / str(self._started)
            kept = leftovers.kept_elsewhere({**os.environ, **self._settings.environment})
            env = {**kept, "TMPDIR": str(own), **env}
        marker = f"{os.getpid()}-{self._started}"
        env = {**env, processes.MARKER: marker}
        self._started += 1
        spec = {
            "files": [file.path for file in job.files],
            "root": str(self._settings.root.absolute()),
            "only": {file.path: file.only for file in job.files if file.only},
            "selected": job.files[0].selected.as_dict,
            "script": script,
            "options": self._settings.options,
            "fresh": self._settings.fresh,
            "grace": self._settings.grace,
            "env": dict(env),
            "temporary": str(own) if own is not None else None,
            "tool": tool.command(tool_log) if tool is not None and tool_log is not None else [],
            "tool_log": str(tool_log) if tool_log is not None else None,
        }
        kills = processes.kernel_kills()
        began = (time.monotonic(), time.time())
        with contextlib.suppress(OSError):  # that the server has ended is heard in `wait`
            socket.send_fds(
                self._socket, [b"j"], [theirs.fileno(), events_end, output_end, answers]
            )
            ours.sendall(json.dumps(spec).encode() + b"\n")
        theirs.close()
        os.close(events_end)
        os.close(output_end)
        running = Running(job, slot, ours, (events, output), *began, kills, marker, answers)
        running.lost_at = running.began + _START
        running.tool_log = tool_log
        for place, what in ((ours, "control"), (events, "events"), (output, "output")):
            self._selector.register(place, selectors.EVENT_READ, (running, what))
        self.running.append(running)
        return running

    def take_notes(self) -> list[str]:
        """What the server said since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def stop(self, running: Running, why: str, limit: float | None = None) -> None:
        """End a job with SIGTERM, then SIGKILL; a second call is SIGKILL at once."""
        order = KILL if running.told else TERMINATE
        if running.stopped is None:
            running.stopped, running.limit = why, limit
        if not running.told:
            running.note_answers()
        running.told = True
        running.lost_at = time.monotonic() + self._settings.grace + _LOST
        running.order = order
        running.send_order()

    def wait(self, seconds: float) -> list[tuple[Running, Ending]]:
        """Read what comes for at most `seconds`; the jobs that ended."""
        ready = self._selector.select(max(seconds, 0))
        for key, _ in ready:
            if key.fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            elif key.data == "server":
                self._hear_server()
            else:
                self._read(*key.data)
        if ready and all(key.data is not None and key.data[-1] == "events" for key, _ in ready):
            time.sleep(_GATHER)
        now = time.monotonic()
        over = [r for r in self.running if r.ended is not None or now >= r.lost_at]
        return [(running, self._end(running)) for running in over]

    def _start_server(self) -> None:
        import psutil

        ours, theirs = socket.socketpair()
        self._socket = ours
        self._said, self._ready = Lines(), False
        preload = FRESH if self._settings.fresh else ",".join(self._settings.preload)
        command = [sys.executable, "-m", "runci.run.server", str(theirs.fileno())]
        self._foreign = [child.pid for child in psutil.Process().children()]
        try:
            self._server = subprocess.Popen(  # noqa: S603  our own interpreter
                [*command, preload],
                cwd=self._settings.root,
                env={**os.environ, **self._settings.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
        except OSError as error:
            raise RunciError(f"cannot start {sys.executable}: {error.strerror}") from error
        theirs.close()
        self._selector.register(ours, selectors.EVENT_READ, "server")

    def _hear_server(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = self._socket.recv(65536)
        for said in self._said.feed(data):
            self._ready = True
            self._notes += said.get("notes", [])
        if not data:
            self._server_ended()

    def _server_ended(self) -> None:
        """Start it again where a test ended it; not where it cannot start at all."""
        self._selector.unregister(self._socket)
        self._socket.close()
        if not self._ready:
            raise RunciError(
                "the process that starts tests could not start: its message stands above; "
                "--isolate spawn imports nothing in advance",
                Exit.FAULT,
            )
        # Jobs under way have keepers of their own; those that wait see their sockets closed.
        self._notes.append("the process that starts tests was ended: started again")
        self._start_server()

    def _read(self, running: Running, what: str) -> None:
        if what == "control":
            running.hear()
            return
        pipe = running.pipes[what == "output"]
        if not running.drain(pipe, once=True):
            self._selector.unregister(pipe)

    def _end(self, running: Running) -> Ending:
        if not running.ended:
            self._end_orphans(running)
        for pipe in running.pipes:
            running.drain(pipe)
        running.output.add(running.last_stacks())
        running.close(self._selector)
        self.running.remove(running)
        return running.ending()

    def _end_orphans(self, running: Running) -> None:
        """The keeper is gone, so what it watched over has come to us."""
        processes.send(running.pids, signal.SIGKILL)
        keep = [*self._foreign, *([self._server.pid] if self._server else [])]
        others = [pid for one in self.running if one is not running for pid in one.pids]
        processes.kill_all(keep=[*keep, *others])


def _memory_file() -> int:
    """A file without a name; its content is read by whoever has this number."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("runci-stacks")
    return os.open(os.devnull, os.O_RDWR)


def _enlarge(pipe: int) -> None:
    """A larger pipe, so that a child that prints much seldom waits; the default where it is not
    allowed."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, READ)
