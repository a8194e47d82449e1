"""RT205: an enabled registration in a suite that no workflow runs."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding, Level
from runci.registration import Backend
from runci.rules.base import Tree, TreeRule, nearest
from runci.source import at
from runci.workflows import SuiteRuns


def check(tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration, and one at each workflow line that hides a suite."""
    if tree.suite_runs is None:
        return
    yield from _unread(tree.suite_runs)
    messages: dict[tuple[Backend, str], str | None] = {}
    for path, registrations in tree.registrations.items():
        for registration in registrations:
            key = (registration.backend, registration.effective_suite)
            if key not in messages:
                messages[key] = _message(tree, tree.suite_runs, *key)
            message = messages[key]
            if message is not None and registration.enabled:
                yield Finding(
                    path,
                    registration.span,
                    "RT205",
                    message,
                    "Run the suite in a workflow, or register where one runs; where something "
                    f"else runs it, say so with `run_by` in {tree.taxonomy.path}.",
                    key=registration.effective_suite,
                )


def _message(tree: Tree, runs: SuiteRuns, backend: Backend, name: str) -> str | None:
    suite = tree.taxonomy.suite(backend, name)
    if suite is None or suite.run_by is not None or runs.starts(backend, name):
        return None  # a suite that is not declared is RT201
    run = {run.suite for run in runs.runs if run.resolved and run.backend in (None, backend)}
    hint = nearest(name, sorted(run)).replace("did you mean", "one runs")
    return f"no workflow runs {backend.value} suite {name!r}{hint.rstrip('?')}"


def _unread(runs: SuiteRuns) -> Iterator[Finding]:
    for broken in runs.broken:
        yield Finding(
            broken.path,
            at(broken.line),
            "RT205",
            f"this workflow cannot be used: {broken.message}",
            "Mend the file: no suite that it names counts as run.",
            key=broken.message,
        )
    for place in runs.unresolved:
        if place.typed:
            message = f"{place.expression} is typed by hand: counts as running no suite"
        else:
            message = f"cannot know which suites {place.expression} names: counts as running all"
        yield Finding(
            place.path,
            at(place.line),
            "RT205",
            message,
            "Name the suites in a matrix, as an input of a called workflow, or as the options of "
            "a choice.",
            key=place.expression,
            level=Level.NOTE,
        )


RULE = TreeRule(
    id="RT205",
    name="suite-never-run",
    summary="An enabled registration is in a suite that no workflow runs.",
    reason="The test looks registered but never runs. (Workflows are read through called "
    "workflows, composite actions and matrices; a suite with `run_by` in suites.yml is left "
    "alone.)",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu")',
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n"
    "      - run: runci run --hw cpu --suite base-b-test-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu")',
    check=check,
)
