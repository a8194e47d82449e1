"""RT304: the result of the test runner is dropped."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.script import runs_as_script


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
            )


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
    check=check,
)
