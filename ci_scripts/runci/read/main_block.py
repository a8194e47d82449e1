"""Reads `if __name__ == "__main__":` blocks: what they run, and whether its result is kept."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from runci.read.decode import Positions
from runci.read.names import children, dotted, flat, import_names, origin, walk
from runci.read.testfile import MainBlock

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

_EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit", "builtins.exit"}
_CATCH_EXITS = {"SystemExit", "BaseException"}


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


def kept_calls(nodes: Sequence[ast.AST], names: dict[str, str]) -> set[int]:
    """Ids of the calls whose result reaches an exit, an assert or a condition for one."""
    keepers: list[ast.AST] = []
    for node in nodes:
        if _exits(node, names) or isinstance(node, ast.Assert):
            keepers.append(node)
        elif isinstance(node, ast.If) and _contains_exit([*node.body, *node.orelse], names):
            keepers.append(node.test)
    return _reaching(nodes, keepers, frozenset(names))


def returned_calls(nodes: Sequence[ast.AST]) -> set[int]:
    """Ids of the calls whose result is returned."""
    returns = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    return _reaching(nodes, returns, frozenset())


def swallowed_calls(nodes: Iterable[ast.AST], names: dict[str, str]) -> set[int]:
    """Ids of the calls in a `try` that catches their SystemExit and goes on."""
    caught: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Try) and any(_swallows(h, names) for h in node.handlers):
            caught.update(id(n) for statement in node.body for n in walk(statement))
    return caught


def _swallows(handler: ast.ExceptHandler, names: dict[str, str]) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if not any(kind is None or dotted(kind) in _CATCH_EXITS for kind in types):
        return False
    uses = any(
        isinstance(n, ast.Name) and n.id == handler.name
        for statement in handler.body
        for n in walk(statement)
    )
    return not uses and not _contains_exit(handler.body, names)


def _reaching(
    nodes: Sequence[ast.AST], keepers: Sequence[ast.AST], modules: frozenset[str]
) -> set[int]:
    """Ids of all nodes whose value flows into the keepers, through names of this scope."""
    kept: set[int] = set()
    used: set[str] = set()
    pending = list(keepers)
    while pending:
        for keeper in pending:
            for node in walk(keeper):
                kept.add(id(node))
                if isinstance(node, ast.Name) and node.id not in modules:
                    used.add(node.id)
        pending = [
            value for node in nodes for value in _flowing(node, used) if id(value) not in kept
        ]
    return kept


def _flowing(node: ast.AST, used: set[str]) -> Iterator[ast.AST]:
    """What this node brings into names that are used: by assignment, method or condition."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is not None and any(_names(target) & used for target in targets):
            yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Name) and node.func.value.id in used:
            yield from node.args  # results.append(...)
    elif isinstance(node, ast.If):
        inner = (n for s in (*node.body, *node.orelse) for n in walk(s))
        if any(
            isinstance(n, (ast.Assign, ast.AugAssign)) and any(_flowing(n, used)) for n in inner
        ):
            yield node.test


def _names(target: ast.expr) -> set[str]:
    return {n.id for n in walk(target) if isinstance(n, ast.Name)}


def _exits(node: ast.AST, names: dict[str, str]) -> bool:
    if isinstance(node, ast.Raise):
        return True
    return isinstance(node, ast.Call) and origin(node.func, names) in _EXITS


def _contains_exit(statements: Iterable[ast.stmt], names: dict[str, str]) -> bool:
    return any(_exits(node, names) for statement in statements for node in walk(statement))
