"""Which suites the workflows of a repository run: the result, which can be cached as JSON."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from dataclasses import dataclass

from runci.registration import Backend


@dataclass(frozen=True, slots=True, order=True)
class SuiteRun:
    """A suite that a job starts, at the place where its name is written.

    `suite` is a name, or a glob where `resolved` is False. `backend` is None where the command
    does not say, or not in a way that can be known.
    """

    path: str
    line: int
    suite: str
    backend: Backend | None
    job: str
    resolved: bool = True

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
