"""RT305: a registered test file without a test."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.script import is_benchmark


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the registration of each such file; benchmarks need no test."""
    registrations = [r for r in tree.of(file) if r.enabled]
    if file.tests or not registrations or is_benchmark(file, tree):
        return
    yield Finding(
        file.path,
        registrations[0].span,
        "RT305",
        "the file is registered but has no test class and no test function",
        "Define tests (`class Test...`, `def test_...`), or remove the registration and rename "
        "the file if it only helps others.",
    )


RULE = FileRule(
    id="RT305",
    name="no-tests",
    summary="A registered file defines no test class and no test function.",
    reason="It runs, finds nothing and is green, and its suite seems larger than it is.",
    bad="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def helper():\n    return 2",
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_helper():\n    assert 1 + 1 == 2",
    check=check,
)
