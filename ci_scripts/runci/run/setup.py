"""The command that a suite runs once before its files: in a group of its own, its output kept."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runci.core.errors import UnfitMachine
from runci.run import processes

_POLL = 0.1
_SHOWN = 5  # last lines of its output that a message has
_READ = 8192


def set_up(
    command: Sequence[str],
    root: Path,
    env: Mapping[str, str],
    log: Path,
    *,
    limit: float | None,
    stopped: Callable[[], bool],
) -> float:
    """Run it at `root`, without a shell; the seconds that it took. What it leaves running is ended.

    Raises UnfitMachine where it cannot be started, fails, or takes longer than `limit` seconds, and
    KeyboardInterrupt once `stopped` says so.
    """
    began = time.monotonic()
    shown = shlex.join(command)
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603  what suites.yml of this tree says
                list(command),
                cwd=root,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
    except (OSError, ValueError) as error:
        # Of a missing folder for its output, too: the folder of results was written to just now.
        said = getattr(error, "strerror", None) or error
        raise UnfitMachine(
            f"the suite's set-up `{shown}` cannot be started: {said}; no test was started: mend "
            "`setup` in suites.yml, or the machine"
        ) from error
    try:
        status = _wait(process, None if limit is None else began + limit, stopped)
    finally:
        processes.send_group(process.pid, signal.SIGKILL)
        process.wait()
    if status != 0:
        how = f"took longer than {limit:g} s" if status is None else f"ended with {_how(status)}"
        raise UnfitMachine(
            f"the suite's set-up `{shown}` {how}; no test was started{_last(log)}: mend `setup` in "
            f"suites.yml, or the machine; its output: {log}"
        )
    return time.monotonic() - began


def _wait(
    process: subprocess.Popen[bytes], until: float | None, stopped: Callable[[], bool]
) -> int | None:
    """Its exit status; None where the time was over."""
    while (status := process.poll()) is None:
        if stopped():
            raise KeyboardInterrupt
        if until is not None and time.monotonic() >= until:
            return None
        time.sleep(_POLL)
    return status


def _how(status: int) -> str:
    return processes.signal_name(-status) if status < 0 else f"exit status {status}"


def _last(log: Path) -> str:
    """The end of its output."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(log.stat().st_size - _READ, 0))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()][-_SHOWN:]
    return ": " + " | ".join(lines) if lines else ""
