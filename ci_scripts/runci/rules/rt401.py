"""RT401: a syntax error."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.errors_of import parse_findings

_REMEDY = "Correct the file; until then no other rule can read it, and no runner can run it."


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding with Python's own message, at Python's position."""
    return parse_findings(file, "RT401", ("syntax",), _REMEDY)


RULE = FileRule(
    id="RT401",
    name="syntax-error",
    summary="The file is not valid Python.",
    reason="A runner that reads all registrations stops at this file for everybody; one that skips "
    "it never runs it.",
    bad="def test_addition(:\n    assert 1 + 1 == 2",
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2",
    check=check,
)
