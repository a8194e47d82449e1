"""WF104: a decision taken from the event's payload, which is frozen when the run begins."""

from __future__ import annotations

from collections.abc import Iterator

from runci.audit.conditions import parts, shown
from runci.audit.events import stranger_events
from runci.audit.model import Audit, WorkflowRule
from runci.finding import Finding
from runci.source import at
from runci.workflows import expressions as syntax
from runci.workflows.expressions import Expression, ExpressionError, Literal, Name, parse, split
from runci.workflows.values import text_of
from runci.yamlpos import Node

_FROZEN = frozenset(
    ("event", *path)
    for path in (
        ("pull_request", "labels"),
        ("pull_request", "draft"),
        ("issue", "labels"),
        ("issue", "draft"),
        ("label", "name"),
    )
)
# What only names or separates runs decides nothing.
_NO_DECISION = frozenset({"concurrency", "name", "run-name", "description"})


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each value that reads labels or the draft state from the payload."""
    for document in audit.documents.values():
        called = "workflow_call" in document.triggers or not document.jobs
        if not (called or stranger_events(document)):
            continue
        for node, key in _values(document.root, ""):
            for reference in _frozen(node, key):
                yield Finding(
                    document.path,
                    at(node.line, node.column),
                    "WF104",
                    f"{reference} is what it was when the event happened",
                    "Ask the gate, which asks GitHub: a re-run keeps the payload, whatever "
                    "happened to the label since.",
                    key=reference,
                )


def _values(node: Node, key: str) -> Iterator[tuple[Node, str]]:
    if isinstance(node.value, str):
        yield node, key
    for item in node.items:
        yield from _values(item, key)
    for name, below in node.mapping.items():
        if name not in _NO_DECISION:
            yield from _values(below, name)


def _frozen(node: Node, key: str) -> Iterator[str]:
    pieces = split(str(node.value))
    lone = key == "if" and len(pieces) == 1
    seen: set[str] = set()
    for piece in pieces:
        if not (piece.expression or lone) or "github" not in piece.text.lower():
            continue
        try:
            found = parse(piece.text)
        except (ExpressionError, RecursionError):
            continue  # another rule reports it
        seen.update(shown(p) for p in parts(found) if _path(p) in _FROZEN)
    yield from sorted(seen)


def _path(expression: Expression) -> tuple[str, ...]:
    keys: list[str] = []
    while isinstance(expression, syntax.Access) and isinstance(expression.key, Literal):
        keys.insert(0, text_of(expression.key.value).lower())
        expression = expression.of
    return tuple(keys) if expression == Name("github") else ()


RULE = WorkflowRule(
    id="WF104",
    name="frozen-payload",
    summary="Labels or the draft state are read from the event's payload.",
    reason="The payload is what GitHub sent when the event happened. A re-run gets the same one: "
    "a label that was taken off still counts, one that was put on is not seen. The gate asks for "
    "the live state. (`concurrency` may read the payload: it only keeps runs apart.)",
    bad="on: pull_request\n"
    "jobs:\n"
    "  gpu:\n"
    "    needs: call-gate\n"
    "    if: contains(github.event.pull_request.labels.*.name, 'run-ci')",
    good="on: pull_request\n"
    "jobs:\n"
    "  gpu:\n"
    "    needs: call-gate\n"
    "    if: needs.call-gate.outputs.allowed == 'true'",
    check=check,
)
