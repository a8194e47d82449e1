"""Where each side runs: which commit, in which folder, and the baseline with its own packages."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runci.core.atomic import locked
from runci.core.errors import RunciError
from runci.core.git import run_git
from runci.nightly.measure import isolate

# Imports nothing that an interpreter has not loaded anyway: json alone would double its start.
_ASK = (
    "import sys; sys.path.insert(0, sys.argv[1]); import isolate; del sys.path[0]; "
    "print(ascii(isolate.folders(sys.argv[2])))"
)
_PATIENCE = 60.0
_PREFIX = "runci-measure-"  # of scratch folders
_DEAF = re.compile(r"-[A-Za-z]*[EIS][A-Za-z]*")


def head(root: Path) -> str:
    """The full commit of the working tree, with `-dirty` where tracked files were changed.

    Raises RunciError where `root` is in no git repository, or nothing was ever committed.
    """
    ask = ("--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=no")
    said = run_git(root, "status", *ask).decode("utf-8", "replace").splitlines()
    commit = next(line.split()[-1] for line in said if line.startswith("# branch.oid "))
    if commit == "(initial)":
        raise RunciError(
            f"{root.as_posix()}: nothing was ever committed; a record names the commit that was "
            "measured"
        )
    return commit if all(line.startswith("# ") for line in said) else f"{commit}-dirty"


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


def resolve_arm(root: Path, name: str) -> str:
    """The full commit of a commit, a tag, or the newest tag before HEAD that fits a pattern."""
    if "*" not in name:
        return resolve(root, name)
    try:
        tag = _line(root, "describe", "--tags", "--abbrev=0", f"--match={name}", "HEAD")
    except RunciError as error:
        raise RunciError(
            f"{error}: no tag {name} before HEAD is here: git fetch --tags  (or mend `arms` in "
            "perf.yml)"
        ) from error
    return resolve(root, tag)


def below_top(root: Path) -> Path:
    """Where `root` lies in its repository; «.» for the top."""
    prefix = run_git(root, "rev-parse", "--show-prefix").decode("utf-8", "surrogateescape")
    return Path(prefix.rstrip("\n") or ".")


@contextlib.contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A temporary folder, for worktrees of `root` too; what a killed process left goes first."""
    for folder in _left_behind(root):
        _remove_worktree(root, folder)
        shutil.rmtree(folder.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, locked(Path(name), shared=True):
        yield Path(name)


def _left_behind(root: Path) -> list[Path]:
    """The worktrees below scratch folders that no process holds any more."""
    with contextlib.suppress(RunciError):
        listed = os.fsdecode(run_git(root, "worktree", "list", "--porcelain", "-z")).split("\0")
        folders = [Path(line[9:]) for line in listed if line.startswith("worktree ")]
        ours = [folder for folder in folders if folder.parent.name.startswith(_PREFIX)]
        return [folder for folder in ours if not _is_held(folder.parent)]
    return []


def _is_held(folder: Path) -> bool:
    """Whether a process that lives holds it; what cannot be known is taken for held."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except (ImportError, OSError):
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _remove_worktree(root: Path, folder: Path) -> None:
    """Only this one is taken off git's list: others', whose disk may be absent, stay on it."""
    with contextlib.suppress(RunciError):
        run_git(root, "worktree", "remove", "--force", "--force", str(folder))


@contextlib.contextmanager
def checked_out(root: Path, commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of `commit` in `folder`, which must not exist; removed at the end."""
    try:
        run_git(root, "worktree", "add", "--detach", "--quiet", str(folder), commit)
        yield folder
    finally:
        _remove_worktree(root, folder)
        shutil.rmtree(folder, ignore_errors=True)


def package_folders(root: Path) -> list[Path]:
    """The folders below `root` from which a fresh interpreter imports, relative to it.

    They come from an editable install, from .pth files and from PYTHONPATH.
    """
    done = subprocess.run(  # noqa: S603  our own interpreter, and a list of arguments
        [sys.executable, "-c", _ASK, str(Path(isolate.__file__).parent), str(root)],
        cwd=os.sep,  # elsewhere, so that the current folder is no answer
        capture_output=True,
        check=False,
        timeout=_PATIENCE,
    )
    try:
        found = ast.literal_eval(done.stdout.decode("ascii"))
    except (ValueError, SyntaxError) as error:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise RunciError(f"{sys.executable} cannot say what it imports: {said}") from error
    top = os.path.realpath(root)
    return [Path(os.path.relpath(os.path.realpath(path), top)) for path in found]


def baseline_variables(
    root: Path, worktree: Path, startup: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """What makes a Python that runs in `worktree` import from there, never from `root`.

    `startup` is a folder that exists; what it gets runs before anything else in that Python.
    """
    (startup / "sitecustomize.py").write_bytes(Path(isolate.__file__).read_bytes())
    ours = [str(worktree / folder) for folder in package_folders(root)]
    given = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        "PYTHONPATH": os.pathsep.join([str(startup), *ours, *given]),
        isolate.CANDIDATE: os.path.realpath(root),
        isolate.BASELINE: os.path.realpath(worktree),
    }


def words(command: Sequence[str], output: Path) -> tuple[list[str], bool]:
    """The command to run, and whether it writes `output` rather than printing its JSON.

    The first word that is `python` means the interpreter that runs runci.
    """
    named = list(command)
    if "python" in named:
        named[named.index("python")] = sys.executable
    writes = any("{output}" in word for word in named)
    return [word.replace("{output}", str(output)) for word in named], writes


def refuse_copies(root: Path) -> None:
    """Raise RunciError where pip has installed a copy of what `root` holds: both would import that.

    A copy behind folders of `root` on the search path that have its packages does no harm.
    """
    copies = [one for one in importlib.metadata.distributions() if _is_copy(one, root)]
    folders = [root / folder for folder in package_folders(root)] if copies else []
    found = [one.metadata["Name"] for one in copies if not _is_behind(one, folders)]
    if found:
        raise RunciError(
            f"{', '.join(found)}: a copy is installed, which candidate and baseline would both "
            "import: install it with `pip install -e`, or put its folder on PYTHONPATH"
        )


def refuse_shared(command: Sequence[str], root: Path, where: str) -> None:
    """Raise RunciError for a command whose baseline would run the candidate's files.

    Such are absolute paths into the working tree, and options by which Python ignores what
    `baseline_variables` sets.
    """
    for word in command:
        path = word.rpartition("=")[2]
        if Path(path).is_absolute() and isolate.is_candidates(path, str(root)):
            raise RunciError(
                f"{where}: {word!r} names a file of the working tree, so that the baseline would "
                "run the candidate's: write it relative to the root"
            )
    for word in command[command.index("python") + 1 :] if "python" in command else ():
        if not word.startswith("-") or word in ("-c", "-m"):
            break
        if _DEAF.fullmatch(word):
            raise RunciError(
                f"{where}: with {word} Python ignores PYTHONPATH, so that the baseline would "
                "import the candidate's packages: leave it out"
            )


def _line(root: Path, *arguments: str) -> str:
    return run_git(root, *arguments).decode("utf-8", "replace").strip()


def _is_copy(distribution: importlib.metadata.Distribution, root: Path) -> bool:
    """Whether pip copied a distribution from `root` or a folder below it."""
    try:
        given = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    address = urllib.parse.urlsplit(given.get("url", ""))
    if address.scheme != "file" or given.get("dir_info", {}).get("editable", False):
        return False
    return isolate.is_candidates(urllib.request.url2pathname(address.path), str(root))


def _is_behind(distribution: importlib.metadata.Distribution, folders: Sequence[Path]) -> bool:
    """Whether every package and module of a distribution stands in one of `folders`, too."""
    names = {file.parts[0] for file in distribution.files or () if file.suffix == ".py"}
    return bool(names) and all(any((one / name).exists() for one in folders) for name in names)
