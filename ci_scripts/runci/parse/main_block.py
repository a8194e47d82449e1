"""Reads `if __name__ == "__main__":` blocks: what they run, and whether its result is kept."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from runci.parse.decode import Positions
from runci.parse.kept import kept_calls, returned_calls, swallowed_calls
from runci.parse.model import MainBlock
from runci.parse.names import children, dotted, flat, import_names, origin

# Dotted origins whose call runs the tests of the file, and whether the call itself exits.
RUNNERS = {
    "unittest.main": "unittest",
    "unittest.TestProgram": "unittest",
    "unittest.TextTestRunner": "unittest",
    "absl.testing.absltest.main": "unittest",
    "torch.testing._internal.common_utils.run_tests": "unittest",
    "pytest.main": "pytest",
    "pytest.console_main": "pytest",
}
_CALLS = 16  # of another kind that are remembered, for `entry_points`


@dataclass(frozen=True, slots=True)
class _RunnerCall:
    runner: str
    name: str
    node: ast.Call
    kept: bool


def find_mains(
    tree: ast.Module, names: dict[str, str], positions: Positions
) -> tuple[MainBlock, ...]:
    """The main blocks at top level, in order; also below a condition that is always true."""
    blocks = [n for n in _always(tree.body) if isinstance(n, ast.If) and is_main(n.test)]
    if not blocks:
        return ()
    functions = {n.name: n for n in flat(tree.body) if isinstance(n, ast.FunctionDef)}
    described = (_describe(block, names, functions, positions) for block in blocks)
    return tuple(
        m._replace(otherwise=bool(b.orelse)) for m, b in zip(described, blocks, strict=True)
    )


def _always(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whatever is the case: those below `if True:` too."""
    pending = list(statements)[::-1]
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Constant):
            pending += (statement.body if statement.test.value else statement.orelse)[::-1]


def is_main(test: ast.expr) -> bool:
    """Whether a condition is `__name__ == "__main__"`, either way round, alone or in an `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(is_main(value) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    if not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return named and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)


def _describe(
    block: ast.If,
    names: dict[str, str],
    functions: dict[str, ast.FunctionDef],
    positions: Positions,
) -> MainBlock:
    span = positions.span(block)
    calls = list(_runner_calls(block.body, names, functions, set()))
    if calls:
        call = next((c for c in calls if not c.kept), calls[0])
        kept, place = all(c.kept for c in calls), positions.span(call.node)
        return MainBlock(span, call.runner, call.name, place, kept)
    others = [n for n in _walk(block.body) if isinstance(n, ast.Call)]
    if not others:
        return MainBlock(span, "nothing", "", span, True)
    names = {**names, **import_names(block.body)}
    origins = (origin(other.func, names) for other in others)
    called = tuple(dict.fromkeys(name for name in origins if name is not None))
    name = dotted(others[0].func) or "a call"
    return MainBlock(span, "other", name, positions.span(others[0]), True, called[:_CALLS])


def _runner_calls(
    body: list[ast.stmt],
    names: dict[str, str],
    functions: dict[str, ast.FunctionDef],
    followed: set[tuple[str, bool]],
    result_kept: bool = False,
) -> Iterator[_RunnerCall]:
    """Calls that run tests, in these statements and in functions of the file that they call."""
    names = {**names, **import_names(body)}
    nodes = list(_walk(body))
    sources = [(n, origin(_function(n), names)) for n in nodes if isinstance(n, ast.Call)]
    found = [(node, source) for node, source in sources if source in RUNNERS or source in functions]
    if not found:
        return
    plain = all(source == "unittest.main" and not node.keywords for node, source in found)
    kept = set() if plain else kept_calls(nodes, names)
    returned = returned_calls(nodes) if result_kept else set()
    caught = swallowed_calls(nodes, names)
    for node, source in found:
        known = id(node) in kept or id(node) in returned
        if source in RUNNERS:
            call = _runner_call(node, source, known)
            yield replace(call, kept=False) if id(node) in caught else call
        elif (source, known) not in followed:
            followed.add((source, known))
            inner = functions[source].body
            yield from _runner_calls(inner, names, functions, followed, known)


def _walk(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Nodes of the statements, without the bodies of nested functions and classes."""
    pending: list[ast.AST] = list(reversed(list(body)))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending += reversed(children(node))


def _function(call: ast.Call) -> ast.expr:
    """The function called; for `unittest.TextTestRunner(...).run(...)`, the class."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "run":
        inner = function.value
        if isinstance(inner, ast.Call):
            return inner.func
    return function


def _runner_call(node: ast.Call, source: str, result_kept: bool) -> _RunnerCall:
    runner = RUNNERS[source]
    if source == "unittest.TextTestRunner":
        return _RunnerCall(runner, f"{source}().run", node, result_kept)
    if runner == "pytest":
        return _RunnerCall(runner, source, node, result_kept)
    exits = not any(
        keyword.arg == "exit"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in node.keywords
    )
    name = source if exits else f"{source}(exit=False)"
    return _RunnerCall(runner, name, node, exits or result_kept)
