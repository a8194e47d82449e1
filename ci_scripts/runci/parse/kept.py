"""Which results of calls in a main block, or a function, become the exit code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from runci.parse.names import dotted, origin, walk

_EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit", "builtins.exit"}
_CATCH_EXITS = {"SystemExit", "BaseException"}


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
