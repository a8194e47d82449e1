"""Which files and lines are checked, with what is wanted of each."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runci.checks.rule import Options
from runci.checks.ws.policy import (
    Attributes,
    Conversion,
    Policy,
    converted,
    is_binary,
    read_attributes,
)
from runci.checks.ws.text import WHOLE, Scope, blank_end
from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.finding import Finding, Level
from runci.core.git import as_arguments, in_work_tree, list_files, list_untracked, run_git
from runci.core.paths import is_below, relative, walk
from runci.core.source import at

MAX_BYTES = 512 * 1024 * 1024
"""git takes larger files for binary (`core.bigFileThreshold`)."""

# The same diff as that of `git diff --check`, whatever is configured.
_OPTIONS = (
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-indent-heuristic",
    "--diff-algorithm=myers",
    "--ignore-submodules=all",
    "--inter-hunk-context=0",
    "--find-renames",
    "--full-index",
    "--relative",
    "--unified=1",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ESCAPED[b"v"] = b"\v"


@dataclass(frozen=True, slots=True)
class File:
    """One text file: its bytes, what is wanted of it, and which part of it counts."""

    path: str
    data: bytes
    policy: Policy
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths relative to the root, in one order on every machine; `git`: whether git gave them."""

    paths: tuple[str, ...]
    git: bool


@dataclass(slots=True)
class Changed:
    """A changed file: its added lines, and the object that it was before ("" where it was none)."""

    path: str
    old: str = ""
    lines: set[int] = field(default_factory=set)


def listed(options: Options) -> Listing:
    """The files in question: below the paths of the command line, or all below the root.

    Raises RunciError for a path or a root that is not there.
    """
    if not options.root.is_dir():
        raise RunciError(f"{options.root.as_posix()}: no such folder")
    return list_below(options.root, _below(options))


def _below(options: Options) -> list[str]:
    given = {relative(options.root, path, options.cwd) for path in options.paths}
    return sorted(given) if "" not in given else []


def list_below(root: Path, below: Sequence[str]) -> Listing:
    """The files to check that are, or lie below, some paths; without any all files."""
    listed = list_files(root, below)
    if listed is None:
        return Listing(tuple(walk(root, below or [""])), git=False)
    # A file named outright is checked although git ignores it.
    files = {path for path in below if (root / path).is_file() and not (root / path).is_symlink()}
    ignored = files - set(listed)
    every = sorted({*listed, *ignored}, key=os.fsencode) if ignored else listed
    return Listing(tuple(every), git=True)


def read_files(
    options: Options, listing: Listing, only: Collection[str] | None = None
) -> Iterator[File | Finding]:
    """Each text file, or the finding that it could not be checked.

    `only` restricts the files. Raises RunciError for a wrong revision or a broken git.
    """
    root, changed = options.root, None
    todo = listing.paths if only is None else tuple(p for p in listing.paths if p in only)
    if options.diff_base is not None:
        changed = changed_files(root, options.diff_base, _below(options))
        todo = tuple(path for path in todo if path in changed)
    attributes = read_attributes(root, todo) if listing.git and todo else Attributes({})
    postponed: list[str] = []
    for path in todo:
        data = _text(root, path, attributes)
        if not isinstance(data, bytes):
            if data is not None:
                yield data
            continue
        policy = attributes.policy(path, data, markdown_breaks=options.markdown_breaks)
        if policy.conversion is Conversion.AUTO and b"\r" in data:
            postponed.append(path)  # only git can say whether its CRLF is a fault
        else:
            yield File(path, data, policy, _scope(root, path, data, changed))
    convert = converted(root, postponed) if postponed else frozenset()  # one question for all
    for path in postponed:
        again = read(root, path)
        if not isinstance(again, bytes):
            yield not_checked(path, again or "changed while it was read")
            continue
        policy = attributes.policy(path, again, markdown_breaks=options.markdown_breaks)
        if path not in convert:
            policy = dataclasses.replace(policy, conversion=Conversion.NONE)
        yield File(path, again, policy, _scope(root, path, again, changed))


def _text(root: Path, path: str, attributes: Attributes) -> bytes | Finding | None:
    """The bytes of a text file; None for what is none."""
    known = attributes.of(path)
    if known.get("diff") == "unset":  # git's own way to say that a file is binary
        return None
    data = read(root, path)
    if isinstance(data, bytes):
        return None if is_binary(data, known) else data
    return None if data is None else not_checked(path, data)


def _scope(
    root: Path, path: str, data: bytes, changed: Mapping[str, Changed | None] | None
) -> Scope:
    file = changed.get(path) if changed is not None else None
    if file is None:
        return WHOLE
    # Only where it matters: each old version costs a process.
    blank = blank_end(data)[1] and blank_end(old_bytes(root, file))[1]
    return Scope(frozenset(file.lines), blank)


def not_checked(path: str, reason: str) -> Finding:
    """The finding that a file, or a part of it, was not checked."""
    return Finding(path, at(1), "WS100", reason, key=reason, level=Level.ERROR)


def read(root: Path, path: str) -> bytes | str | None:
    """The bytes of a file, or why they cannot be had; None for links and other special files."""
    full = f"{os.fspath(root)}/{path}"
    if (data := inputs.given(full)) is not None:
        return data
    try:
        before = os.lstat(full)
        if stat.S_ISDIR(before.st_mode):
            os.scandir(full).close()  # says why it could not be listed
        if not stat.S_ISREG(before.st_mode):
            return None
        if before.st_size > MAX_BYTES:
            return f"{before.st_size:,} bytes: larger than {MAX_BYTES:,}, as git takes for binary"
        with open(full, "rb") as stream:  # noqa: PTH123  a Path for each file costs time
            return stream.read()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def changed_files(root: Path, base: str, below: Sequence[str]) -> dict[str, Changed | None]:
    """What differs between `base` and the working tree, by path; None for an untracked file.

    Raises RunciError where there is no git or no such revision.
    """
    if not base or base.startswith("-") or "\0" in base:
        raise RunciError(f"--diff-base {base!r}: not a revision")
    if not in_work_tree(root):
        raise RunciError(f"--diff-base needs git, and {root.as_posix()} is in no working tree")
    try:
        commit = run_git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    except RunciError as error:
        raise RunciError(
            f"--diff-base {base}: no such commit here; fetch it first, as with "
            f"`git fetch --depth=1 origin {base}`, or pass another"
        ) from error
    out = run_git(root, "diff", *_OPTIONS, commit.decode().strip(), "--", *as_arguments(below))
    keep = frozenset(below)
    everything = not keep or "." in keep
    changed: dict[str, Changed | None] = {
        file.path: file for file in parse_diff(out) if everything or is_below(file.path, keep)
    }
    changed.update(dict.fromkeys(list_untracked(root, below) or ()))
    return changed


def old_bytes(root: Path, file: Changed) -> bytes:
    """The file as it was, without any conversion."""
    return run_git(root, "cat-file", "blob", file.old) if file.old else b""


def parse_diff(out: bytes) -> Iterator[Changed]:
    """The files with added or deleted lines in the output of `git diff`, deleted ones left out."""
    old = ""
    lines = iter(out.split(b"\n"))
    current = Changed("")
    for line in lines:
        if line.startswith(b"diff --git "):
            old = ""
            current = Changed("")
        elif line.startswith(b"index "):
            object_name = line[6:].partition(b"..")[0]
            old = object_name.decode() if object_name.strip(b"0") else ""
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            current = Changed(_path(line[4:]), old)
            yield current
        elif hunk := _HUNK.match(line):
            removed, start, added = (int(group or b"1") for group in hunk.groups())
            _read_hunk(lines, removed, start, added, current.lines)


def _read_hunk(
    lines: Iterator[bytes], removed: int, number: int, added: int, into: set[int]
) -> None:
    """Read one hunk of so many old and new lines, the first of them `number`."""
    while removed > 0 or added > 0:
        kind = next(lines, b"?")[:1]
        if kind == b"+":
            into.add(number)
            number += 1
            added -= 1
        elif kind == b"-":
            removed -= 1
        elif kind in (b" ", b""):  # diff.suppressBlankEmpty
            number += 1
            added -= 1
            removed -= 1
        elif kind != b"\\":
            raise RunciError("the output of git diff was not understood: please report this")


def _path(name: bytes) -> str:
    """The path in a `+++` line: in quotes where it has odd characters."""
    if name.startswith(b'"'):
        name = _ESCAPE.sub(_unescape, name.rstrip(b"\t")[1:-1])
    else:
        name = name.removesuffix(b"\t")  # stands after names with a space
    return os.fsdecode(name.removeprefix(b"b/"))


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code)
