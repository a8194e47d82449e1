"""Runs one process of a night: in a group of its own, for a limited time, with all that it says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.core.errors import Exit, RunciError
from runci.run.output import HEAD, TAIL, Output, last_lines
from runci.run.processes import send_group, signal_name
from runci.text.terminal import note, printable

TICK = 1.0  # seconds between two looks at the machine
MOST = 64 << 20  # bytes that a benchmark may print, and that its JSON may have
SHOWN = 15  # lines of its output in a message
_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Job:
    """One process. `timeout` in seconds; `name` for messages; `variables` are added to ours."""

    name: str
    command: Sequence[str]
    cwd: Path
    variables: Mapping[str, str]
    timeout: float


@dataclass(frozen=True, slots=True)
class Files:
    """Where one process writes: what it prints, and the JSON where it writes that itself."""

    out: Path
    error: Path
    json: Path | None

    @property
    def result(self) -> Path:
        """The file that should hold the JSON."""
        return self.json or self.out

    def size(self) -> int:
        """Bytes of all of them."""
        paths = (path for path in (self.out, self.error, self.json) if path is not None)
        return sum(path.stat().st_size for path in paths if path.exists())


def run_process(job: Job, files: Files, log: Path, tick: Callable[[], None]) -> bytes:
    """Run it to its end, append what it printed to `log`, and return the JSON that it gave.

    `tick` is called about once a second meanwhile. Raises RunciError with the last lines of its
    output: 2 where it cannot be started or gives nothing, 1 where it fails or takes too long.
    """
    began = time.monotonic()
    problem = ""
    try:
        with _started(job, files) as process:
            problem = _wait(process, job.timeout, files, tick) or _too_much(files)
    finally:
        _append(log, job, files, problem or f"ended after {time.monotonic() - began:.1f} s")
    if problem:
        raise RunciError(f"{job.name}: {problem}{_tail(files, log)}", Exit.FINDINGS)
    if files.result.exists() and not files.result.is_file():  # reading a pipe has no end
        raise RunciError(f"{job.name}: what it wrote as {{output}} is no file{_tail(files, log)}")
    try:
        return files.result.read_bytes()
    except OSError as error:
        raise RunciError(
            f"{job.name}: ended with status 0 and wrote no {{output}}: {error.strerror}"
            f"{_tail(files, log)}"
        ) from error


@contextlib.contextmanager
def _started(job: Job, files: Files) -> Iterator[subprocess.Popen[bytes]]:
    """The process; at the end, however that comes, nothing of its group is left."""
    with files.out.open("wb") as out, files.error.open("wb") as error:
        try:
            process = subprocess.Popen(  # noqa: S603  the command of perf.yml, and no shell
                job.command,
                cwd=job.cwd,
                env={**os.environ, **job.variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error,
                start_new_session=True,
            )
        except OSError as problem:
            raise RunciError(
                f"{job.name}: cannot start {job.command[0]}: {problem.strerror}"
            ) from problem
    try:
        yield process
    finally:
        send_group(process.pid, signal.SIGKILL)
        process.wait()


def _wait(
    process: subprocess.Popen[bytes], timeout: float, files: Files, tick: Callable[[], None]
) -> str:
    """Wait for its end; what went wrong, «» for status 0."""
    until = time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        try:
            return _status(process.wait(min(max(left, 0), TICK)))
        except subprocess.TimeoutExpired:
            tick()
        if problem := _too_much(files):
            return problem
        if left <= 0:
            send_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            return f"took longer than timeout_minutes ({timeout / 60:g} min)"


def _too_much(files: Files) -> str:
    return f"printed more than {MOST >> 20} MiB" if files.size() > MOST else ""


def _status(status: int) -> str:
    if status < 0:
        return f"ended by {signal_name(-status)}"
    return f"exit status {status}" if status else ""


def _content(path: Path) -> bytes:
    """What a file holds; in the middle of a large one, how much was left out."""
    kept = Output(HEAD, TAIL)
    with contextlib.suppress(OSError), path.open("rb") as stream:
        while data := stream.read(HEAD):
            kept.add(data)
    return kept.content()


def _append(log: Path, job: Job, files: Files, end: str) -> None:
    parts = [f"=== {job.name}: {' '.join(job.command)}\n".encode(errors="backslashreplace")]
    parts.append(_content(files.error))
    if files.json is not None:
        parts.append(_content(files.out))
    parts.append(f"=== {job.name}: {end}\n".encode())
    try:
        with log.open("ab") as stream:
            stream.write(b"".join(parts))
    except OSError as error:  # what was measured is worth more than what it printed
        note(f"{log}: cannot write the log: {error.strerror}")


def _tail(files: Files, log: Path) -> str:
    """Where to read on, and the last lines that it printed, each on a line of its own."""
    lines = last_lines(_content(files.error), SHOWN) or last_lines(_content(files.out), SHOWN)
    shown = "".join(f"\n    {printable(line)}" for line in lines)
    return f"; all that it printed is in {log}{', last:' if lines else ''}{shown}"
