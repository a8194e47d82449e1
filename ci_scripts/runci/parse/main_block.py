"""Reads `if __name__ == "__main__":` blocks: what they run, and whether its result is kept."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runci.parse.decode import Positions
from runci.parse.model import MainBlock
from runci.parse.names import children, dotted, flat, import_names, origin, walk

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
_EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit", "builtins.exit"}
_CALLS = 16  # of another kind that are remembered, for `entry_points`
_DEPTH = 8  # of calls followed through functions of the same file


@dataclass(frozen=True, slots=True)
class _RunnerCall:
    runner: str
    name: str
    node: ast.Call
    kept: bool


def find_mains(
    tree: ast.Module, names: dict[str, str], positions: Positions
) -> tuple[MainBlock, ...]:
    """The main blocks at top level, in order."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and is_main(node.test)]
    if not blocks:
        return ()
    functions = {n.name: n for n in flat(tree.body) if isinstance(n, ast.FunctionDef)}
    return tuple(_describe(block, names, functions, positions) for block in blocks)


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
    calls = list(_runner_calls(block.body, names, functions, _DEPTH))
    if calls:
        call = next((c for c in calls if not c.kept), calls[0])
        kept = all(c.kept for c in calls)
        return MainBlock(span, call.runner, call.name, positions.span(call.node), kept)
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
    depth: int,
    result_kept: bool = False,
) -> Iterator[_RunnerCall]:
    """Calls that run tests, in these statements and in functions of the file that they call."""
    names = {**names, **import_names(body)}
    nodes = list(_walk(body))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    sources = [(node, origin(_function(node), names)) for node in calls]
    found = [(node, source) for node, source in sources if source in RUNNERS or source in functions]
    plain = all(source == "unittest.main" for _, source in found)
    kept = set() if plain else _kept_calls(nodes, names)
    for node, source in found:
        if source in RUNNERS:
            exits = id(node) in kept or (result_kept and id(node) in _returned(nodes))
            yield _runner_call(node, source, exits)
        elif depth:
            inner = functions[source].body
            yield from _runner_calls(inner, names, functions, depth - 1, id(node) in kept)


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


def _kept_calls(nodes: list[ast.AST], names: dict[str, str]) -> set[int]:
    """Ids of the calls whose result reaches an exit, an assert or a condition for one."""
    keepers: list[ast.AST] = []
    for node in nodes:
        exits = isinstance(node, ast.Call) and origin(node.func, names) in _EXITS
        if exits or isinstance(node, (ast.Raise, ast.Assert)):
            keepers.append(node)
        elif isinstance(node, ast.If) and _contains_exit(node, names):
            keepers.append(node.test)
    kept = {id(n) for keeper in keepers for n in walk(keeper)}
    used = {n.id for keeper in keepers for n in walk(keeper) if isinstance(n, ast.Name)}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(_root(target) in used for target in targets):
                kept.update(id(n) for n in walk(node.value))
    return kept


def _contains_exit(node: ast.If, names: dict[str, str]) -> bool:
    return any(
        isinstance(n, ast.Raise) or (isinstance(n, ast.Call) and origin(n.func, names) in _EXITS)
        for statement in node.body + node.orelse
        for n in walk(statement)
    )


def _root(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def _returned(nodes: list[ast.AST]) -> set[int]:
    returns = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    used = {n.id for value in returns for n in walk(value) if isinstance(n, ast.Name)}
    found = {id(n) for value in returns for n in walk(value)}
    for node in nodes:
        if isinstance(node, ast.Assign) and any(_root(t) in used for t in node.targets):
            found.update(id(n) for n in walk(node.value))
    return found
