"""Shared memory that outlives its processes: files in /dev/shm and System V segments; Linux."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108  the place itself, nothing is made there
SEGMENTS = Path("/proc/sysvipc/shm")
MOST = 20  # names that are told


def present(folder: Path = SHM, segments: Path = SEGMENTS) -> frozenset[str]:
    """What of this user's shared memory is there, by the names under which it is told."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    found.add(f"{folder}/{entry.name}")
    with contextlib.suppress(OSError):
        found |= segments_of(segments.read_text(encoding="ascii"), os.getuid())
    return frozenset(found)


def segments_of(table: str, user: int) -> set[str]:
    """The segments in the kernel's table that this user made and nobody is attached to; pure."""
    head, *rows = [line.split() for line in table.splitlines()] or [[]]
    entries = [dict(zip(head, row, strict=False)) for row in rows]
    mine = [e for e in entries if e.get("cuid") == str(user) and e.get("nattch") == "0"]
    return {f"System V segment {entry['shmid']}" for entry in mine}


def left(before: Collection[str]) -> list[str]:
    """What came since `before` and no process uses: a few names, and how many more."""
    new = sorted(present() - set(before))
    used = _used() if new else set()
    names = [name for name in new if name not in used]
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return [*names[:MOST], *more]


def _used() -> set[str]:
    """Files of /dev/shm that a process has open or mapped, as far as this one may look."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_bytes().splitlines()
            found |= {os.fsdecode(b"/" + line.partition(b"/")[2]) for line in lines if b"/" in line}
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(descriptor.readlink()))
    return found
