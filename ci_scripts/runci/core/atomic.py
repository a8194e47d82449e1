"""Writes files whole or not at all, and holds folders against others."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runci.core.errors import RunciError


def replace_file(path: Path, data: bytes, durable: bool = True) -> None:
    """Replace a file's contents in one step, keeping its mode; a link stays a link.

    What is no file, such as /dev/null or a pipe, is written to and stays what it is.

    `durable`: wait until the disk has it, so that a crash of the machine leaves old or new.

    Raises RunciError, with nothing changed, where the folder cannot be written.
    """
    if _is_special(path):
        _write_to(path, data)
        return
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, name)
        else:
            _default_mode(name)
        os.replace(name, target)  # noqa: PTH105
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a folder, alone or with others that share it, until the end or the process's death.

    Where there is no such folder, or the system can lock none, nothing is held.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a network's file system may have no locks
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_special(path: Path) -> bool:
    """Whether this is there and neither file nor folder: a device, a pipe, a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_to(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error


def _default_mode(name: str) -> None:
    """What the umask would have given: a temporary file is private."""
    mask = os.umask(0)
    os.umask(mask)
    Path(name).chmod(0o666 & ~mask)
