"""Writes files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from runci.errors import RunciError


def replace_file(path: Path, data: bytes, durable: bool = True) -> None:
    """Replace a file's contents in one step, keeping its mode; a link stays a link.

    `durable`: wait until the disk has it, so that a crash of the machine leaves old or new.

    Raises RunciError, with nothing changed, where the folder cannot be written.
    """
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


def _default_mode(name: str) -> None:
    """What the umask would have given: a temporary file is private."""
    mask = os.umask(0)
    os.umask(mask)
    Path(name).chmod(0o666 & ~mask)
