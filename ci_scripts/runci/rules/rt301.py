"""RT301: a script without a main block that runs something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.script import runs_as_script
from runci.source import Edit, at, split_lines

_UNITTEST = 'if __name__ == "__main__":\n    unittest.main()\n'
_PYTEST = (
    'if __name__ == "__main__":\n'
    "    import sys\n\n"
    "    import pytest\n\n"
    '    sys.exit(pytest.main([__file__, "-v"]))\n'
)


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the last test of each such file."""
    if any(block.runner != "nothing" for block in file.mains):
        return
    if not file.readable or not runs_as_script(file, tree):
        return
    missing = not file.mains
    span = file.mains[-1].span if file.mains else file.last_test or at(1)
    span = at(span.line, span.column)  # a place, not the whole block
    what = 'no `if __name__ == "__main__":`' if missing else "the main block runs nothing"
    yield Finding(
        file.path,
        span,
        "RT301",
        f"{what}: `python {file.path}` runs no test and exits 0",
        "End the file with a main block that calls unittest.main(), or "
        'sys.exit(pytest.main([__file__, "-v"])).',
        fixable=missing and file.tests > 0,
    )


def fix(_file: TestFile, text: str, _finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Append a main block: unittest's where the file uses unittest alone, else pytest's."""
    body = ast.parse(text).body
    imports = [n for n in body if isinstance(n, ast.Import)]
    unittest = any(i.name == "unittest" and not i.asname for n in imports for i in n.names)
    functions = any(
        isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name.startswith("test")
        for n in body
    )
    block = _UNITTEST if unittest and not functions else _PYTEST
    lines = split_lines(text)
    last = lines[-2] if len(lines) > 1 else ""
    gap = "\n\n" if last.endswith(("\n", "\r")) else "\n\n\n"
    place = at(len(lines)) if last.endswith(("\n", "\r")) else at(len(lines) - 1, len(last) + 1)
    return [Edit(place, gap + block)]


RULE = FileRule(
    id="RT301",
    name="no-main-block",
    summary="A file that is run as a script has no main block that runs something.",
    reason="The runner executes `python FILE`. Without a main block the file defines its tests, "
    "runs none of them and exits 0: green.",
    bad="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2\n",
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    f"def test_addition():\n    assert 1 + 1 == 2\n\n\n{_PYTEST}",
    fixable=True,
    check=check,
    fix=fix,
)
