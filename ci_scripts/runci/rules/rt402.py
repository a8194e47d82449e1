"""RT402: bytes that are not the text they should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.errors_of import parse_findings
from runci.source import Edit

_REMEDY = "Save the file as UTF-8 without a byte order mark."


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at the first faulty byte; a BOM leaves the rest of the file readable."""
    return parse_findings(file, "RT402", ("encoding", "bom"), _REMEDY)


def fix(_file: TestFile, _text: str, _finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Nothing to edit: text is always written without a BOM."""
    return []


_GOOD = (
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2"
)

RULE = FileRule(
    id="RT402",
    name="encoding",
    summary="A byte order mark, bytes outside the file's encoding, or a NUL byte.",
    reason="Readers differ: what one skips in silence stops the next with an exception, for every "
    "file of the run.",
    bad="\ufeff" + _GOOD,
    good=_GOOD,
    fixable=True,
    check=check,
    fix=fix,
)
