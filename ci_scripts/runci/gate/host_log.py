"""The log of a GPU host and its folder, which a job could clear, replace or block.

A job runs as the account that writes them. What keeps it off is the file system's append-only
attribute (`chattr +a`), which only root sets and takes away: names in such a folder can be added
and not removed, bytes of such a file added and not changed.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from runci.core.errors import RunciError

FOLDER = "state"
LOG = "decisions.log"

# linux/fs.h; the same on x86-64 and arm64, and an unknown request elsewhere.
_GET_FLAGS = 0x80086601
_APPEND = 0x20
_NO_FLAGS = (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Place:
    """What is open at `path`. `append_only` is None where the file system knows no such thing."""

    path: str
    mode: int
    append_only: bool | None


def fault(place: Place, *, folder: bool, append_only: bool) -> str | None:
    """Why this cannot serve as the log, or as its folder; None where it can."""
    right = stat.S_ISDIR if folder else stat.S_ISREG
    if not right(place.mode):
        return f"{place.path} is no {'folder' if folder else 'regular file'}: see docs/host.md"
    if not append_only or place.append_only:
        return None
    if place.append_only is None:
        return (
            f"the file system of {place.path} knows no append-only: move it to one that does, or "
            "write `append_only: false` into host.yml, with what docs/host.md says of that"
        )
    return f"{place.path} is not append-only: as root, chattr +a {place.path}"


def check(folder: Path, *, append_only: bool) -> None:
    """Raise RunciError where a job could clear the log in this folder, or a name beside it."""
    for path, is_folder in ((folder, True), (folder / LOG, False)):
        handle = _open(path, os.O_RDONLY if is_folder else os.O_WRONLY | os.O_APPEND)
        try:
            found = Place(str(path), os.fstat(handle).st_mode, _append_only(handle))
        finally:
            os.close(handle)
        wrong = fault(found, folder=is_folder, append_only=append_only)
        if wrong:
            raise RunciError(wrong)


def append(folder: Path, line: str) -> None:
    """Add a line to the log, which must be there. Raises RunciError where that cannot be done."""
    path = folder / LOG
    handle = _open(path, os.O_WRONLY | os.O_APPEND)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RunciError(f"{path} is no regular file: see docs/host.md")
        data = line.encode(errors="backslashreplace")
        if os.write(handle, data) != len(data):
            raise RunciError(f"{path}: cannot write the whole line: is the disk full?")
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error
    finally:
        os.close(handle)


def _open(path: Path, flags: int) -> int:
    """Open without waiting for a pipe's other end, and no link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        kind = "log" if flags & os.O_APPEND else "folder"
        raise RunciError(
            f"{path}: cannot open the {kind}, which stands ready since the set-up (docs/host.md, "
            f"step 3): {error.strerror}"
        ) from error


def _append_only(handle: int) -> bool | None:
    import fcntl  # there is none on Windows, where the rest of runci works

    try:
        flags = struct.unpack("=i4x", fcntl.ioctl(handle, _GET_FLAGS, bytes(8)))[0]
    except OSError as error:
        if error.errno in _NO_FLAGS:
            return None
        raise RunciError(f"cannot read the attributes: {error.strerror}") from error
    return bool(flags & _APPEND)
