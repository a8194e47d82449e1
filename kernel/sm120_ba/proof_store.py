"""Proofs on disk, so that a server's next start need not prove again what it did before.

One JSON file for each set of keys, under a name that is their hash. A file is written beside its
place and moved there; one lock a file lets the processes of one GPU prove one after the other. The
folder must be the user's own and closed to others, since whoever writes there decides about bits.
Importing this module needs no torch.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

FOLDER_VARIABLE = "SM120_BA_CACHE_DIR"
SCHEMA = 1
LOCK_SECONDS = 120  # to wait for another process that proves the same; then it is proved again

Rows = dict[int, dict[str, Any]]
Keys = Mapping[str, Any]


def default_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """SM120_BA_CACHE_DIR, or `sm120_ba` in the user's cache; None for an empty one, and no home."""
    if FOLDER_VARIABLE in environ:
        given = environ[FOLDER_VARIABLE]
        return Path(given) if given else None
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "sm120_ba"
    try:
        return Path.home() / ".cache" / "sm120_ba"
    except RuntimeError:  # a container's user without a home
        return None


def name_of(keys: Keys) -> str:
    """The hash of the keys, which is the file's name."""
    return sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()


class Store:
    """Proofs in one folder; with None, or a folder that cannot be used, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @contextmanager
    def locked(self, keys: Keys) -> Iterator[Path | None]:
        """The file of `keys`, held against other processes; None where nothing can be kept."""
        from filelock import FileLock, Timeout

        path = self._path(keys)
        if path is None:
            yield None
            return
        lock = FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS)
        try:
            lock.acquire()
        except (Timeout, OSError, NotImplementedError) as error:  # the last: no locks there
            logger.warning("sm120_ba: proofs are not kept: %s", error)
            yield None
            return
        try:
            yield path
        finally:
            lock.release()

    def _path(self, keys: Keys) -> Path | None:
        if self.folder is None:
            return None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.folder.stat()
        except OSError as error:
            logger.warning("sm120_ba: proofs are not kept: %s", error)
            return None
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            logger.warning(
                "sm120_ba: proofs are not kept in %s, which others may read or write: "
                "chmod 700 it, or set %s to a folder of your own",
                self.folder,
                FOLDER_VARIABLE,
            )
            return None
        return self.folder / f"{name_of(keys)}.json"


def read(path: Path, keys: Keys) -> Rows:
    """The rows that a file holds for exactly these keys; none from a file that does not."""
    try:
        data = json.loads(path.read_bytes())
        if data["schema"] != SCHEMA or data["keys"] != dict(keys):
            return {}
        return {int(m): dict(row) for m, row in data["rows"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write(path: Path, keys: Keys, rows: Rows) -> None:
    """Replace the file in one step; on failure says so, and the old one stays."""
    data = {"schema": SCHEMA, "keys": dict(keys), "rows": {str(m): rows[m] for m in sorted(rows)}}
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(data, file, indent=1)
        Path(file.name).replace(path)
    except OSError as error:
        logger.warning("sm120_ba: a proof is not kept: %s", error)
