"""WF107: a suite that runs on another runner than suites.yml says."""

from __future__ import annotations

from collections.abc import Iterator

from runci.audit.model import Audit, WorkflowRule
from runci.audit.runners import label_lists
from runci.finding import Finding
from runci.registration import Backend
from runci.source import at
from runci.suites import Runner, Suite
from runci.workflows.runs import SuiteRun
from runci.workflows.walk import RUNS_ON


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each run on another runner, and at each suite that only such runs have."""
    right: set[tuple[Backend, str]] = set()
    wrong: dict[tuple[Backend, str], Suite] = {}
    seen: set[Finding] = set()
    for script, runs in audit.suite_scripts:
        on = label_lists(script.scope.contexts.get(RUNS_ON))
        for run in runs:
            for suite, runner in _declared(audit, run):
                key = (suite.backend, suite.name)
                others = [labels for labels in on if runner.label.lower() not in labels]
                if not others:
                    right.add(key)  # also where the labels cannot be known
                    continue
                wrong[key] = suite
                seen.add(_finding(run, runner, " ".join(others[0]), audit.taxonomy.path))
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
    return Finding(
        run.path,
        at(run.line),
        "WF107",
        f"suite {run.suite!r} runs on {on}; its runner {runner.name} is {runner.label}",
        f"Write `runs-on: {runner.label}`, or correct the runner in {config}.",
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


RULE = WorkflowRule(
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
    check=check,
)
