"""Which suites the workflows of a repository run: read, found or taken from the cache."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fnmatch
import functools
import json
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runci.config.taxonomy import Workflows
from runci.core import inputs
from runci.core.globs import matches
from runci.core.registration import Backend
from runci.workflows.by_path import suffixes
from runci.workflows.makefile import MAKEFILE

ACTION_FILES = ("action.yml", "action.yaml")
WORKFLOW_SUFFIXES = (".yml", ".yaml")

# `$/` is the repository at the commit of the workflow, `./` what the job checked out there.
LOCAL = ("./", "$/")
# What no path of a script holds, and what may stand behind it.
_NO_NAME = re.compile(rb"[^\w./-]", re.ASCII)
_BEHIND_NAME = (b"", *(bytes([sign]) for sign in b" \t\r\n\"'`;)|&\\,"))
_FOLDER = rb"[ \t]+['\"]?(?:\./)?([\w./-]+)"
_ENTERS = tuple(re.compile(word + _FOLDER, re.ASCII) for word in (b"cd", b"pushd", b"directory:"))
_MAKE = re.compile(rb"\bmake\b")
_HOLE = rb"\$\{\{[^}]*\}\}|\$\{\w[^}\s]*\}|\$\w+"
_VARIABLE = re.compile(_HOLE, re.ASCII)
_WITH_VARIABLE = re.compile(rb"[\w./-]*(?:(?:" + _HOLE + rb")[\w./-]*)+", re.ASCII)
_WORKSPACE = re.compile(rb"^(?:\$\{?GITHUB_WORKSPACE\}?|\$\{\{\s*github\.workspace\s*\}\})/")
_USES = re.compile(rb"uses['\"]?\s*:\s*['\"]?([.$]/[^\s\0'\"#,}]*)")


def local_path(uses: str) -> str | None:
    """The path that a `uses: ./…` or `$/…` names, else None. '' is the root."""
    if not uses.startswith(LOCAL):
        return None
    path = posixpath.normpath(uses[2:])
    return None if path.startswith("..") else "" if path == "." else path


def local_files(data: bytes) -> Iterator[str]:
    """The files that a workflow or action may call, by its bytes: comments count too."""
    for match in _USES.finditer(data):
        path = local_path(match[1].decode("utf-8", "replace"))
        if path is not None and path.endswith(WORKFLOW_SUFFIXES):
            yield path
        elif path is not None:
            yield from (posixpath.join(path, name) for name in ACTION_FILES)


@dataclass(frozen=True, slots=True, order=True)
class SuiteRun:
    """A suite that a job starts, at the place where its name is written.

    `suite` is a name, or a glob where `resolved` is False. `backend` is None where the command
    does not say, or not in a way that can be known. `file_timeout` is the seconds that the command
    gives one file; None where it does not say so. `nightly`: the command says `--nightly`, None
    where that cannot be known. `command` is the one that starts it, as suites.yml names it.
    """

    path: str
    line: int
    suite: str
    backend: Backend | None
    job: str
    resolved: bool = True
    file_timeout: float | None = None
    nightly: bool | None = False
    command: str = ""

    def starts(self, backend: Backend, suite: str) -> bool:
        """Whether it can be this suite of this backend."""
        if self.backend not in (None, backend):
            return False
        return self.suite == suite if self.resolved else fnmatch.fnmatchcase(suite, self.suite)


@dataclass(frozen=True, slots=True, order=True)
class PartRun:
    """One part of a suite that a job of the workflow `path` starts: the `index`-th of `count`.

    `line` is the command's. -1 stands for a number that is not known. The parts count from `first`,
    -1 where the command's own code decides it.
    """

    path: str
    line: int
    suite: str
    backend: Backend | None
    count: int
    index: int
    first: int = -1


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """A suite name that cannot be known. `typed`: somebody types it when starting the workflow."""

    path: str
    line: int
    expression: str
    typed: bool = False


@dataclass(frozen=True, slots=True, order=True)
class PathRun:
    """Tests that a step runs by path.

    `target` is a file, a folder or a glob below the root; `names` are globs of the files of a
    folder that run, none where the target is no folder. `part` is what selects a part of them.
    `certain` is False where more than this is unknown; then `*` in the target stands for anything.
    `chosen` says where a run chooses the script that has the command: «PATH:LINE runs scripts/*».
    `launcher` is what starts it in several processes, such as torchrun.
    """

    path: str
    line: int
    target: str
    job: str = ""
    names: tuple[str, ...] = ()
    part: str = ""
    without: tuple[str, ...] = ()
    certain: bool = True
    chosen: str = ""
    launcher: str = ""

    @property
    def whole(self) -> bool:
        """Whether all tests of a file that it covers surely run."""
        return self.certain and not self.part

    def covers(self, path: str) -> bool:
        """Whether it can run this file."""
        if not path.startswith(self.target) and not _is_glob(self.target):
            return False  # nearly always
        folders = _folders(path) if matches(path, self.names) else ()
        if any(_is_at(place, out) for out in self.without for place in (path, *_folders(path))):
            return False
        return any(self._is_target(place) for place in (path, *folders))

    def _is_target(self, place: str) -> bool:
        if not self.certain and "*" in self.target:
            return fnmatch.fnmatchcase(place, self.target)
        return _is_at(place, self.target)


@functools.cache
def _is_glob(target: str) -> bool:
    return any(sign in target for sign in "*?[")


def _is_at(place: str, target: str) -> bool:
    """Whether a path is a target, as the shell reads it."""
    if place == target or not _is_glob(target):
        return place == target
    return matches(place, (target,)) and ("/" in target or "/" not in place)


def _folders(path: str) -> tuple[str, ...]:
    """All folders that a path stands in; "" is the root."""
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(len(parts)))


@dataclass(frozen=True, slots=True, order=True)
class Broken:
    """A file that cannot be used, and so may run suites of which nothing is known."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class SuiteRuns:
    """Everything that the workflows run; each tuple sorted, each entry once."""

    runs: tuple[SuiteRun, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    broken: tuple[Broken, ...] = ()
    paths: tuple[PathRun, ...] = ()
    parts: tuple[PartRun, ...] = ()

    def by_path(self, path: str) -> PathRun | None:
        """What runs this file by path: all of it, if anything does."""
        found = [run for run in self.paths if run.covers(path)]
        return min(found, key=lambda run: (not run.certain, run.part != "")) if found else None

    def starts(self, backend: Backend, suite: str) -> bool:
        """Whether any job can run this suite of this backend."""
        return any(run.starts(backend, suite) for run in self.runs)

    def to_json(self) -> str:
        """All of it as text, for a cache."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SuiteRuns:
        """What `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        plain = json.loads(text)
        runs = (
            SuiteRun(**{**run, "backend": run["backend"] and Backend(run["backend"])})
            for run in plain["runs"]
        )
        unresolved = (Unresolved(**place) for place in plain["unresolved"])
        paths = (
            PathRun(**{**run, "names": tuple(run["names"]), "without": tuple(run["without"])})
            for run in plain["paths"]
        )
        broken = (Broken(**b) for b in plain["broken"])
        parts = (
            PartRun(**{**part, "backend": part["backend"] and Backend(part["backend"])})
            for part in plain["parts"]
        )
        return cls(tuple(runs), tuple(unresolved), tuple(broken), tuple(paths), tuple(parts))


def read_workflows(root: Path, settings: Workflows) -> tuple[dict[str, bytes], tuple[Broken, ...]]:
    """The files by path from the root, and those that cannot be read."""
    inputs.look(*(root / folder for folder in settings.paths))
    files: dict[str, bytes] = {}
    broken: list[Broken] = []
    new = {folder: [name] for folder, name in map(posixpath.split, inputs.given_below(root))}
    waiting = [
        posixpath.join(folder, name)
        for folder in settings.paths
        for name in sorted({*(p.name for p in (root / folder).glob("*")), *new.get(folder, ())})
        # In whatever case: a file that GitHub might start must not be left out of a proof.
        if posixpath.splitext(name)[1].lower() in WORKFLOW_SUFFIXES
    ]
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        try:
            data = _bytes(root / path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # an action's other name, or one of another repository that is checked out
        except OSError as error:
            broken.append(Broken(path, 1, f"cannot be read: {error.strerror}"))
            continue
        files[path] = data
        used = set(local_files(data)) - seen
        seen |= used
        waiting += sorted(used)
    return files, tuple(broken)


def _bytes(path: Path) -> bytes:
    given = inputs.given(str(path))
    if given is not None:
        return given
    inputs.look(path)
    if not stat.S_ISREG(path.stat().st_mode):  # such as a link to a device, which has no end
        raise OSError(errno.EINVAL, "not a regular file")
    return path.read_bytes()


def read_scripts(root: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The shell scripts that workflows may call, and those that these call, by path."""
    found: dict[str, bytes] = {}
    waiting = list(files.values())
    tried: set[str] = set()
    while waiting:
        data = waiting.pop()
        names = _script_names(data) | ({MAKEFILE} if _MAKE.search(data) else set())
        globs = {shown for _, shown in chosen_scripts(data)}
        folders = {"", *_folders_entered(data)} if names or globs else ()
        named = {posixpath.normpath(f"{f}/{n}" if f else n) for f in folders for n in names}
        for path in sorted({*named, *_matching(root, folders, globs)}):
            if path in tried or path.startswith(".."):
                continue
            tried.add(path)
            with contextlib.suppress(OSError):
                found[path] = _bytes(root / path)
                waiting.append(found[path])
    return found


def _matching(root: Path, folders: Iterable[str], globs: Iterable[str]) -> Iterator[str]:
    """The scripts that globs name from some folder."""
    for pattern in {posixpath.normpath(f"{f}/{g}" if f else g) for f in folders for g in globs}:
        if not pattern.startswith(".."):
            inputs.look((root / pattern).parent)
            found = (path.relative_to(root).as_posix() for path in root.glob(pattern))
            yield from (path for path in found if path.endswith(".sh"))


def chosen_scripts(data: bytes) -> Iterator[tuple[str, str]]:
    """What may be the path of a script that only a run knows in full, as written and as a glob.

    Where neither a folder nor the name is known in part, it may be anything: that is left out.
    """
    if b"$" not in data:
        return
    for match in _WITH_VARIABLE.finditer(data):
        text = match[0].decode("utf-8", "replace")
        glob = _VARIABLE.sub(b"*", _WORKSPACE.sub(b"", match[0])).decode("utf-8", "replace")
        ends = suffixes(glob) if glob.startswith("/") else (glob.removeprefix("./"),)
        yield from ((text, end) for end in ends if names_some(end))


def names_some(glob: str) -> bool:
    """Whether a glob with `*` names some scripts: those of a folder, or of a part of a name."""
    folder, slash, name = glob.rpartition("/")
    if "*" not in glob or not name.endswith((".sh", "*")):
        return False
    return not folder.startswith("*") if slash else name.endswith(".sh") and name != "*.sh"


def _script_names(data: bytes) -> set[str]:
    """What may be the path of a script from some folder: all that ends in `.sh`."""
    at = data.find(b".sh")
    tails: set[bytes] = set()
    while at >= 0:
        if data[at + 3 : at + 4] in _BEHIND_NAME:
            tails.update(data[max(0, at - 200) : at].split()[-1:])
        at = data.find(b".sh", at + 3)
    names = (_NO_NAME.split(tail)[-1].decode().lstrip("/") for tail in tails)
    return {f"{name}.sh" for name in names if name}


def _folders_entered(data: bytes) -> set[str]:
    found = (match[1].decode() for pattern in _ENTERS for match in pattern.finditer(data))
    return {folder.strip("/") for folder in found}
