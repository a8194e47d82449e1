"""RT304: the result of the test runner is dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from runci.finding import Finding
from runci.parse.decode import Positions
from runci.parse.model import TestFile
from runci.parse.names import flat
from runci.rules.base import FileRule, Tree
from runci.rules.script import runs_as_script
from runci.source import Edit, at, split_lines


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such call in a main block, or in a function that it calls."""
    if all(block.exit_kept for block in file.mains) or not runs_as_script(file, tree):
        return
    for block in file.mains:
        if not block.exit_kept:
            yield Finding(
                file.path,
                block.call_span,
                "RT304",
                f"the result of {block.call} is dropped: failures exit 0",
                "Pass it on: sys.exit(pytest.main([...])), unittest.main() without exit=False, or "
                "sys.exit(not result.wasSuccessful()).",
                key=block.call,
                fixable=block.call == "pytest.main" and block.statement,
            )


def fix(_file: TestFile, text: str, finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Wrap a `pytest.main(...)` statement in sys.exit(...)."""
    tree, positions = ast.parse(text), Positions(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        span = finding.span
        if node.lineno == span.line and positions.span(node.value) == span:
            edits = [
                Edit(at(span.line, span.column), "sys.exit("),
                Edit(at(span.end_line, span.end_column), ")"),
            ]
            return edits if _has_sys(tree) else [*edits, _import_sys(text, finding)]
    return []


def _has_sys(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Import) and any(i.name == "sys" and not i.asname for i in node.names)
        for node in flat(tree.body)
    )


def _import_sys(text: str, finding: Finding) -> Edit:
    """`import sys` on a line of its own, above the call and with its indentation."""
    line = split_lines(text)[finding.line - 1]
    indent = line[: len(line) - len(line.lstrip())]
    return Edit(at(finding.line), f"{indent}import sys\n\n")


RULE = FileRule(
    id="RT304",
    name="exit-code-dropped",
    summary="The main block drops the result of pytest.main (or of a unittest runner).",
    reason="`pytest.main` returns the exit code instead of exiting. Dropped, every failure ends "
    "with exit 0: green.",
    bad="import pytest\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2\n\n\n"
    'if __name__ == "__main__":\n    pytest.main([__file__])\n',
    good="import pytest\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2\n\n\n"
    'if __name__ == "__main__":\n    import sys\n\n    sys.exit(pytest.main([__file__]))\n',
    fixable=True,
    check=check,
    fix=fix,
)
