"""RT303: a main block that hands the tests to no test runner."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.script import is_benchmark, runs_as_script, runs_tests


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the first call of each such block; benchmarks are scripts of their own."""
    if not file.mains or is_benchmark(file, tree) or not runs_as_script(file, tree):
        return
    if any(runs_tests(block, tree) for block in file.mains):
        if file.pytest_only and all(block.call in _FINDS_CASES for block in file.mains):
            yield _unseen(file)
        return
    for block in file.mains:
        if block.runner == "other":
            yield Finding(
                file.path,
                block.call_span,
                "RT303",
                f"the main block calls {block.call}() and neither unittest.main nor pytest.main: "
                f"{_tests(file.tests)} not collected",
                'Call unittest.main(), or sys.exit(pytest.main([__file__, "-v"])). A function of '
                f"your own that does so belongs in `entry_points` of {tree.taxonomy.path}.",
                key=block.call,
            )


# Other runners of unittest are given a suite, which may hold anything.
_FINDS_CASES = ("unittest.main", "unittest.main(exit=False)", "unittest.TestProgram")


def _unseen(file: TestFile) -> Finding:
    block, names = file.mains[-1], file.pytest_only
    what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return Finding(
        file.path,
        block.call_span,
        "RT303",
        f"{block.call}() does not run {what}: only pytest finds tests outside a TestCase",
        'Call sys.exit(pytest.main([__file__, "-v"])), or make them methods of a TestCase.',
        key=block.call,
    )


def _tests(count: int) -> str:
    if count == 1:
        return "the test class or function of the file is"
    return f"the {count} test classes and functions of the file are" if count else "tests are"


RULE = FileRule(
    id="RT303",
    name="main-block-runs-no-tests",
    summary="The main block calls neither unittest.main nor pytest.main, or the former for tests "
    "that only pytest finds.",
    reason="A main block that prints, or parses its own arguments, swallows what the runner passes "
    "and runs what it likes: the tests of the file are not collected, and nobody counts them. "
    "`unittest.main()` runs no plain test function: without a TestCase it runs 0 tests and, before "
    "Python 3.12, exits 0.",
    bad="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2\n\n\n"
    'if __name__ == "__main__":\n    print("run me with pytest")\n',
    good="import sys\n\nimport pytest\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2\n\n\n"
    'if __name__ == "__main__":\n    sys.exit(pytest.main([__file__, "-v"]))\n',
    check=check,
)
