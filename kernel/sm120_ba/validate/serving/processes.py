"""A server's processes: started without a shell, and all found again to be ended."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import psutil

MARKER = "SM120_BA_VALIDATE_BOOT"
HOST = "127.0.0.1"
_PORTS = range(15_000, 32_000)  # below those that the system gives to clients
KILLED_WITHIN_S = 10.0  # SIGKILL takes effect at once, but for a process that waits for a device


def environment(
    inherited: Mapping[str, str], own: Mapping[str, str], variable: str, mark: str
) -> dict[str, str]:
    """What a server starts with; `variable` is not inherited, so that an arm may leave it unset."""
    kept = {name: value for name, value in inherited.items() if name != variable}
    return {**kept, **own, MARKER: mark}


def free_port() -> int:
    """A port that nobody listens on now, as the one 10,000 above it, which SGLang opens too.

    Raises OSError where none is found.
    """
    for port in random.sample(_PORTS, 100):
        if is_free(port) and is_free(port + 10_000):
            return port
    raise OSError(f"no port from {_PORTS[0]} to {_PORTS[-1]} is free on {HOST}")


def is_free(port: int) -> bool:
    """Whether a server could listen on that port now, on this address or on all."""
    for address in (HOST, ""):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def tree(mark: str, root: int | None = None) -> set[psutil.Process]:
    """The live processes of a server, also those that left its session or changed their parent.

    Found by the marker in their environment, as children of `root`, and by its session: a process
    that writes its title over its environment (setproctitle) has lost the marker.
    """
    found = {one for one in psutil.process_iter() if _belongs(one, mark, root)}
    if root is not None:
        with suppress(psutil.NoSuchProcess):
            found |= set(psutil.Process(root).children(recursive=True))
    return {one for one in found if is_alive(one)}


def is_alive(process: psutil.Process | int) -> bool:
    """Whether it, or whatever has that pid, runs; a zombie does not.

    Of a `Process`, another process that has its number now is another.
    """
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(find: Callable[[], Iterable[psutil.Process]], grace_s: float) -> tuple[list[str], int]:
    """End what `find` finds, and what that starts meanwhile: SIGTERM, `grace_s`, then SIGKILL.

    Gives what SIGKILL was needed for, and how many live on even so.
    """
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + grace_s
    while live := set(find()):
        for process in live - asked:
            _signal(process, psutil.Process.terminate)
        asked |= live
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    killed: dict[psutil.Process, str] = {}
    deadline = time.monotonic() + KILLED_WITHIN_S
    while (live := set(find())) and time.monotonic() < deadline:
        for process in live:
            killed.setdefault(process, _shown(process))
            _signal(process, psutil.Process.kill)
        time.sleep(0.05)
    return sorted(killed.values()), len(live)


def _belongs(process: psutil.Process, mark: str, root: int | None) -> bool:
    try:
        if root is not None and os.getsid(process.pid) == root:
            return True
        # A name must end where the mark does: A1 is not A10.
        return (process.environ().get(MARKER, "") + "/").startswith(mark + "/")
    except (psutil.Error, OSError):
        return False


def _signal(process: psutil.Process, send: Callable[[psutil.Process], None]) -> None:
    with suppress(psutil.NoSuchProcess):
        send(process)


def _shown(process: psutil.Process) -> str:
    try:
        return f"{process.name()} (pid {process.pid})"
    except psutil.NoSuchProcess:
        return f"pid {process.pid}"
