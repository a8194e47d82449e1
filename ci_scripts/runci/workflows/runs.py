"""Which suites the workflows of a repository run: read, found or taken from the cache."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runci.config.taxonomy import Workflows
from runci.core import inputs
from runci.core.registration import Backend

ACTION_FILES = ("action.yml", "action.yaml")
WORKFLOW_SUFFIXES = (".yml", ".yaml")

# `$/` is the repository at the commit of the workflow, `./` what the job checked out there.
LOCAL = ("./", "$/")
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
    gives one file; None where it does not say so.
    """

    path: str
    line: int
    suite: str
    backend: Backend | None
    job: str
    resolved: bool = True
    file_timeout: float | None = None

    def starts(self, backend: Backend, suite: str) -> bool:
        """Whether it can be this suite of this backend."""
        if self.backend not in (None, backend):
            return False
        return self.suite == suite if self.resolved else fnmatch.fnmatchcase(suite, self.suite)


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """A suite name that cannot be known. `typed`: somebody types it when starting the workflow."""

    path: str
    line: int
    expression: str
    typed: bool = False


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
        return cls(tuple(runs), tuple(unresolved), tuple(Broken(**b) for b in plain["broken"]))


def read_workflows(root: Path, settings: Workflows) -> tuple[dict[str, bytes], tuple[Broken, ...]]:
    """The files by path from the root, and those that cannot be read."""
    inputs.look(*(root / folder for folder in settings.paths))
    files: dict[str, bytes] = {}
    broken: list[Broken] = []
    waiting = [
        posixpath.join(folder, path.name)
        for folder in settings.paths
        for path in sorted((root / folder).glob("*"))
        # In whatever case: a file that GitHub might start must not be left out of a proof.
        if path.suffix.lower() in WORKFLOW_SUFFIXES
    ]
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        try:
            data = (root / path).read_bytes()
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
