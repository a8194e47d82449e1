"""A finding: what every check gives and every reporter shows."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from runci.core.source import Span


class Level(str, enum.Enum):
    """Whether a finding fails the run, or only says what could not be checked."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault, at one place.

    `path` is relative to the root, with forward slashes. `message` says what is wrong and names
    the value; `remedy` says how to mend it. `key` tells findings of one rule in one file apart
    where lines move (a baseline compares it): the faulty text, never a position.
    """

    path: str
    span: Span
    rule: str
    message: str
    remedy: str = ""
    key: str = ""
    fixable: bool = False
    level: Level = Level.ERROR

    @property
    def line(self) -> int:
        """First line, from 1."""
        return self.span.line

    @property
    def column(self) -> int:
        """First column, from 1, in characters."""
        return self.span.column


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run looked at, for the last line of a report.

    `seconds` is wall time; `noun` names what was checked («test files», «files»).
    """

    files: int
    seconds: float
    noun: str = "files"
    registrations: int | None = None
    suppressed: int = 0
    baselined: int = 0
    fixed: int = 0


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What a reader is told of a check.

    `name` is kebab-case; `summary` is one line; `reason` says what goes wrong without the check;
    `bad` is found by it and `good` is the same, mended.
    """

    id: str
    name: str
    summary: str
    reason: str
    bad: str
    good: str
    fixable: bool = False
