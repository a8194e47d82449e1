"""Which files `init` writes, their diff, and writing them: only what is not there."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.adopt.hooks import HOOKS, appended, entry, has_entry
from runci.adopt.propose import Proposal
from runci.adopt.taxonomy_text import taxonomy_text
from runci.adopt.workflow_text import (
    PERMISSIONS_TEXT,
    STATUS_TEXT,
    needs_gate,
    workflow_text,
)
from runci.config.gate import PERMISSIONS, STATUS
from runci.config.repository import CONFIGS
from runci.core.atomic import replace_file
from runci.core.errors import RunciError
from runci.core.paths import read_named

WORKFLOW = ".github/workflows/runci.yml"


@dataclass(frozen=True, slots=True)
class Change:
    """A file to write. `before` is None where it is not there."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A file that is left alone, why, and what somebody could add to it."""

    path: str
    why: str
    add: str = ""


def files_for(
    root: Path, proposal: Proposal, branch: str, action: str
) -> tuple[Change | Unwritten, ...]:
    """What becomes of each file, in the order of writing: the taxonomy last, which ends it."""
    texts = {WORKFLOW: workflow_text(proposal, branch, action)} if proposal.github else {}
    if needs_gate(proposal):
        texts = {PERMISSIONS: PERMISSIONS_TEXT, STATUS: STATUS_TEXT, **texts}
    texts[CONFIGS[0]] = taxonomy_text(proposal, action)
    made = [_new(root, path, text) for path, text in texts.items()]
    return (*made[:-1], _hooks(root), made[-1])


def _new(root: Path, path: str, text: str) -> Change | Unwritten:
    # The gate denies where one of its files is there twice.
    places = (path, path.rpartition("/")[2]) if path in (PERMISSIONS, STATUS) else (path,)
    for place in places:
        if os.path.lexists(root / place):
            return Unwritten(place, "is there already")
    if link := _link_above(root, path):
        return Unwritten(
            path, f"would be written through the link {link}: put it there yourself", text
        )
    return Change(path, None, text.encode())


def _link_above(root: Path, path: str) -> str:
    """The first folder of a path that is a link, and so may be anywhere; "" for none."""
    folders = [folder.as_posix() for folder in reversed(Path(path).parents)]
    return next((folder for folder in folders if (root / folder).is_symlink()), "")


def _hooks(root: Path) -> Change | Unwritten:
    if not os.path.lexists(root / HOOKS):
        return Unwritten(
            HOOKS, "is not there; with pre-commit, this would be it", f"repos:\n{entry()}"
        )
    if (root / HOOKS).is_symlink() or not (root / HOOKS).is_file():
        return Unwritten(HOOKS, "is a link, or no file; put this below its `repos:`", entry())
    data = read_named(root / HOOKS)
    if has_entry(data):
        return Unwritten(HOOKS, "has the hook already")
    after = appended(data)
    if after is None:
        return Unwritten(HOOKS, "cannot be added to safely; put this below `repos:`", entry())
    return Change(HOOKS, data, after)


def write_all(root: Path, changes: Sequence[Change]) -> None:
    """Write all of them, or none: raises RunciError with what was written taken away again."""
    done: list[Change] = []
    made: list[Path] = []
    try:
        for change in changes:
            made += _folders(root, change.path)
            replace_file(root / change.path, change.after)
            done.append(change)
    except (RunciError, OSError) as error:
        _undo(root, done, made)
        said = (
            str(error) if isinstance(error, RunciError) else f"{error.filename}: {error.strerror}"
        )
        raise RunciError(f"{said}: nothing was written") from error


def _folders(root: Path, path: str) -> list[Path]:
    """Make the folders of a file; those that were not there."""
    missing = [folder for folder in (root / path).parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
    return missing[::-1]


def _undo(root: Path, done: Iterable[Change], made: Sequence[Path]) -> None:
    with contextlib.suppress(OSError, RunciError):
        for change in done:
            if change.before is None:
                (root / change.path).unlink()
            else:
                replace_file(root / change.path, change.before)
        for folder in reversed(made):
            folder.rmdir()


def diff(changes: Iterable[Change | Unwritten]) -> str:
    """What writing would change, as a unified diff."""
    out: list[str] = []
    for one in changes:
        if isinstance(one, Change):
            old = (one.before or b"").decode().splitlines(keepends=True)
            source = "/dev/null" if one.before is None else f"a/{one.path}"
            new = one.after.decode().splitlines(keepends=True)
            lines = difflib.unified_diff(old, new, source, f"b/{one.path}")
            out += [
                x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines
            ]
    return "".join(out)
