"""Which files are checked, and their bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.git import list_files
from runci.paths import walk

MAX_BYTES = 512 * 1024 * 1024
"""git takes larger files for binary (`core.bigFileThreshold`)."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths relative to the root, in one order on every machine; `git`: whether git gave them."""

    paths: tuple[str, ...]
    git: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """The bytes of a file, and what it looked like to the file system when they were read."""

    data: bytes
    stamp: tuple[int, int]


def list_below(root: Path, below: Sequence[str]) -> Listing:
    """The files to check that are, or lie below, some paths; without any all files."""
    listed = list_files(root, below)
    if listed is None:
        return Listing(tuple(walk(root, below or [""])), git=False)
    # A file named outright is checked although git ignores it.
    ignored = {path for path in below if _is_file(root / path)} - set(listed)
    every = sorted({*listed, *ignored}, key=os.fsencode) if ignored else listed
    return Listing(tuple(every), git=True)


def read(root: Path, path: str) -> Contents | str | None:
    """The bytes of a file, or why they cannot be had; None for links and other special files."""
    full = f"{os.fspath(root)}/{path}"
    try:
        before = os.lstat(full)
        if stat.S_ISDIR(before.st_mode):
            os.scandir(full).close()  # says why it could not be listed
        if not stat.S_ISREG(before.st_mode):
            return None
        if before.st_size > MAX_BYTES:
            return f"{before.st_size:,} bytes: larger than {MAX_BYTES:,}, as git takes for binary"
        with open(full, "rb") as stream:  # noqa: PTH123  a Path for each file costs time
            return Contents(stream.read(), _stamp(before))
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def unchanged(root: Path, path: str, contents: Contents) -> bool:
    """Whether the file still looks as it did when it was read."""
    try:
        return _stamp((root / path).lstat()) == contents.stamp
    except OSError:
        return False


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
