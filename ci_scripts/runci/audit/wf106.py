"""WF106: a matrix whose jobs all run the same tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.audit.model import Audit, WorkflowRule, key_span
from runci.audit.steps import action_of
from runci.finding import Finding
from runci.workflows.model import mapping_at, steps_of, text_of_node
from runci.workflows.uses import local_path
from runci.yamlpos import Node

# What makes the same tests another test: machine, environment, container.
_MAKES_A_DIFFERENCE = ("runs-on", "env", "container", "services", "with")


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each matrix key that the steps with a suite command never read."""
    running = _running(audit)
    for document, job, node in audit.jobs():
        matrix = node.get("strategy", "matrix")
        called = local_path(text_of_node(node.get("uses"))) or ""
        actions = {(a.path, "") for s in steps_of(node) if (a := action_of(s, audit.documents))}
        if matrix is None or not ({(document.path, job), (called, ""), *actions} & running):
            continue
        text = _reads(node, audit)
        if re.search(r"\bmatrix\b(?!\s*[.\[])", text, re.IGNORECASE):
            continue  # handed on whole
        for axis in _axes(matrix):
            pattern = rf"matrix\s*(\.\s*{re.escape(axis)}\b|\[\s*'{re.escape(axis)}'\s*\])"
            if not re.search(pattern, text, re.IGNORECASE):
                yield Finding(
                    document.path,
                    key_span(matrix, axis),
                    "WF106",
                    f"each job of matrix {axis!r} runs all tests of the suite",
                    f"Hand `matrix.{axis}` to the command, as its shard.",
                    key=f"{job}: {axis}",
                )


def _running(audit: Audit) -> set[tuple[str, str]]:
    """Jobs that run a suite, and workflows and actions that do, as (path, "")."""
    found: set[tuple[str, str]] = set()
    for script, _ in audit.suite_scripts:
        found |= {(script.scope.path, script.scope.job), (script.scope.path, "")}
    return found


def _axes(matrix: Node) -> Iterator[str]:
    for name, node in matrix.mapping.items():
        if name not in ("include", "exclude") and (len(node.items) > 1 or not node.items):
            yield name


def _reads(job: Node, audit: Audit) -> str:
    """The text of what may make the jobs of a matrix differ."""
    below = [item for key in _MAKES_A_DIFFERENCE if (item := job.get(key)) is not None]
    commands = [c.split()[-1].rpartition("/")[2] for c in audit.taxonomy.workflows.commands]
    for step in steps_of(job):
        text = str(step.plain())
        if any(command in text for command in commands) or mapping_at(step, "with"):
            below.append(step)
    return "\n".join(str(item.plain()) for item in below)


RULE = WorkflowRule(
    id="WF106",
    name="matrix-without-shards",
    summary="The jobs of a matrix run the same tests: the suite command has no shard.",
    reason="Each job then runs the whole suite: as many machines are busy as the matrix has "
    "entries, and nothing is faster.",
    bad="on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    strategy: {matrix: {shard: [0, 1]}}\n"
    "    steps:\n"
    "      - run: runci run --suite base-b-test-1-gpu-small",
    good="on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    strategy: {matrix: {shard: [0, 1]}}\n"
    "    steps:\n"
    "      - env: {SHARD: '${{ matrix.shard }}'}\n"
    '        run: runci run --suite base-b-test-1-gpu-small --shard "$SHARD"',
    check=check,
)
