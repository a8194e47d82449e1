"""RT206: a workflow that runs a suite without any enabled test."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.registration import Backend
from runci.rules.base import Tree, TreeRule, nearest
from runci.source import at
from runci.workflows import SuiteRun

Counts = dict[tuple[Backend, str], list[int]]


def check(tree: Tree) -> Iterator[Finding]:
    """One finding at each place that names such a suite."""
    if tree.suite_runs is None:
        return
    counts = _count(tree)
    seen: set[tuple[str, int, str, Backend | None]] = set()
    for run in tree.suite_runs.runs:
        place = (run.path, run.line, run.suite, run.backend)
        if not run.resolved or place in seen:
            continue
        seen.add(place)
        message = _message(run, tree, counts)
        if message:
            yield Finding(
                run.path,
                at(run.line),
                "RT206",
                message,
                "Correct the name, register a test, or drop the job: a job without tests proves "
                "nothing.",
                key=run.suite,
            )


def _count(tree: Tree) -> Counts:
    """How many registrations of each suite are enabled, and how many disabled."""
    counts: Counts = {}
    for registrations in tree.registrations.values():
        for registration in registrations:
            key = (registration.backend, registration.effective_suite)
            counts.setdefault(key, [0, 0])[not registration.enabled] += 1
    return counts


def _message(run: SuiteRun, tree: Tree, counts: Counts) -> str | None:
    backends = (run.backend,) if run.backend else tuple(Backend)
    declared = [s for b in backends if (s := tree.taxonomy.suite(b, run.suite))]
    registered = [counts[b, run.suite] for b in backends if (b, run.suite) in counts]
    if any(suite.run_by is not None for suite in declared) or any(on for on, _ in registered):
        return None
    called = f"{run.backend.value} suite {run.suite!r}" if run.backend else f"suite {run.suite!r}"
    if disabled := sum(off for _, off in registered):
        return f"{called} runs no test: all {disabled} of its registrations are disabled"
    if declared:
        return f"{called} runs no test: none is registered in it"
    known = (name for b in backends for name in tree.taxonomy.names(b) if (b, name) in counts)
    return f"{called} does not exist{nearest(run.suite, dict.fromkeys(known))}"


RULE = TreeRule(
    id="RT206",
    name="suite-without-tests",
    summary="A workflow runs a suite that has no enabled test.",
    reason="The job is green, or fails, whatever the code does: the name is wrong, or its tests "
    "are gone.",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-tests-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    check=check,
)
