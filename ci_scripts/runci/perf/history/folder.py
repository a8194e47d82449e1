"""A history in a folder: its files, and one process at a time that appends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runci.errors import RunciError


def folder_contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but git's own. Raises RunciError where one cannot be read."""
    if not folder.is_dir():
        raise RunciError(f"{folder.as_posix()}: no such folder: --history names a checkout")

    def stop(error: OSError) -> None:
        raise RunciError(f"{error.filename}: cannot read the folder: {error.strerror}") from error

    files = {}
    for parent, below, names in os.walk(folder, onerror=stop):
        below[:] = [name for name in below if name != ".git"]
        for name in names:
            path = Path(parent, name)
            if path == folder / ".git":  # of a linked work tree
                continue
            try:
                files[path.relative_to(folder).as_posix()] = path.read_bytes()
            except OSError as error:
                raise RunciError(f"{path.as_posix()}: cannot read: {error.strerror}") from error
    return files


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder against others that append; where the system can lock none, do without."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # reading the folder says what is wrong with it
        yield
        return
    try:
        with suppress(OSError):  # a network's file system may have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
