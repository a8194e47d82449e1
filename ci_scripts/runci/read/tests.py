"""Finds test classes and functions, and those that unittest does not see."""

from __future__ import annotations

import ast
import re

from runci.read.cases import DEFINITIONS, FUNCTIONS
from runci.read.module import Module
from runci.read.names import dotted, walk

_EMPTY_CASES = frozenset(("TestCase", "IsolatedAsyncioTestCase"))
_MAKERS = frozenset((*DEFINITIONS, ast.ImportFrom, ast.Assign, ast.Expr, ast.For))
_IMPORTED = re.compile(r"[Tt]est(?!ing|ed)\w*[A-Z_]|test_")
_TEST_MODULE = re.compile(r"(?:^|[._])tests?_\w*$|_tests?$")  # `from test_x import *`


def find_tests(module: Module) -> list[ast.stmt]:
    """The statements that make tests: definitions, `type(...)` results, imported tests."""
    dynamic = "type(" in module.text  # rare; looking for it visits every expression
    found = [n for n in module.imported if type(n) in _MAKERS and _makes_test(n, dynamic)]
    return _without_helpers(found, module) if "__test__" in module.text else found


def _without_helpers(found: list[ast.stmt], module: Module) -> list[ast.stmt]:
    """The statements but functions that `NAME.__test__ = False` calls no test.

    Classes stay: unittest runs them all the same.
    """
    helpers = {
        target.value.id
        for statement in module.imported
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is False
        for target in statement.targets
        if isinstance(target, ast.Attribute)
        and target.attr == "__test__"
        and isinstance(target.value, ast.Name)
    }
    return [n for n in found if not (isinstance(n, FUNCTIONS) and n.name in helpers)]


def _makes_test(node: ast.stmt, dynamic: bool) -> bool:
    if isinstance(node, ast.ClassDef):
        return _is_test_class(node)
    if isinstance(node, FUNCTIONS):
        return node.name.startswith("test") or node.name in ("load_tests", "pytest_generate_tests")
    if isinstance(node, ast.ImportFrom):
        of_tests = _TEST_MODULE.search(node.module or "") is not None
        names = (n.name for n in node.names if node.module != "unittest")
        return any(_IMPORTED.match(name) or (name == "*" and of_tests) for name in names)
    if isinstance(node, ast.Assign) and _names_a_test(node):
        return True
    if dynamic and isinstance(node, (ast.Assign, ast.Expr, ast.For)):
        return any(_makes_class(part) for part in walk(node))
    return False


def _names_a_test(node: ast.Assign) -> bool:
    """`TestSmall = make_case(size=1)`."""
    return isinstance(node.value, ast.Call) and any(
        isinstance(target, ast.Name) and re.match("Test[A-Z]", target.id) for target in node.targets
    )


def _is_test_class(node: ast.ClassDef) -> bool:
    """By unittest's and pytest's naming, by a base named for a test, or by its test methods."""
    if node.name.startswith("Test") or re.search(r"Tests?(Case|Base|Mixin)?$", node.name):
        return True
    bases = (dotted(base) or "" for base in node.bases)
    if any("Test" in base.rpartition(".")[2] for base in bases):
        return True
    return any(isinstance(n, FUNCTIONS) and n.name.startswith("test") for n in node.body)


def _makes_class(node: ast.AST) -> bool:
    """`type("TestX", (CustomTestCase,), {...})`, in any expression."""
    if not isinstance(node, ast.Call) or dotted(node.func) != "type" or len(node.args) < 2:
        return False
    return any("Test" in (dotted(n) or "") for n in walk(node.args[1]))


def all_are_cases(module: Module) -> bool:
    """Whether `unittest.main()` runs every test of a file: all are classes on a `...TestCase`."""
    tests = find_tests(module)
    return any(isinstance(n, FUNCTIONS) and n.name == "load_tests" for n in tests) or all(
        isinstance(n, ast.ClassDef) and any((dotted(b) or "").endswith("TestCase") for b in n.bases)
        for n in tests
    )


def find_pytest_only(tests: list[ast.stmt], module: Module) -> tuple[str, ...]:
    """The names of tests that `unittest.main()` does not run: functions, classes without a base.

    What the file itself uses is a helper or a mixin.
    """
    names = [n.name for n in tests if _is_pytest_only(n) and isinstance(n, DEFINITIONS)]
    if not names or any(isinstance(n, FUNCTIONS) and n.name == "load_tests" for n in tests):
        return ()
    return tuple(name for name in names if name not in module.uses)


def _is_pytest_only(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        plain = not (node.bases or node.keywords or node.decorator_list)
        methods = (n.name for n in node.body if isinstance(n, FUNCTIONS))
        return plain and node.name.startswith("Test") and any(n.startswith("test") for n in methods)
    return isinstance(node, FUNCTIONS) and node.name.startswith("test")


def find_own(tests: list[ast.stmt]) -> list[ast.stmt]:
    """Those that a runner would run of this very file, were its name a test's.

    Not what it imports, nor helpers for others: classes without a test of their own, mixins.
    """
    return [node for node in tests if not isinstance(node, ast.ImportFrom) and _runs_here(node)]


def _runs_here(node: ast.stmt) -> bool:
    if not isinstance(node, ast.ClassDef):
        return True
    bases = [(dotted(base) or "").rpartition(".")[2] for base in node.bases]
    of_tests = any("Test" in base for base in bases)
    own = any(isinstance(n, FUNCTIONS) and n.name.startswith("test") for n in node.body)
    inherited = any("Test" in base and base not in _EMPTY_CASES for base in bases)
    return (own and (of_tests or node.name.startswith("Test"))) or inherited


def import_line(tree: ast.Module) -> int:
    """The line where a missing import goes: after the docstring and `__future__` imports."""
    line = 1
    for place, statement in enumerate(tree.body):
        docstring = (
            place == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if docstring or future:
            line = (statement.end_lineno or statement.lineno) + 1
        else:
            return line if line > 1 else statement.lineno
    return line
