"""RT501: an estimate that the suite's timeout cannot hold."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree, arguments_span


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each enabled registration whose estimate exceeds the timeout."""
    for registration in tree.of(file):
        suite = tree.taxonomy.suite(registration.backend, registration.effective_suite)
        if suite is None or suite.timeout_minutes is None or registration.est_time is None:
            continue
        limit = suite.timeout_minutes * 60
        if registration.enabled and registration.est_time > limit:
            yield Finding(
                file.path,
                arguments_span(file, registration, "est_time"),
                "RT501",
                f"est_time={registration.est_time:g} s exceeds the timeout of {suite.name}: "
                f"{suite.timeout_minutes:g} min ({limit:g} s)",
                "Split the file, use a suite with a longer timeout, or correct the estimate.",
                key=suite.name,
            )


RULE = FileRule(
    id="RT501",
    name="estimate-over-timeout",
    summary="An estimate is larger than the timeout of its suite.",
    reason="No partition can make the job fit: it is killed at the timeout on every run.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=86400, stage="base-a", '
    'runner_config="cpu")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=60, stage="base-a", '
    'runner_config="cpu")',
    check=check,
)
