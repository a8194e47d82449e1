"""Matrices without shards, suites on another runner than they declare."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.checks.wf.audit import Audit, WorkflowRule, key_span
from runci.config.taxonomy import Runner, Suite
from runci.core.finding import Finding
from runci.core.labels import serves, shown_label
from runci.core.registration import Backend
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.model import action_of, mapping_at, steps_of, text_of_node
from runci.workflows.runs import SuiteRun, local_path
from runci.workflows.starts import asked_labels
from runci.workflows.walk import RUNS_ON

# What makes the same tests another test: machine, environment, container.
_MAKES_A_DIFFERENCE = ("runs-on", "env", "container", "services", "with")


def matrix_without_shards(audit: Audit) -> Iterator[Finding]:
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


MATRIX_WITHOUT_SHARDS = WorkflowRule(
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
    check=matrix_without_shards,
)


def suite_on_another_runner(audit: Audit) -> Iterator[Finding]:
    """One finding at each run on another runner, and at each suite that only such runs have."""
    right: set[tuple[Backend, str]] = set()
    wrong: dict[tuple[Backend, str], Suite] = {}
    seen: set[Finding] = set()
    for script, runs in audit.suite_scripts:
        on = asked_labels(script.scope.contexts.get(RUNS_ON))
        for run in runs:
            for suite, runner in _declared(audit, run):
                key = (suite.backend, suite.name)
                others = [label for label in on if not serves(runner.label, label)]
                if not others:
                    right.add(key)  # also where the labels cannot be known
                    continue
                wrong[key] = suite
                seen.add(_finding(run, runner, shown_label(others[0]), audit.taxonomy.path))
    yield from sorted(seen)
    for key in wrong.keys() - right:
        yield _nowhere(wrong[key], audit)


def _declared(audit: Audit, run: SuiteRun) -> Iterator[tuple[Suite, Runner]]:
    """The suite that a run is, with its runner; nothing where several backends have the name."""
    backends = (run.backend,) if run.backend else tuple(Backend)
    found = [s for b in backends if run.resolved and (s := audit.taxonomy.suite(b, run.suite))]
    runners = audit.taxonomy.runners
    runner = runners.get(found[0].runner or "") if len(found) == 1 else None
    if runner is not None:
        yield found[0], runner


def _finding(run: SuiteRun, runner: Runner, on: str, config: str) -> Finding:
    wanted = shown_label(runner.label)
    return Finding(
        run.path,
        at(run.line),
        "WF107",
        f"suite {run.suite!r} runs on {on}; its runner {runner.name} is {wanted}",
        f"Write `runs-on: {wanted}`, or correct the runner in {config}.",
        key=f"{run.job}: {run.suite}",
    )


def _nowhere(suite: Suite, audit: Audit) -> Finding:
    return Finding(
        audit.taxonomy.path,
        at(suite.line),
        "WF107",
        f"no job runs suite {suite.name!r} on its runner {suite.runner}",
        "Run it there, or correct the runner.",
        key=suite.name,
    )


SUITE_ON_ANOTHER_RUNNER = WorkflowRule(
    id="WF107",
    name="suite-on-another-runner",
    summary="A suite runs on another runner than suites.yml says.",
    reason="Tests that skip themselves on the wrong hardware are green there and tested nowhere; "
    "times and shards are planned for the other machine. (A suite that no job runs at all is "
    "RT205.)",
    bad="# suites.yml: 1-gpu-small is label 1-gpu-5090\n"
    "on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-h100\n"
    "    steps:\n"
    "      - run: runci run --suite base-b-test-1-gpu-small",
    good="on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-5090\n"
    "    steps:\n"
    "      - run: runci run --suite base-b-test-1-gpu-small",
    check=suite_on_another_runner,
)

RULES = (MATRIX_WITHOUT_SHARDS, SUITE_ON_ANOTHER_RUNNER)
