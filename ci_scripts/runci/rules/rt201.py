"""RT201: a suite that this backend does not have."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree, arguments_span, nearest


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each registration in an undeclared suite."""
    taxonomy = tree.taxonomy
    for registration in tree.of(file):
        name, backend = registration.effective_suite, registration.backend
        if not name.strip() or taxonomy.suite(backend, name) is not None:
            continue  # an empty name is RT105's
        others = [other.value for other in taxonomy.backends_with(name)]
        known = taxonomy.names(backend)
        if others:
            hint = f"; {' and '.join(others)} has it: register_{others[0]}_ci?"
        else:
            hint = nearest(name, known)
        yield Finding(
            file.path,
            arguments_span(file, registration, "suite", "stage", "runner_config"),
            "RT201",
            f"{backend.value} has no suite {name!r}{hint}",
            f"Use a {backend.value} suite of {taxonomy.path}"
            + (f": {', '.join(known)}." if known else f": {backend.value} has none there."),
            key=name,
        )


RULE = FileRule(
    id="RT201",
    name="unknown-suite",
    summary="A registration names a suite that its backend does not have.",
    reason="No job of that backend runs that suite, so the test never runs; or a runner that "
    "checks stops for everybody.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="1-gpu-small")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")',
    check=check,
)
