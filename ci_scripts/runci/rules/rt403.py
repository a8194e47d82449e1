"""RT403: a file that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.errors_of import parse_findings

_REMEDY = "Make it a readable regular file of a few thousand lines, or exclude it in suites.yml."


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding with what the system said."""
    return parse_findings(file, "RT403", ("unreadable",), _REMEDY)


RULE = FileRule(
    id="RT403",
    name="unreadable",
    summary="The file cannot be read: permissions, a broken link, a folder link, far too large.",
    reason="A file that nobody can read is skipped in silence by most tools.",
    bad="test_x.py -> /no/such/file (a broken symbolic link)",
    good="test_x.py (a regular file)",
    check=check,
)
