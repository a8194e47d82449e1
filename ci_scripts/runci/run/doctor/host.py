"""The edge to the host: its kernel's log, its disks and limits, its processes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runci.read.cache import default_folder
from runci.run.doctor.facts import Disk, KernelLog, Running, Xid
from runci.run.doctor.rules import abandoned
from runci.run.leftovers import SHM

_KMSG = Path("/dev/kmsg")
# The driver's line, https://docs.nvidia.com/deploy/xid-errors
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+),?\s*(.*)")
_PATIENCE = 2.0  # seconds for the journal
_FOLDER = re.compile(r"/runci-[^/]+(/|$)")  # of a job's temporary files


def kernel_log() -> KernelLog:
    """The driver's errors since boot: from the kernel, else from the journal."""
    try:
        return KernelLog(xids_of(_kmsg()))
    except OSError as error:
        why = f"{_KMSG}: {error.strerror}"
    # Whom the journal shows nothing it shows no line at all.
    command = ["journalctl", "-k", "-b", "-q", "-o", "short-unix", "--no-pager"]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return KernelLog(unreadable=f"{why}; journalctl: {error}")
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode or not lines:
        return KernelLog(unreadable=f"{why}; the journal shows this account nothing")
    return KernelLog(xids_of(_journal(lines)))


def xids_of(lines: Iterable[tuple[float, str]]) -> tuple[Xid, ...]:
    """The driver's errors among lines with their Unix times; pure."""
    found = ((at, _XID.search(text)) for at, text in lines)
    return tuple(
        Xid(match[1], int(match[2]), f"Xid {match[2]}, {match[3]}".rstrip(", ")[:200], at)
        for at, match in found
        if match
    )


def _kmsg() -> Iterator[tuple[float, str]]:
    """The kernel's records, which count microseconds since boot."""
    boot = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    handle = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(handle, 8192)
            except BlockingIOError:  # that was the last one
                return
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            head, _, text = record.decode("utf-8", "replace").partition(";")
            yield boot + int(head.split(",")[2]) / 1e6, text.split("\n")[0]
    finally:
        os.close(handle)


def _journal(lines: Iterable[str]) -> Iterator[tuple[float, str]]:
    for line in lines:
        at, _, text = line.partition(" ")
        with contextlib.suppress(ValueError):
            yield float(at), text


def disks(results: Path) -> tuple[Disk, ...]:
    """The places that tests write to; those of one file system once."""
    places = {
        "results": results,
        "temporary files": Path(tempfile.gettempdir()),
        "cache": default_folder(),
    }
    found: dict[int, Disk] = {}
    for what, path in places.items():
        there = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
        with contextlib.suppress(OSError):
            found.setdefault(there.stat().st_dev, room(what, there))
    return tuple(found.values())


def shared_memory() -> Disk | None:
    """Where processes share memory, if there is such a place."""
    return room("shared memory", SHM) if SHM.is_dir() else None


def room(what: str, path: Path) -> Disk:
    """What is free there, for whoever is not root."""
    asked = os.statvfs(path)
    inodes = asked.f_favail if asked.f_files else None
    unit = asked.f_frsize / (1 << 20)
    return Disk(what, str(path), asked.f_blocks * unit, asked.f_bavail * unit, inodes)


def open_files() -> int | None:
    """How many files a process may have open; None where that is not limited."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def lasting(ask: Callable[[], Iterable[Running]], pause: float = 1.0) -> tuple[Running, ...]:
    """All processes; asked again where some seem left, which may be about to end."""
    found = tuple(ask())
    if abandoned(found):
        time.sleep(pause)
        found = tuple(ask())
    return found


def running() -> Iterator[Running]:
    """All processes that can be seen; of others' only the command line tells whose they are."""
    import psutil

    asked = ["pid", "ppid", "username", "name", "cmdline", "environ", "status"]
    for info in (one.info for one in psutil.process_iter(asked)):
        folder = (info["environ"] or {}).get("TMPDIR", "")
        ours = bool(_FOLDER.search(folder)) or "runci.run.server" in (info["cmdline"] or ())
        who = info["username"] or "unknown"
        if info["status"] != psutil.STATUS_ZOMBIE:
            yield Running(info["pid"], info["ppid"] or 0, who, info["name"] or "unknown", ours)
