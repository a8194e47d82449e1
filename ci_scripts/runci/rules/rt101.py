"""RT101: a test file that registers nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.source import at


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the top of a readable file without any marker call."""
    if file.readable and not file.calls:
        module = tree.taxonomy.marker_modules[0]
        yield Finding(
            file.path,
            at(1),
            "RT101",
            "no registration: no suite runs this file",
            f"Add, below the imports: `from {module} import register_cuda_ci` and "
            '`register_cuda_ci(est_time=SECONDS, stage="...", runner_config="...")`, with the '
            f"suites of {tree.taxonomy.path}; or rename or move what is no test.",
        )


RULE = FileRule(
    id="RT101",
    name="missing-registration",
    summary="A test file does not register in any suite.",
    reason="Runners collect registrations, not files: a test that registers nowhere never runs, "
    "and nothing turns red.",
    bad="def test_addition():\n    assert 1 + 1 == 2",
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2",
    check=check,
)
