"""GPUs that several jobs of one host share: a file lock each, freed by the kernel with its holder.

All or nothing: who wants two GPUs and finds one takes none, so that no two jobs wait for each
other for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from runci.errors import RunciError
from runci.run.gpu import Gpu

if TYPE_CHECKING:
    from filelock import BaseFileLock

FOLDER_VARIABLE = "RUNCI_LOCKS"
_POLL = 0.5


def lock_folder() -> Path:
    """Where the locks of this host stand; every job on it must see the same folder."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path(tempfile.gettempdir()) / "runci-locks"


def visible(gpus: Sequence[Gpu], variable: str | None) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, by index or UUID, in its order; pure.

    As the driver does, the list ends at the first entry that names no GPU.
    """
    if variable is None:
        return list(gpus)
    found: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in variable.split(","))):
        match = [gpu for gpu in gpus if entry == str(gpu.index) or gpu.uuid.startswith(f"{entry}")]
        if len(match) != 1 or match[0] in found:
            break
        found += match
    return found


class Lease:
    """Holds `count` GPUs; a context. Raises RunciError where there are fewer, or after `patience`.

    `waiting` is told once who holds the others. Raises KeyboardInterrupt once `stopped` says so.
    `longer` is the remedy in the message of the latter.
    """

    def __init__(
        self,
        gpus: Sequence[Gpu],
        count: int,
        *,
        patience: float,
        folder: Path | None = None,
        waiting: Callable[[str], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
        longer: str = "wait longer with --lease-timeout",
    ) -> None:
        self._candidates, self._count, self._patience = gpus, count, patience
        self._folder, self._waiting = folder or lock_folder(), waiting
        self._stopped, self._longer = stopped, longer
        self._locks: list[BaseFileLock] = []
        self.gpus: list[Gpu] = []

    def __enter__(self) -> Lease:
        if len(self._candidates) < self._count:
            raise RunciError(
                f"{self._count} GPUs are needed and {len(self._candidates)} are visible here "
                "(CUDA_VISIBLE_DEVICES?): run this suite on a machine that has them"
            )
        self._make_folder()
        until = time.monotonic() + self._patience
        told = False
        while not self._take():
            if time.monotonic() >= until:
                raise RunciError(
                    f"no GPU was free within {self._patience:g} s: {self._holders()}; "
                    f"{self._longer}"
                )
            if not told:
                self._waiting(f"waiting for a GPU: {self._holders()}")
                told = True
            if self._stopped():
                raise KeyboardInterrupt
            time.sleep(_POLL * (1 + random.random()))  # noqa: S311  so that two do not collide
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release()

    def _take(self) -> bool:
        from filelock import FileLock, Timeout

        for gpu in self._candidates:
            lock = FileLock(self._path(gpu, "lock"), timeout=0, mode=0o666)
            try:
                lock.acquire()
            except Timeout:
                continue
            except OSError as error:
                raise RunciError(f"{lock.lock_file}: cannot lock: {error.strerror}") from error
            self._locks.append(lock)
            self.gpus.append(gpu)
            if len(self.gpus) == self._count:
                self._sign()
                return True
        self._release()
        return False

    def _release(self) -> None:
        for gpu, lock in zip(self.gpus, self._locks, strict=True):
            with contextlib.suppress(OSError):
                self._path(gpu, "holder").unlink()
            lock.release()
        self._locks, self.gpus = [], []

    def _sign(self) -> None:
        """Write who holds the locks, for those who wait; only the locks themselves count."""
        said = json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd())})
        for gpu in self.gpus:
            with contextlib.suppress(OSError):
                self._path(gpu, "holder").write_text(said, encoding="utf-8")

    def _holders(self) -> str:
        found = []
        for gpu in self._candidates:
            with contextlib.suppress(OSError, ValueError, KeyError):
                said = json.loads(self._path(gpu, "holder").read_bytes())
                found.append(f"GPU {gpu.index} by process {said['pid']} in {said['cwd']}")
        return "held: " + ("; ".join(found) or "by processes that left no name")

    def _path(self, gpu: Gpu, kind: str) -> Path:
        return self._folder / f"{gpu.uuid}.{kind}"

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                self._folder.chmod(0o1777)  # jobs of other users lock here too
        except OSError as error:
            raise RunciError(
                f"{self._folder}: cannot be made: {error.strerror}: set {FOLDER_VARIABLE} to a "
                "folder that all jobs of this host share"
            ) from error
