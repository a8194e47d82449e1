"""Checkouts that take the pull request where their `ref` or `repository` is empty."""

from __future__ import annotations

from collections.abc import Iterator

from runci.checks.wf.audit import Audit, WorkflowRule, key_span
from runci.core.finding import Finding
from runci.read.yamlpos import Node
from runci.workflows.conditions import condition, stranger_context, stranger_events
from runci.workflows.evaluate import can_be
from runci.workflows.model import (
    Document,
    called_by,
    default_input,
    mapping_at,
    steps_of,
    text_of_node,
)
from runci.workflows.origins import perhaps_empty, runs_own_commit
from runci.workflows.starts import only_hosted
from runci.workflows.values import Contexts, Partial, Unknown, Value, flat, one

_CHECKOUT = "actions/checkout@"
MAX_DEPTH = 3  # of calls through which an input is followed


def empty_checkout(audit: Audit) -> Iterator[Finding]:
    """One finding at each such key, on the first event where it matters."""
    for document, job, node in audit.jobs():
        steps, hosted = steps_of(node), only_hosted(node, document, audit.hosted)
        for at, step in enumerate(steps):
            if not text_of_node(step.get("uses")).lower().startswith(_CHECKOUT):
                continue
            gated = any(audit.gates.mentions(later) for later in steps[at + 1 :])
            if gated or not hosted:
                yield from _findings(document, job, (node, step), gated, audit)


def _findings(
    document: Document, job: str, at: tuple[Node, Node], gated: bool, audit: Audit
) -> Iterator[Finding]:
    given = at[1].get("with") or at[1]
    for key, node in given.mapping.items():
        if key.lower() not in ("ref", "repository"):
            continue
        for event, contexts in _ways(document, audit):
            if _can_run(at, contexts) and _takes_another(node, contexts, gated):
                yield Finding(
                    document.path,
                    key_span(given, key),
                    "WF112",
                    f"{key} {text_of_node(node)} can be empty on {event}: job {job!r} then checks "
                    "the pull request out" + (", and its gate is asked there" if gated else ""),
                    "Write what to take then (`… || 'main'`), give the input a default or make it "
                    "`required`, or fail before where it is empty.",
                    key=f"{job}: {key}",
                )
                break


def _can_run(at: tuple[Node, Node], contexts: Contexts) -> bool:
    holds = (condition(node.get("if")) for node in at)
    return all(found is None or can_be(True, found, contexts) for found in holds)


def _takes_another(node: Node, contexts: Contexts, gated: bool) -> bool:
    """Whether it is empty where somebody meant something else, or a gate is asked afterwards.

    What is always empty on an event, or so by an `''` of its own, is a way to write the default.
    """
    text = text_of_node(node)
    if "${{" not in text:
        return False
    empty = [value in ("", None) for value in perhaps_empty(node, contexts)]
    return any(empty) and (gated or not (all(empty) or "''" in text))


def _ways(document: Document, audit: Audit) -> Iterator[tuple[str, Contexts]]:
    """The events on which the job's own commit is a stranger's, with what is known then."""
    for event in stranger_events(document):
        contexts: Contexts = {"github": stranger_context(document, event), "inputs": {}}
        if not runs_own_commit(contexts):
            yield event, contexts
    for event in _causes(document, audit) if "workflow_call" in document.triggers else ():
        github = stranger_context(document, event)
        if not runs_own_commit({"github": github}):
            inputs = _inputs(document, event, audit)
            yield f"{event}, called", {"github": github, "inputs": inputs}


def _callers(called: Document, audit: Audit) -> list[tuple[Document, Node]]:
    found = ((document, node) for document, _, node in audit.jobs())
    return [one for one in found if called_by(one[1], audit.documents) is called]


def _causes(called: Document, audit: Audit) -> tuple[str, ...]:
    """The events of strangers behind a call: of the callers here, else of any caller elsewhere."""
    found: dict[str, None] = {}
    waiting, seen = [called], {called.path}
    while waiting:
        callers = [document for document, _ in _callers(waiting.pop(), audit)]
        found |= dict.fromkeys(e for document in callers for e in stranger_events(document))
        if not callers:
            found["pull_request"] = None
        for document in callers:
            if "workflow_call" in document.triggers and document.path not in seen:
                seen.add(document.path)
                waiting.append(document)
    return tuple(found)


def _inputs(called: Document, event: str, audit: Audit, depth: int = 0) -> dict[str, Value]:
    """What each input can be: of what callers here hand over, else of its declaration."""
    found: dict[str, Value] = {}
    callers = [
        (_of_caller(document, event, audit, depth), mapping_at(node, "with"))
        for document, node in _callers(called, audit)
        if "workflow_call" in document.triggers or event in stranger_events(document)
    ]
    for name, declared in called.declared("on", "workflow_call", "inputs").items():
        handed = [perhaps_empty(given[name], known) for known, given in callers if name in given]
        left_out = len(handed) < len(callers) or not callers
        if left_out and text_of_node(declared.get("required")) != "true":
            chosen = declared.get("default") is not None
            handed.append((default_input(declared), *(() if chosen else (Unknown(),))))
        found[name] = one(flat(handed)) if handed else Unknown()
    return found


def _of_caller(document: Document, event: str, audit: Audit, depth: int) -> Contexts:
    """Of what an event starts the inputs are all empty."""
    inputs: Value = {}
    if "workflow_call" in document.triggers:
        inputs = _inputs(document, event, audit, depth + 1) if depth < MAX_DEPTH else Partial()
    return {"github": stranger_context(document, event), "inputs": inputs}


EMPTY_CHECKOUT = WorkflowRule(
    id="WF112",
    name="empty-checkout",
    summary="A checkout takes the pull request where its `ref` or `repository` is empty.",
    reason="`actions/checkout` reads an empty `ref` as the event's commit and an empty "
    "`repository` as the one that the workflow runs in: of a pull request both are the stranger's. "
    "A variable that is not set, an input that a caller leaves out, and `job.workflow_sha`, which "
    "GitHub has and neither act nor GitHub Enterprise Server, are empty. Looked at are checkouts "
    "on machines of yours, and those before a gate. What is always empty on an event is a way to "
    "write the default, and stays unless a gate follows.",
    bad="on: {pull_request: {}}\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-5090\n"
    "    steps:\n"
    "      - uses: actions/checkout@v5\n"
    "        with: {repository: o/tools, ref: '${{ vars.TOOLS }}', persist-credentials: false}",
    good="on: {pull_request: {}}\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-5090\n"
    "    steps:\n"
    "      - uses: actions/checkout@v5\n"
    "        with: {repository: o/tools, ref: \"${{ vars.TOOLS || 'main' }}\", "
    "persist-credentials: false}",
    check=empty_checkout,
)

RULES = (EMPTY_CHECKOUT,)
