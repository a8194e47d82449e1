"""Finds test classes and functions, and tests that return early instead of skipping."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from runci.parse.decode import Positions
from runci.parse.main_block import is_main
from runci.parse.model import EarlyReturn
from runci.parse.names import dotted, flat, inner_statements, origin, source_of, walk

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)

# Calls that ask which hardware is there.
_QUERY = re.compile(
    r"(is_available|device_count|get_device_(capability|name|properties|sm)|is_bf16_supported"
    r"|(is|has)_(cuda|hip|rocm|amd|npu|xpu|musa|mlx|mps|gpu|cpu|hopper|blackwell|ampere|sm\d+)\w*"
    r"|get_\w*(gpu|cuda|device)_(count|memory\w*))"
)
_EXITS = {"sys.exit", "exit", "quit", "os._exit"}


def find_tests(tree: ast.Module, text: str) -> list[ast.stmt]:
    """The statements that make tests: definitions, `type(...)` results, imported tests."""
    dynamic = "type(" in text  # rare; looking for it visits every expression
    # What a main block defines is not there when the file is imported.
    body = [s for s in tree.body if not (isinstance(s, ast.If) and is_main(s.test))]
    return [statement for statement in flat(body) if _makes_test(statement, dynamic)]


def _makes_test(node: ast.stmt, dynamic: bool) -> bool:
    if isinstance(node, ast.ClassDef):
        return _is_test_class(node)
    if isinstance(node, _Function):
        return node.name.startswith("test") or node.name in ("load_tests", "pytest_generate_tests")
    if isinstance(node, ast.ImportFrom):
        return node.module != "unittest" and any(
            re.match(r"[Tt]est(?!ing|ed)\w*[A-Z_]|test_", n.name) for n in node.names
        )
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
    return any(isinstance(n, _Function) and n.name.startswith("test") for n in node.body)


def _makes_class(node: ast.AST) -> bool:
    """`type("TestX", (CustomTestCase,), {...})`, in any expression."""
    if not isinstance(node, ast.Call) or dotted(node.func) != "type" or len(node.args) < 2:
        return False
    return any("Test" in (dotted(n) or "") for n in walk(node.args[1]))


def find_early_returns(
    tree: ast.Module, names: dict[str, str], positions: Positions
) -> tuple[EarlyReturn, ...]:
    """Tests that return, and files that exit with 0, when hardware is missing."""
    found = list(_module_exits(tree, names, positions))
    for statement in flat(tree.body):
        methods = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for method in methods:
            if isinstance(method, _Function) and method.name.startswith("test"):
                found.extend(_returns(method, tree, positions))
    return tuple(found)


def _returns(
    function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module, positions: Positions
) -> Iterator[EarlyReturn]:
    for statement in flat(function.body):
        if not isinstance(statement, ast.If):
            continue
        last = statement.body[-1]
        if not isinstance(last, ast.Return):  # quickly answered, and rarely so
            continue
        if _asks_hardware(statement.test, function, tree) and not _checks(statement.body):
            condition = source_of(statement.test)
            yield EarlyReturn(function.name, condition, "return", positions.span(last))


def _module_exits(
    tree: ast.Module, names: dict[str, str], positions: Positions
) -> Iterator[EarlyReturn]:
    for statement in tree.body:
        if not isinstance(statement, ast.If):
            continue
        for inner in (
            (statement, *inner_statements(statement)) if is_main(statement.test) else (statement,)
        ):
            if not isinstance(inner, ast.If):
                continue
            last = inner.body[-1]
            if _exits_with_success(last, names) and _asks_hardware(inner.test, tree):
                yield EarlyReturn("", source_of(inner.test), "exit", positions.span(last))


def _asks_hardware(
    test: ast.expr, *scopes: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
) -> bool:
    """Whether a condition asks what hardware is there, itself or through names of these scopes."""
    names: set[str] = set()
    for node in walk(test):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name is not None and _QUERY.fullmatch(name.rpartition(".")[2].lstrip("_")):
                return True
        elif isinstance(node, ast.Name):
            names.add(node.id)
    assigned = (
        statement.value
        for scope in scopes
        for statement in flat(scope.body)
        if isinstance(statement, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id in names for t in statement.targets)
    )
    return any(_asks_hardware(value) for value in assigned)


def _checks(statements: list[ast.stmt]) -> bool:
    """Whether the branch tests something of its own (or skips) before it returns."""
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, (ast.Assert, ast.Raise)):
                return True
            if isinstance(node, ast.Call):
                name = (dotted(node.func) or "").rpartition(".")[2].lower()
                if (
                    "assert" in name
                    or "skip" in name
                    or name.startswith(("_test", "test", "check", "_check", "raises"))
                ):
                    return True
    return False


def _exits_with_success(node: ast.stmt, names: dict[str, str]) -> bool:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
        return node.exc.id == "SystemExit"
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        call, known = node.exc, {"SystemExit"}
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call, known = node.value, _EXITS
    else:
        return False
    if origin(call.func, names) not in known:
        return False
    return not call.args or (
        isinstance(call.args[0], ast.Constant) and call.args[0].value in (0, None)
    )


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
