"""Which files a runner executes as `python FILE`: the execution rules are about those."""

from __future__ import annotations

from runci.globs import matches
from runci.parse.model import MainBlock, TestFile
from runci.rules.base import Tree
from runci.suites import Execution


def runs_as_script(file: TestFile, tree: Tree) -> bool:
    """Whether an enabled registration of the file is on a runner that executes scripts."""
    taxonomy = tree.taxonomy
    suites = (
        taxonomy.suite(registration.backend, registration.effective_suite)
        for registration in tree.of(file)
        if registration.enabled
    )
    return any(taxonomy.execution(suite) is Execution.SCRIPT for suite in suites)


def is_benchmark(file: TestFile, tree: Tree) -> bool:
    """Whether the file is a script of measurements, which needs no test function."""
    return matches(file.path, tree.taxonomy.benchmarks)


def runs_tests(block: MainBlock, tree: Tree) -> bool:
    """Whether a main block hands the file's tests to a test runner."""
    if block.runner in ("unittest", "pytest"):
        return True
    names = tree.taxonomy.entry_points
    return any(call in names or call.rpartition(".")[2] in names for call in block.calls)
