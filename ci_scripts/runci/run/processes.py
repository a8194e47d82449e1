"""Processes on Linux and macOS: who descends from whom, and an end for all of them.

On Linux a subreaper adopts every descendant whose parent has gone, a double-forked daemon too, so
nothing that a test starts can leave the tree. Elsewhere such daemons escape; groups do not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence

_PR_SET_CHILD_SUBREAPER = 36
_POLL = 0.02
MARKER = "RUNCI_JOB"  # a variable that names the job which a process belongs to
# Asks for stacks. Its default is to do nothing, so it harms nobody who lost our handler meanwhile.
ASK = signal.SIGURG if sys.platform != "win32" else 0


def become_subreaper(on: bool = True) -> bool:
    """Adopt orphaned descendants from now on; False where the system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)) == 0


def living_descendants(keep: Iterable[int] = ()) -> list[int]:
    """All descendants of this process that still run, without `keep` and what is below them."""
    import psutil

    left_out = set(keep)
    found: list[int] = []
    # In the order of birth a parent comes before its children.
    for child in sorted(psutil.Process().children(recursive=True), key=lambda p: p.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.pid in left_out or child.ppid() in left_out:
                left_out.add(child.pid)
            elif child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return [pid for pid in found if pid not in left_out]


def describe(pid: int) -> str:
    """«pid 123 (python server.py)», for a person."""
    import psutil

    try:
        process = psutil.Process(pid)
        name, words = process.name(), process.cmdline()
    except psutil.Error:
        return f"pid {pid}"
    if not words or "runci.run.server" in words:
        return f"pid {pid} (a fork of {name})"
    line = " ".join([os.path.basename(words[0]), *words[1:]])  # noqa: PTH119
    return f"pid {pid} ({' '.join(line.split())[:80]})"


def name_this(name: str) -> None:
    """Name this process, and its forks, for `describe` and `top`."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as stream:  # noqa: PTH123
            stream.write(os.fsencode(name)[:15])


def outlive_requests() -> None:
    """Let SIGUSR1, which asks `runci run` what it does, end nobody whom it was not meant for."""
    if hasattr(signal, "SIGUSR1"):
        # A handler, since a signal that is ignored stays so in every program that is started.
        signal.signal(signal.SIGUSR1, lambda *_: None)


def send(pids: Iterable[int], number: int) -> None:
    """Signal processes; those that are gone are no fault."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_group(group: int, number: int) -> None:
    """Signal a whole process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reap(keep: Iterable[int] = ()) -> bool:
    """Collect the status of every child that has ended, but of `keep`; whether any are left."""
    import psutil

    kept = set(keep)
    if not kept:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True
    others = [child.pid for child in psutil.Process().children() if child.pid not in kept]
    for pid in others:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return bool(others)


def wait_gone(patience: float) -> list[int]:
    """Wait for all descendants to end by themselves; those that still run after `patience` s."""
    until = time.monotonic() + patience
    while True:
        living = living_descendants() if reap() else []
        if not living or time.monotonic() >= until:
            return living
        time.sleep(_POLL)


def kill_all(patience: float = 10.0, keep: Sequence[int] = ()) -> list[int]:
    """SIGKILL every descendant, those born meanwhile too; the ones that cannot be ended."""
    until = time.monotonic() + patience
    while reap(keep):
        living = living_descendants(keep)
        # Stopped first, so that none forks while the others are being killed.
        send(living, signal.SIGSTOP)
        send(living, signal.SIGKILL)
        if time.monotonic() >= until:
            return living
        time.sleep(_POLL if living else _POLL / 10)
    return []


def kernel_kills() -> int | None:
    """How many processes of our control group the kernel has ended for memory, where known."""
    with contextlib.suppress(OSError):
        with open("/proc/self/cgroup", encoding="utf-8") as stream:  # noqa: PTH123
            groups = [line.strip().split(":", 2) for line in stream]
        for path in memory_files(groups):
            with (
                contextlib.suppress(OSError, ValueError, KeyError),
                open(path, encoding="utf-8") as stream,  # noqa: PTH123
            ):
                return int(dict(line.split() for line in stream)["oom_kill"])
    return None


def memory_files(groups: Iterable[Sequence[str]]) -> list[str]:
    """Where the kernel counts that, by the lines of /proc/self/cgroup, of version 2 or 1; pure."""
    found = []
    for number, controllers, group in groups:
        if number == "0":
            found.append(f"/sys/fs/cgroup{group}/memory.events")
        elif "memory" in controllers.split(","):
            found.append(f"/sys/fs/cgroup/memory{group}/memory.oom_control")
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all below it, those that have ended included."""
    import psutil

    total = 0.0
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
    return total


def signal_name(number: int) -> str:
    """«SIGSEGV», or «signal 35» for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
