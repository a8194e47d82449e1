"""Jobs on machines of ours without a timeout, or that leave credentials there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runci.checks.wf.audit import Audit, WorkflowRule, job_span, key_span
from runci.core.finding import Finding
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.model import Document, action_of, combinations, steps_of, text_of_node
from runci.workflows.outputs import MAX_ACTIONS
from runci.workflows.starts import is_hosted, shown


def careless_runner_job(audit: Audit) -> Iterator[Finding]:
    """One finding for the timeout, one at each checkout that keeps its token."""
    for document, job, node in audit.jobs():
        if node.get("uses") is not None or _hosted(node, document, audit.hosted):
            continue
        runs_on = shown(node.get("runs-on"))
        if node.get("timeout-minutes") is None:
            yield Finding(
                document.path,
                job_span(document, job),
                "WF109",
                f"job {job!r} on {runs_on} has no timeout-minutes",
                "Write `timeout-minutes:`; without it a hanging job holds the machine six hours.",
                key=f"{job}: timeout",
            )
        for place, step in _checkouts(document, steps_of(node), audit.documents, 0):
            yield Finding(
                place.path,
                key_span(step, "uses") if step.keys else at(step.line),
                "WF109",
                f"job {job!r} on {runs_on} leaves the token of actions/checkout on the machine",
                "Write `with: {persist-credentials: false}`.",
                key=f"{job}: credentials",
            )


def _hosted(node: Node, document: Document, hosted: tuple[str, ...]) -> bool:
    matrices = [{"matrix": bound.values} for bound in combinations(node, {}, document.path)]
    return all(is_hosted(node.get("runs-on"), each, hosted) for each in matrices)


def _checkouts(
    document: Document, steps: tuple[Node, ...], documents: Mapping[str, Document], depth: int
) -> Iterator[tuple[Document, Node]]:
    for step in steps:
        if text_of_node(step.get("uses")).lower().startswith("actions/checkout@"):
            if text_of_node(step.get("with", "persist-credentials")).lower() != "false":
                yield document, step
            continue
        action = action_of(step, documents)
        runs = action.root.get("runs") if action is not None else None
        if action is not None and runs is not None and depth < MAX_ACTIONS:
            yield from _checkouts(action, steps_of(runs), documents, depth + 1)


CARELESS_RUNNER_JOB = WorkflowRule(
    id="WF109",
    name="careless-runner-job",
    summary="A self-hosted job has no timeout, or leaves its token in the checkout.",
    reason="A machine of ours outlives the job: a job that hangs holds it for six hours, and a "
    "token in `.git/config` can be read by whatever runs in the job, or after it.",
    bad="jobs:\n  gpu:\n    runs-on: 1-gpu-5090\n    steps:\n      - uses: actions/checkout@v5",
    good="on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-5090\n"
    "    timeout-minutes: 30\n"
    "    steps:\n"
    "      - uses: actions/checkout@v5\n"
    "        with: {persist-credentials: false}",
    check=careless_runner_job,
)

RULES = (CARELESS_RUNNER_JOB,)
