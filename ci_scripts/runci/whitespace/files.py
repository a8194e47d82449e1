"""Which files are checked, and their bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.errors import RunciError
from runci.git import is_below, list_files

# What a walk never enters: git would ignore it in nearly every repository.
_NEVER = frozenset(
    {".git", ".hg", ".svn", ".nox", ".tox", ".venv", "__pycache__", "node_modules", "venv"}
)

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
    """The files to check; `below` as `relative` gives it, nothing for all."""
    listed = list_files(root, below)
    if listed is None:
        return Listing(tuple(_in_order(_walk(root, frozenset(below) - {"."}))), git=False)
    # A file named outright is checked although git ignores it.
    ignored = {path for path in below if _is_file(root / path)} - set(listed)
    return Listing(tuple(_in_order({*listed, *ignored})) if ignored else tuple(listed), git=True)


def relative(root: Path, argument: str) -> str:
    """A path of the command line, relative to the root, with forward slashes; `.` for the root.

    Raises RunciError where it is missing or outside the root.
    """
    if "\0" in argument or not os.path.lexists(argument):
        raise RunciError(f"{argument}: no such file or folder")
    given = Path(os.path.normpath(Path.cwd() / argument))
    base = Path(os.path.normpath(Path.cwd() / root))
    if given.is_relative_to(base):
        return given.relative_to(base).as_posix()
    # One of the two may be spelled through a link, as /tmp is on macOS. The folder of the path is
    # resolved first: a link below the root is itself, not what it points to.
    base = base.resolve()
    for path in (given.parent.resolve() / given.name, given.resolve()):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    raise RunciError(f"{argument}: outside the root {root.as_posix()}: pass a path below it")


def read(root: Path, path: str) -> Contents | str | None:
    """The bytes of a file, or why they cannot be had; None for links and other special files."""
    full = f"{os.fspath(root)}/{path}"
    try:
        before = os.lstat(full)
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


def _walk(root: Path, below: frozenset[str]) -> Iterator[str]:
    for folder, folders, names in os.walk(root, onerror=_refuse):
        folders[:] = [name for name in folders if name not in _NEVER]
        prefix = Path(folder).relative_to(root).as_posix()
        for name in names:
            path = name if prefix == "." else f"{prefix}/{name}"
            if not below or is_below(path, below):
                yield path


def _refuse(error: OSError) -> None:
    raise RunciError(f"{error.filename}: cannot be listed: {error.strerror}") from error


def _in_order(paths: Iterator[str] | set[str]) -> list[str]:
    return sorted(paths, key=os.fsencode)
