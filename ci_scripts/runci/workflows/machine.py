"""A job's machine, as far as a gate depends on it: whose files lie where, and what is doubtful."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Doubt:
    """Why a gate's answer may be the pull request's: the key that says so, and what it does."""

    path: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A job's machine after some steps.

    `foreign` are the folders, from the workspace, with files of the pull request ('' is all of
    it); `doubts` are reasons why a program found there may be its own; `asked` are those that
    there were when a gate was asked.
    """

    foreign: frozenset[str] = frozenset()
    doubts: tuple[Doubt, ...] = ()
    asked: tuple[Doubt, ...] = ()

    def holds(self, path: str | None) -> bool:
        """Whether a path from the workspace may be the pull request's; None: it is not known."""
        if path is not None and path.startswith(("/", "~", "$")):
            return False
        if path is None or "" in self.foreign:
            return bool(self.foreign)
        return any(f"{path}/".startswith(f"{folder}/") for folder in self.foreign)


def joined(folder: str, path: str) -> str:
    """A path from a folder of the workspace, normalised; '' is the workspace."""
    found = posixpath.normpath(posixpath.join(folder, _WORKSPACE.sub("", path)))
    return "" if found == "." else found


_WORKSPACE = re.compile(
    r"^(\$GITHUB_WORKSPACE|\$\{GITHUB_WORKSPACE\}|\$PWD|\$\{\{\s*github\.workspace\s*\}\})/?"
)
