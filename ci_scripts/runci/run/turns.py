"""Who waits for the GPUs of this host, in the order in which they came.

Each who waits holds a locked file in the folder of the locks. Its name says since when, its content
which GPUs it would take; the lock ends with its process, so nobody waits for one that is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Collection
from pathlib import Path

_STALE = 60.0  # seconds after which the file of a process that is gone is removed


class Turn:
    """A place in the line for these GPUs (UUIDs); a context. Raises OSError where it has none."""

    def __init__(self, folder: Path, gpus: Collection[str]) -> None:
        self._path = folder / f"{time.time_ns():020}-{os.getpid()}-{id(self)}.turn"
        self._gpus = frozenset(gpus)

    def __enter__(self) -> Turn:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.write(self._file, json.dumps(sorted(self._gpus)).encode())
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._file)

    def ahead(self) -> int:
        """How many came before this one and wait for one of the same GPUs."""
        earlier = [p for p in self._path.parent.glob("*.turn") if p.name < self._path.name]
        return sum(bool(_waits(path) & self._gpus) for path in earlier)


def _waits(path: Path) -> frozenset[str]:
    """The GPUs that a process waits for; none where it is gone."""
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if time.time() - path.stat().st_mtime > _STALE:
                path.unlink()
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            return frozenset(json.loads(path.read_bytes()))
    except OSError:
        pass
    return frozenset()
