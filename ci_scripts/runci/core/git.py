"""Ask git about a working tree: the one place that starts it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.paths import is_below

# A hook's environment points git at the hook's repository; the folder that was asked for decides.
_POINTERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
# A command line is limited to 32,767 characters on Windows.
_MAX_PATHS_LENGTH = 8000
# Since git 2.35.2, in both its wordings: the repository belongs to somebody else.
_DISTRUST = r"(?:detected dubious ownership in|unsafe) repository[^\n]*"
_REMEDY = r"git config --global --add safe\.directory [^\n]*"


class GitMissingError(RunciError):
    """git is not installed, or not on the search path."""


class Answer(NamedTuple):  # no dataclass: importing those takes a third of a warm lint
    """How one call of git ended. `error` is what it said on standard error."""

    status: int
    out: bytes
    error: str

    @property
    def reason(self) -> str:
        """Why it failed: git's own first line, else a remote's."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        own = [line for line in lines if not line.startswith(("remote:", "hint:"))]
        return next(iter(own or lines), f"exit status {self.status}")


def run_git(root: Path, *args: str, stdin: bytes = b"") -> bytes:
    """The standard output of `git ARGS`, run in `root`.

    Paths among the arguments mean themselves, never a pattern. Raises `GitMissingError` where git
    cannot be found, and `RunciError` with git's own first line where it fails.
    """
    answer = ask_git(root, *args, stdin=stdin)
    if answer.status:
        raise RunciError(f"git {args[0]} failed in {root.as_posix()}: {answer.reason}")
    inputs.asked(root, args, answer.out) if not stdin else inputs.beyond()
    return answer.out


def ask_git(
    root: Path,
    *args: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Answer:
    """As `run_git`, with its status, whatever that is.

    `environment` is added to this process's. Raises RunciError where git is ended after `seconds`,
    and where it does not trust a repository of somebody else: whatever was asked, it says that.
    """
    import subprocess

    if not root.is_dir():
        raise RunciError(f"{root.as_posix()}: no such folder")
    variables = {key: value for key, value in os.environ.items() if key not in _POINTERS}
    variables |= {"LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(  # noqa: S603  a list of arguments: no shell reads them
            ["git", *args],  # noqa: S607  whichever git the user has
            cwd=root,
            input=stdin,
            capture_output=True,
            env=variables | dict(environment or {}),
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitMissingError("git was not found: install it, or add it to PATH") from error
    except OSError as error:
        raise RunciError(f"git could not be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise RunciError(f"git {args[0]} did not end within {seconds:.0f} s") from error
    answer = Answer(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
    if answer.status and (distrust := re.search(_DISTRUST, answer.error)):
        raise RunciError(_somebody_elses(root, distrust[0], answer.error))
    return answer


def _somebody_elses(root: Path, said: str, error: str) -> str:
    """What to do where the repository belongs to another user, as in many containers."""
    remedy = re.search(_REMEDY, error)
    command = remedy[0] if remedy else f"git config --global --add safe.directory {root.absolute()}"
    return f"git in {root.as_posix()}: {said}: if you trust who owns it, run `{command}`"


def in_work_tree(root: Path) -> bool:
    """Whether `root` or a folder above it has a `.git`, valid or not."""
    folder = root.resolve()
    found = any(os.path.lexists(parent / ".git") for parent in (folder, *folder.parents))
    if not found:
        inputs.beyond()  # files are found by walking, and a `.git` may appear
    return found


def list_files(root: Path, below: Sequence[str] = ()) -> list[str] | None:
    """The files of a working tree: tracked, and untracked but not ignored, relative to `root`.

    Paths have forward slashes and are sorted by their bytes, so that the order is the same on
    every machine. Deleted files, submodules and nested repositories are left out; symbolic links
    are in. `below` keeps only these files and what lies below these folders.
    None where `root` is in no working tree or git is not installed; `RunciError` where git fails.
    """
    return _listed(root, ("--cached", "--others"), below)


def list_tracked(root: Path) -> list[str] | None:
    """The paths that git tracks, in its order; None as in `list_files`.

    Submodules and deleted files are in: no file is examined, which would cost more than git does.
    """
    if not in_work_tree(root):
        return None
    try:
        out = run_git(root, "ls-files", "-z", "--cached")
    except GitMissingError:
        return None
    return [os.fsdecode(name) for name in dict.fromkeys(out.split(b"\0")) if name]


class Entry(NamedTuple):
    """One path of git's index. `skipped`: a sparse checkout leaves the file out."""

    path: str
    submodule: bool = False
    skipped: bool = False


def list_entries(root: Path, ending: str) -> list[Entry] | None:
    """What the index has below `root`, in its order: submodules, and files with this ending.

    None as in `list_files`.
    """
    if not in_work_tree(root):
        return None
    try:
        out = run_git(root, "ls-files", "-s", "-t", "-z", "--cached")
    except GitMissingError:
        return None
    end = os.fsencode(ending)
    found = []
    for line in out.split(b"\0"):
        submodule = line[2:8] == b"160000"
        if submodule or line.endswith(end):
            path = os.fsdecode(line.partition(b"\t")[2])
            found.append(Entry(path, submodule, line.startswith(b"S ")))
    return found


def list_untracked(root: Path, below: Sequence[str] = ()) -> list[str] | None:
    """As `list_files`, only what is not tracked and not ignored."""
    return _listed(root, ("--others",), below)


def _listed(root: Path, kinds: Iterable[str], below: Sequence[str]) -> list[str] | None:
    if not in_work_tree(root):
        return None
    try:
        out = run_git(
            root, "ls-files", "-z", *kinds, "--exclude-standard", "--", *as_arguments(below)
        )
    except GitMissingError:
        return None
    keep = frozenset(path.rstrip("/") for path in below)
    everything = not keep or "." in keep
    base = os.fspath(root)
    # A file in conflict is listed once for each side: hence the set.
    paths = [os.fsdecode(name) for name in sorted(set(out.split(b"\0")) - {b""})]
    if not everything:
        paths = [path for path in paths if is_below(path, keep)]
    inputs.look(*(f"{base}/{path}" for path in paths))  # those that are gone, too
    found = [path for path in paths if _is_file_or_link(f"{base}/{path}")]
    if others := {p for p in inputs.given_below(root) if everything or is_below(p, keep)}:
        found = sorted({*found, *others}, key=os.fsencode)
    return found


def as_arguments(below: Sequence[str]) -> Sequence[str]:
    """The paths where they fit on a command line, otherwise none: the caller filters as well."""
    return below if sum(len(path) + 3 for path in below) <= _MAX_PATHS_LENGTH else ()


def _is_file_or_link(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError as error:
        # A name that cannot be examined stays listed: reading it says why.
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))
