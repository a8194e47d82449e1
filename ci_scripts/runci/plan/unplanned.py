"""Registrations that no plan can hold, and which of them somebody accepted; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runci.checks.engine import Result
from runci.checks.rule import Tree
from runci.core.finding import Finding
from runci.core.source import Span
from runci.plan.model import Accepted
from runci.read.registrations import registration
from runci.read.testfile import MarkerCall, TestFile

_FORM = ("RT102", "RT103", "RT104", "RT105", "RT106", "RT107")
_SUITE = ("RT105", "RT201")  # the first finds an empty name
_NAME = ("RT306",)
_FILE = ("RT401", "RT402", "RT403")
# What finds it too: a comment or a baseline that accepts the finding accepts that nothing runs.
RULES = frozenset((*_FORM, *_SUITE, *_NAME, *_FILE))


@dataclass(frozen=True, slots=True)
class Unplannable:
    """Something that would never run. `rules` are those that find it; `text` says what it is."""

    path: str
    span: Span
    text: str
    rules: tuple[str, ...]

    @property
    def message(self) -> str:
        """One line, with its place."""
        return f"{self.path}:{self.span.line}: {self.text}"


def unplannable(tree: Tree) -> list[Unplannable]:
    """What no plan can hold, and so would never run, in silence."""
    found = [fault for file in tree.files for fault in _faults(file, tree)]
    for file in tree.uncollected:
        if file.calls:
            patterns = ", ".join(tree.taxonomy.globs(file.path).test_files)
            call = file.calls[0]
            text = f"{call.written}: the name is not collected ({patterns})"
            found.append(Unplannable(file.path, call.span, text, _NAME))
    return found


def divide(
    items: Iterable[Unplannable], result: Result
) -> tuple[tuple[str, ...], tuple[Accepted, ...]]:
    """What nobody accepted, and what is accepted, by what the checks say of its place.

    What no rule finds is not accepted.
    """
    refused: list[str] = []
    accepted: list[Accepted] = []
    for item in items:
        consent = [one for one in result.accepted if _is_about(one.finding, item)]
        if not consent or any(_is_about(finding, item) for finding in result.findings):
            refused.append(item.message)
            continue
        first = consent[0]
        line = item.span.line
        accepted.append(Accepted(item.path, line, item.text, first.finding.rule, first.why))
    return tuple(refused), tuple(accepted)


def _is_about(finding: Finding, item: Unplannable) -> bool:
    if finding.path != item.path or finding.rule not in item.rules:
        return False
    if item.rules is _NAME:  # one finding a file
        return True
    first, last = finding.span.line, finding.span.end_line
    return first <= item.span.end_line and item.span.line <= last


def _faults(file: TestFile, tree: Tree) -> Iterator[Unplannable]:
    for error in file.errors:
        if error.kind != "bom":
            text = f"cannot be read: {error.message}"
            yield Unplannable(file.path, error.span, text, _FILE)
    for call in file.calls:
        reason = _fault(call, tree)
        if reason is not None:
            yield Unplannable(file.path, call.span, f"{call.written}: {reason[0]}", reason[1])


def _fault(call: MarkerCall, tree: Tree) -> tuple[str, tuple[str, ...]] | None:
    item = registration(call)
    if item is None:
        return "not a registration that can be read", _FORM
    taxonomy = tree.taxonomy
    if item.enabled and taxonomy.suite(item.backend, item.effective_suite) is None:
        name, others = item.effective_suite, taxonomy.backends_with(item.effective_suite)
        known = "".join(f"; {backend.value} has it" for backend in others)
        return f"{item.backend.value} has no suite {name!r}{known}", _SUITE
    return None
