"""Paths of a repository and of the command line, all below some folders, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from runci.core.errors import RunciError
from runci.core.inputs import given, given_below

# Folders that a walk never enters: what git would ignore in nearly every repository.
_NEVER = frozenset(
    {".git", ".hg", ".svn", ".nox", ".tox", ".venv", "__pycache__", "node_modules", "venv"}
)


def relative(root: Path, argument: str, cwd: Path) -> str:
    """A path of the command line, relative to the root, with forward slashes; «» for the root.

    Raises RunciError where it is missing or outside the root.
    """
    there = "\0" not in argument and os.path.lexists(cwd / argument)
    if not argument or not (there or given(os.fspath(cwd / argument)) is not None):
        raise RunciError(f"{argument}: no such file or folder")
    full, base = (Path(os.path.normpath(path)) for path in (cwd / argument, root.absolute()))
    # One of the two may be spelled through a link, as /tmp is on macOS. The folder of the path is
    # resolved first: a link below the root is itself, not what it points to.
    # Not Path.resolve, which raises where links go in a circle.
    folder, real, real_base = map(os.path.realpath, (full.parent, full, base))
    for candidate, top in (
        (full, base),
        (Path(folder, full.name), Path(real_base)),
        (Path(real), Path(real_base)),
    ):
        if candidate == top:
            return ""
        if candidate.is_relative_to(top):
            return candidate.relative_to(top).as_posix()
    raise RunciError(
        f"{argument}: outside the root {root.as_posix()}: pass a path below it, or --root"
    )


def linked_below(root: Path, path: Path) -> tuple[str, bool] | None:
    """A path from the root, and whether it is, or leads through, a link; None outside the root."""
    full, base = (os.path.normpath(one.absolute()) for one in (path, root))
    if not Path(full).is_relative_to(base):
        return None
    name = Path(full).relative_to(base).as_posix()
    return name, os.path.realpath(full) != os.path.join(os.path.realpath(base), name)  # noqa: PTH118


def walk(root: Path, below: Iterable[str]) -> list[str]:
    """All files that are, or lie below, some paths («» or «.»: all), in one order everywhere.

    Links to folders are not followed. A folder that cannot be listed stands among the files.
    """
    found: set[str] = set()  # paths may lie in each other
    pending = ["" if name == "." else name.strip("/") for name in below]
    while pending:
        folder = pending.pop()
        if not (root / folder).is_dir() or (root / folder).is_symlink():
            found.add(folder)
            continue
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            found.add(folder)
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir(follow_symlinks=False):
                found.add(path)
            elif entry.name not in _NEVER:
                pending.append(path)
    names = frozenset(name.strip("/") for name in below)
    found.update(path for path in given_below(root) if is_below(path, names))
    return sorted(found, key=os.fsencode)


def path_bytes(text: str) -> bytes:
    """A path's text as bytes, whatever its encoding."""
    return text.encode("utf-8", "surrogateescape")


def is_below(path: str, folders: Collection[str]) -> bool:
    """Whether a path is one of these, or stands in one of these folders; "" or "." is the root.

    A set is asked once a folder of the path, however many it holds.
    """
    while path not in folders:
        if not path:
            return "." in folders
        path = path.rpartition("/")[0]
    return True


def read_named(path: Path | str, *, missing: str = "", remedy: str = "", option: str = "") -> bytes:
    """The bytes of a file that a user named. Raises RunciError where they cannot be had.

    `missing` is what to say where there is no such file; `remedy` follows any other reason;
    `option` stands before the path.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise RunciError(f"{option}{path}: {missing}") from error
        raise RunciError(f"{option}{path}: cannot read: {error.strerror}{remedy}") from error
