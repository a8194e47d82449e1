"""What an event's frozen payload decides, and an event that runs with secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runci.checks.wf.audit import Audit, WorkflowRule, key_span
from runci.checks.wf.payload import in_expressions, in_javascript, in_script, only_prints
from runci.core.finding import Finding
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.conditions import stranger_events
from runci.workflows.model import Document, mapping_at, steps_of, text_of_node

# What only names or separates runs decides nothing.
_NO_DECISION = frozenset({"concurrency", "name", "run-name", "description"})


def frozen_payload(audit: Audit) -> Iterator[Finding]:
    """One finding at each value that reads labels or the draft state from the payload."""
    for document in audit.documents.values():
        called = "workflow_call" in document.triggers or not document.jobs
        if not (called or stranger_events(document)):
            continue
        for node, key in _values(document.root, ""):
            for reference in in_expressions(str(node.value), whole=key == "if"):
                yield _frozen(document, node, reference)
        for step in _steps(document.root):
            script, given = text_of_node(step.get("run")), step.get("with", "script")
            for reference in in_script(script):
                yield _frozen(document, step.get("run") or step, reference)
            for reference in in_javascript(text_of_node(given)):
                yield _frozen(document, given or step, reference)


def _frozen(document: Document, node: Node, reference: str) -> Finding:
    return Finding(
        document.path,
        at(node.line, node.column),
        "WF104",
        f"{reference} is what it was when the event happened",
        "Ask the gate, which asks GitHub: a re-run keeps the payload, whatever happened to the "
        "label since.",
        key=reference,
    )


def _steps(root: Node) -> Iterator[Node]:
    """The steps of a workflow or of an action."""
    for job in (*mapping_at(root, "jobs").values(), root.get("runs")):
        yield from steps_of(job) if job is not None else ()


def _values(node: Node, key: str) -> Iterator[tuple[Node, str]]:
    """Every text that may decide something, with its key."""
    if isinstance(node.value, str):
        yield node, key
    for item in node.items:
        yield from _values(item, key)
    script = text_of_node(node.get("run"))  # a job, too, may be called «run»
    if script and only_prints(script):
        node = replace(node, value={"if": found} if (found := node.get("if")) else {})
    for name, below in node.mapping.items():
        if name not in _NO_DECISION:
            yield from _values(below, name)


FROZEN_PAYLOAD = WorkflowRule(
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
    check=frozen_payload,
)


def pull_request_target(audit: Audit) -> Iterator[Finding]:
    """One finding at each workflow that the event starts."""
    for document in audit.documents.values():
        if "pull_request_target" not in document.triggers:
            continue
        events = document.root.get("on")
        inside = events is not None and "pull_request_target" in events.keys
        parent, key = (events, "pull_request_target") if inside else (document.root, "on")
        yield Finding(
            document.path,
            key_span(parent or document.root, key),
            "WF110",
            "pull_request_target runs for strangers with the repository's secrets",
            "Use pull_request, or workflow_run for what needs a token that may write.",
            key="pull_request_target",
        )


PULL_REQUEST_TARGET = WorkflowRule(
    id="WF110",
    name="pull-request-target",
    summary="A workflow is started by `pull_request_target`.",
    reason="It runs with secrets and a token that may write, on an event that anybody can cause; "
    "one step that checks out the pull request's code gives both away. From 2026-12-02 GitHub "
    "blocks it in public repositories by default, so what depends on it stops.",
    bad="on: pull_request_target",
    good="on: pull_request",
    check=pull_request_target,
)

RULES = (FROZEN_PAYLOAD, PULL_REQUEST_TARGET)
