"""The process between the fork server and a job: it lets nothing that the job started survive.

It adopts the job's orphans, passes on an order to stop (SIGTERM, then SIGKILL for all), and says
how the job ended. It kills everything when the parent is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from runci.run import leftovers, processes

TERMINATE, KILL = b"t", b"k"
# Helpers of multiprocessing end by themselves when their parent has: no reason to name them.
_LEAVE = 0.5


def keep(
    control: socket.socket, job: Callable[[Mapping[str, Any]], int], held: tuple[int, ...]
) -> None:
    """Run one job in a child of its own and report its end on `control`.

    In the child it raises SystemExit, for whoever called to end as an interpreter does: a thread
    that still runs, an exit handler, a destructor may end it otherwise than its tests did. Where
    there can be no child it says why. The job's description is the first line there. `held` are
    descriptors that only the job uses.
    """
    spec = _first_line(control)
    if spec is None:
        return
    processes.become_subreaper()
    before = leftovers.present()
    temporary = Path(spec["temporary"]) if spec["temporary"] else None
    began = time.monotonic()
    try:
        if temporary is not None:
            temporary.mkdir(leftovers.PASSED, parents=True, exist_ok=True)
        pid = os.fork()
    except OSError as error:  # a full disk, too many processes
        from runci.run.raised import chain  # the server has it; who starts one needs it not

        _say(control, {"fault": chain(error)})
        return
    if pid == 0:
        control.close()
        os.setsid()
        _run(job, spec)
    for descriptor in held:
        os.close(descriptor)
    _say(control, {"started": [os.getpid(), pid]})
    status, told = _wait(control, pid, float(spec["grace"]))
    seconds = time.monotonic() - began
    left = [] if told else processes.wait_gone(_LEAVE)
    named = [processes.describe(one) for one in left]
    stuck = [processes.describe(one) for one in processes.kill_all()]
    ended = {"ended": status, "seconds": seconds, "rss": _peak(), "left": named, "stuck": stuck}
    removed, shared = leftovers.clear(before, {pid, *left, *told})
    gone, stays = leftovers.temporary(temporary) if temporary is not None else ([], [])
    heard = _say(control, {**ended, "removed": [*removed, *gone], "shared": shared, "stays": stays})
    if temporary is not None and not heard:  # the parent, whose folder it is in, is gone
        with contextlib.suppress(OSError):
            temporary.parent.rmdir()


def _run(job: Callable[[Mapping[str, Any]], int], spec: Mapping[str, Any]) -> NoReturn:
    try:
        code = job(spec)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001  the child must end here, whatever happens
        import traceback

        traceback.print_exc()
        code = 70
    raise SystemExit(code)


def _wait(control: socket.socket, pid: int, grace: float) -> tuple[int, set[int]]:
    """The job's wait status, and the processes that were told to end; none: it was not stopped."""
    watch = selectors.DefaultSelector()
    watch.register(control, selectors.EVENT_READ)
    handle = _watch_exit(watch, pid)
    told: set[int] = set()
    kill_at = float("inf")
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        wait = min(kill_at - time.monotonic(), 60.0 if handle is not None else 0.02)
        for key, _ in watch.select(max(wait, 0)):
            if key.fileobj is not control:
                continue
            order = control.recv(1)
            told.add(pid)
            if order == TERMINATE:
                told |= _send_all(pid, signal.SIGTERM)
                _send_all(pid, signal.SIGCONT)  # who stands still hears of it only then
                kill_at = time.monotonic() + grace
            else:
                kill_at = time.monotonic()
            if not order:  # the parent is gone
                watch.unregister(control)
        if time.monotonic() >= kill_at:
            told |= _send_all(pid, signal.SIGKILL)
            kill_at = time.monotonic() + 1.0
    if handle is not None:
        os.close(handle)
    return status, told


def _watch_exit(watch: selectors.BaseSelector, pid: int) -> int | None:
    """A descriptor that wakes when the process ends, where the system has such a thing."""
    if sys.platform != "linux":
        return None
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    watch.register(handle, selectors.EVENT_READ)
    return handle


def _send_all(group: int, number: int) -> set[int]:
    before = processes.living_descendants()
    processes.send_group(group, number)
    processes.send(processes.living_descendants(), number)
    return set(before)


def _peak() -> float:
    """MiB of the largest process of the job."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _first_line(control: socket.socket) -> Mapping[str, Any] | None:
    line = b""
    while not line.endswith(b"\n"):
        read = control.recv(65536)
        if not read:
            return None
        line += read
    spec: Mapping[str, Any] = json.loads(line)
    return spec


def _say(control: socket.socket, what: Mapping[str, Any]) -> bool:
    """Whether the parent is there to hear it."""
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(what).encode() + b"\n")
        return True
    return False
