"""Tests that are written and never execute: replaced, not awaited, not collected, skipped."""

from __future__ import annotations

from collections.abc import Iterator

from runci.checks.rule import REGISTERED, FileRule, Tree, shortened
from runci.core.finding import Finding
from runci.read.testfile import Gate, TestFile

_CASE = f"import unittest\n\n{REGISTERED}\n\n\n"


def _findings(file: TestFile, rule: str, causes: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    for unrun in file.unrun:
        if unrun.cause in causes:
            message, remedy = (text.format(*unrun) for text in causes[unrun.cause])
            key = unrun.test or unrun.cause
            yield Finding(file.path, unrun.span, rule, message, remedy, key=key)


def redefined_test(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each test whose name a later statement binds again, or deletes."""
    remedy = "Give one of them another name, or remove the one that is not wanted."
    yield from _findings(
        file,
        "RT309",
        {
            "replaced": ("{1} is replaced on line {2}: this one never runs", remedy),
            "deleted": ("{1} is deleted on line {2}: it never runs", "Keep it, or remove it."),
        },
    )


REDEFINED_TEST = FileRule(
    id="RT309",
    name="redefined-test",
    summary="The name of a test is defined, assigned, imported or deleted again in its scope.",
    reason="The later statement takes the name, so the earlier tests do not exist when the runner "
    "looks: they can fail for years and nothing turns red. (Alternatives in if/else or try, and "
    "what decorators or other statements use before, are not reported.)",
    bad=f"{REGISTERED}\n\n\ndef test_addition():\n    assert 1 + 1 == 3\n\n\n"
    "def test_addition():\n    assert 1 + 2 == 3",
    good=f"{REGISTERED}\n\n\ndef test_small_addition():\n    assert 1 + 1 == 2\n\n\n"
    "def test_addition():\n    assert 1 + 2 == 3",
    check=redefined_test,
)


def body_not_run(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each test whose call makes a coroutine or generator that nobody runs."""
    yield from _findings(
        file,
        "RT310",
        {
            "coroutine": (
                "{1} is async in a plain TestCase: nobody awaits it, and it passes",
                "Make the class a unittest.IsolatedAsyncioTestCase.",
            ),
            "generator": (
                "{1} has a yield: calling it makes a generator, and its body never runs",
                "Use parametrize or subTest in place of yield; a fixture or context manager "
                "needs its decorator.",
            ),
        },
    )


TEST_BODY_NOT_RUN = FileRule(
    id="RT310",
    name="test-body-not-run",
    summary="A test is `async` in a plain TestCase, or has a `yield`.",
    reason="Calling it makes a coroutine or a generator and runs nothing of its body: unittest "
    "counts that as passed, with a warning at most. (Only where every base of the class is known "
    "in the file.)",
    bad=f"{_CASE}class TestServer(unittest.TestCase):\n"
    "    async def test_answer(self):\n        self.assertEqual(1 + 1, 3)",
    good=f"{_CASE}class TestServer(unittest.IsolatedAsyncioTestCase):\n"
    "    async def test_answer(self):\n        self.assertEqual(1 + 1, 2)",
    check=body_not_run,
)


_UNTESTED = (
    "{1} has `__test__ = False`: pytest does not collect it",
    "Remove that, or skip with a reason; a base for other files is named so: {1}Base.",
)


def _skip_of_all(file: TestFile) -> Gate | None:
    """What skips the whole file on every machine."""
    return next((g for g in file.gates if not g.test and g.condition == "True"), None)


def not_collected(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each test, or statement, that keeps the runner from collecting tests."""
    yield from _findings(
        file,
        "RT311",
        {
            "constructor": (
                "{1} has {2}: pytest does not collect such a class",
                "Prepare in setup_method or a fixture, or use a unittest.TestCase.",
            ),
            "empty": (
                "{1} is parametrized with nothing: it never runs",
                "List values, or remove it.",
            ),
            # Where that is so of the whole file, RT312 says it.
            **({} if _skip_of_all(file) else {"untested": _UNTESTED}),
            "exit": (
                "the file exits here: what stands below is never reached",
                "Remove the exit, or disable the registration with a reason.",
            ),
            "load_tests": (
                "load_tests returns no tests: unittest runs none of this file",
                "Return the tests that it is given, or a suite that holds some.",
            ),
        },
    )


TEST_NOT_COLLECTED = FileRule(
    id="RT311",
    name="test-not-collected",
    summary="A test class has a constructor or `__test__ = False`, `parametrize` lists nothing, "
    "the file exits above its tests, or `load_tests` returns nothing.",
    reason="The runner leaves out what it cannot make or is given no values for, with a warning at "
    "most, and the file is green with fewer tests than it shows.",
    bad=f"{REGISTERED}\n\n\nclass TestAddition:\n    def __init__(self):\n        self.one = 1\n\n"
    "    def test_small(self):\n        assert self.one + 1 == 2",
    good=f"{REGISTERED}\n\n\nclass TestAddition:\n    def setup_method(self):\n"
    "        self.one = 1\n\n    def test_small(self):\n        assert self.one + 1 == 2",
    check=not_collected,
)


def all_tests_skipped(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at what skips the first test, where an enabled registration is in vain."""
    gate = _skip_of_all(file)
    if gate is not None and any(registration.enabled for registration in tree.of(file)):
        yield Finding(
            file.path,
            gate.span,
            "RT312",
            f"all tests of this file are skipped on every machine (`{shortened(gate.written)}`)",
            'Say so in the registration: disabled="REASON, #ISSUE"; or remove the skip.'
            if file.calls
            else f"Remove the skip, or list the file under `exclude` in {tree.taxonomy.path}.",
            key="all",
        )


ALL_TESTS_SKIPPED = FileRule(
    id="RT312",
    name="all-tests-skipped",
    summary="Every test of an enabled file is skipped without condition.",
    reason="A runner starts the file each time, runs nothing and is green; the estimate counts, "
    "and no list of disabled tests has it. `skip`, `skipIf(True)`, `pytestmark`, `raise SkipTest`, "
    "`xfail(run=False)` and `__test__ = False` count.",
    bad=f"import pytest\n\n{REGISTERED}\n\npytestmark = pytest.mark.skip(reason='flaky')\n\n\n"
    "def test_addition():\n    assert 1 + 1 == 2",
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu", disabled="flaky, see #1234")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2",
    check=all_tests_skipped,
)

RULES = (REDEFINED_TEST, TEST_BODY_NOT_RUN, TEST_NOT_COLLECTED, ALL_TESTS_SKIPPED)
