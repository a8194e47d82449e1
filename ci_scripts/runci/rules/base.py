"""What a rule is, and what it is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runci.finding import RuleInfo
from runci.source import Span
from runci.suites import Taxonomy

if TYPE_CHECKING:
    from runci.finding import Finding
    from runci.parse.model import MarkerCall, TestFile
    from runci.registration import Registration
    from runci.source import Edit
    from runci.workflows import SuiteRuns


@dataclass(frozen=True, slots=True)
class Tree:
    """What the rules see: every test file of the repository, in order, and its taxonomy.

    `uncollected` are Python files under a root that no runner collects. `packages` are the
    folders that hold an `__init__.py`. `suite_runs` is None where there are no workflows.
    """

    files: Sequence[TestFile]
    taxonomy: Taxonomy
    registrations: Mapping[str, tuple[Registration, ...]] = field(default_factory=dict)
    uncollected: Sequence[TestFile] = ()
    packages: frozenset[str] = frozenset()
    suite_runs: SuiteRuns | None = None

    def of(self, file: TestFile) -> tuple[Registration, ...]:
        """The valid registrations of a file."""
        return self.registrations.get(file.path, ())

    def rejected(self, file: TestFile) -> Sequence[MarkerCall]:
        """The calls of a file where any makes no registration: nearly always none at all."""
        if len(self.of(file)) == len(file.calls):
            return ()
        return [call for call in file.calls if call.via != "value"]  # those have no arguments


FileCheck = Callable[["TestFile", Tree], Iterable["Finding"]]
TreeCheck = Callable[[Tree], Iterable["Finding"]]
# The file, its text, and the finding to mend; no edits where there is no one right answer.
Fix = Callable[["TestFile", str, "Finding", Tree], Sequence["Edit"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule(RuleInfo):
    """A rule about one file alone. `files` says which: «test» files, or «uncollected» ones."""

    check: FileCheck
    fix: Fix | None = None
    files: str = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRule(RuleInfo):
    """A rule that compares files, or files with workflows."""

    check: TreeCheck
    fix: Fix | None = None


Rule = FileRule | TreeRule


def arguments_span(file: TestFile, registration: Registration, *names: str) -> Span:
    """Where these arguments of a registration stand, from the first to the last of them."""
    call = next((c for c in file.calls if c.span == registration.span), None)
    spans = [a.span for a in call.arguments if a.name in names] if call is not None else []
    if not spans:
        return registration.span
    first, last = min(spans), max(spans)
    return Span(first.line, first.column, last.end_line, last.end_column)


def nearest(word: str, known: Iterable[str]) -> str:
    """«; did you mean 'x'?», or nothing."""
    return _nearest(word, tuple(known))


@functools.cache  # one wrong name often stands in many files, and comparing is slow
def _nearest(word: str, known: tuple[str, ...]) -> str:
    import difflib

    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
