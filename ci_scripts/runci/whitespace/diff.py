"""Which lines a change adds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runci.errors import RunciError
from runci.git import as_arguments, in_work_tree, is_below, list_untracked, run_git

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


@dataclass(slots=True)
class Changed:
    """A changed file: its added lines, and the object that it was before ("" where it was none)."""

    path: str
    old: str = ""
    lines: set[int] = field(default_factory=set)


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
