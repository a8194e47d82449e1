"""Which paths a commit changes against another; or why that cannot be known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runci.core.errors import RunciError
from runci.core.git import list_untracked, run_git

_WHOLE = "check out with fetch-depth: 0 (GitLab: GIT_DEPTH: 0)"

# GitHub lists at most this many files of a pull request, and does not say that it left some out.
API_LIMIT = 3000


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths relative to the root, sorted; a rename counts as both its paths.

    `unknown` says why the paths cannot be known, and then there are none. `notes` are for people.
    """

    paths: tuple[str, ...] = ()
    unknown: str | None = None
    notes: tuple[str, ...] = ()


def listed(paths: Iterable[str], total: int | None = None) -> Changes:
    """The changes that somebody else listed; `total` is how many there should be."""
    known = tuple(sorted({path.strip().removeprefix("./") for path in paths} - {""}))
    if total is not None and len(known) != total:
        return Changes(unknown=f"{len(known)} of {total} changed paths were listed")
    if len(known) >= API_LIMIT:
        return Changes(unknown=f"{len(known)} changed paths: GitHub lists no more than {API_LIMIT}")
    return Changes(known)


def head_commit(root: Path) -> str | None:
    """The commit that is checked out; None outside git and before the first commit."""
    try:
        return _commit(root, "HEAD")
    except RunciError:
        return None


def between(root: Path, base: str, head: str = "HEAD") -> Changes:
    """What `head`, which must be checked out, changes since it left `base`.

    Uncommitted and untracked paths count too. Raises RunciError where git cannot be asked or
    `head` is not what is checked out: the tests are read from the working tree.
    """
    newest, here = _commit(root, head), head_commit(root)
    if newest is None:
        raise RunciError(f"--head {head}: no such commit in {root.as_posix()}")
    if newest != here:
        raise RunciError(
            f"--head {head} is commit {newest[:12]}, but {(here or 'nothing')[:12]} is checked "
            f"out, and the plan reads its tests: git checkout {head}"
        )
    oldest = _commit(root, base)
    why = _why_unknown(root, base, oldest, newest)
    if why is not None or oldest is None:
        return Changes(unknown=why)
    paths: set[str] = set()
    for ancestor in _merge_bases(root, oldest, newest):
        paths |= _diff(root, ancestor, newest)
    uncommitted = _diff(root, "HEAD") | set(list_untracked(root) or ())
    notes = (f"{_count(len(uncommitted))} counted as changed",) if uncommitted else ()
    return Changes(tuple(sorted(paths | uncommitted)), notes=notes)


def file_at(root: Path, revision: str, path: str) -> bytes | None:
    """A file, by its path below the root, in a commit; None where either is not there."""
    try:
        return run_git(root, "show", "--end-of-options", f"{revision}:./{path}")
    except RunciError:
        return None


def _why_unknown(root: Path, base: str, oldest: str | None, newest: str) -> str | None:
    if oldest is None:
        if set(base) == {"0"}:
            return "there is no commit before: a new branch"
        where = "this shallow clone" if _is_shallow(root) else "this clone"
        return f"base {base!r} is no commit in {where}: {_WHOLE}"
    ancestors = _merge_bases(root, oldest, newest)
    if _is_shallow(root) and ancestors != [oldest]:
        # What is cut off may hold a nearer ancestor; only a base that is one itself is exact.
        return (
            f"a shallow clone, which does not show where {base!r} and the commit parted: {_WHOLE}"
        )
    return None if ancestors else f"{base!r} and the commit have no common ancestor"


def _count(number: int) -> str:
    return "1 uncommitted path is" if number == 1 else f"{number} uncommitted paths are"


def _commit(root: Path, revision: str) -> str | None:
    name = f"{revision}^{{commit}}"
    try:
        out = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    except RunciError:
        run_git(root, "rev-parse", "--git-dir")  # no repository is another fault
        return None
    return out.decode().strip()


def _is_shallow(root: Path) -> bool:
    return run_git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"


def _merge_bases(root: Path, one: str, other: str) -> list[str]:
    try:
        return run_git(root, "merge-base", "--all", one, other).decode().split()
    except RunciError:  # exit status 1: there is none
        return []


def _diff(root: Path, *commits: str) -> set[str]:
    """Paths below the root; without renames, a moved file is one gone and one new."""
    out = run_git(
        root,
        "diff",
        "--name-only",
        "--no-renames",
        "--ignore-submodules=none",
        "--relative",
        "-z",
        *commits,
        "--",
    )
    return {name.decode("utf-8", "surrogateescape") for name in out.split(b"\0") if name}
