"""The edge to git: which commits are measured, and the baseline's files in their own folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from runci.core.errors import RunciError
from runci.core.git import run_git


def head(root: Path) -> str:
    """The full commit of the working tree, with `-dirty` where tracked files were changed.

    Raises RunciError where `root` is in no git repository, or nothing was ever committed.
    """
    try:
        commit = _line(root, "rev-parse", "--verify", "HEAD^{commit}")
    except RunciError as error:
        raise RunciError(f"{error}; a record names the commit that was measured") from error
    changed = run_git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed.strip() else commit


def resolve(root: Path, name: str) -> str:
    """The full commit that a baseline's name means. Raises RunciError where it is not here."""
    try:
        return _line(root, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except RunciError as error:
        shallow = _line(root, "rev-parse", "--is-shallow-repository") == "true"
        clone = "this clone is shallow and does not hold it" if shallow else "it is not here"
        raise RunciError(
            f"baseline {name}: {clone}: git fetch --depth=1 origin {name}  (or check out with "
            "fetch-depth: 0, or mend `baseline` in perf.yml)"
        ) from error


def below_top(root: Path) -> Path:
    """Where `root` lies in its repository; «.» for the top."""
    prefix = run_git(root, "rev-parse", "--show-prefix").decode("utf-8", "surrogateescape")
    return Path(prefix.rstrip("\n") or ".")


@contextlib.contextmanager
def checked_out(root: Path, commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of `commit` in `folder`, which must not exist; removed at the end.

    Only this worktree is taken off git's list: others', whose disk may be absent, stay on it.
    """
    try:
        run_git(root, "worktree", "add", "--detach", "--quiet", str(folder), commit)
        yield folder
    finally:
        with contextlib.suppress(RunciError):
            run_git(root, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _line(root: Path, *arguments: str) -> str:
    return run_git(root, *arguments).decode("utf-8", "replace").strip()
