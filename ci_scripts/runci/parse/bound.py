"""What a file binds names to by assignments and definitions, as far as markers are concerned."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from runci.parse.names import origin
from runci.registration import MARKERS

# Where a marker comes from that was taken from a module loaded at run time.
LOADED = "<loaded>"
# ... and a marker's name that the file itself gives to something else.
REBOUND = "<this file>"

# By the name of a marker: where it is bound at top level, and whether to a marker.
Bound: TypeAlias = Mapping[str, Sequence[tuple[int, bool]]]


def marker_bindings(tree: ast.Module, names: Mapping[str, str]) -> Bound:
    """Where the names of markers are bound at top level.

    Not in blocks: an `except ImportError:` may well define what could not be imported.
    """
    bound: dict[str, list[tuple[int, bool]]] = {}
    for statement in tree.body:
        for name, is_marker in _bound_names(statement, dict(names)):
            if name in MARKERS:
                bound.setdefault(name, []).append((statement.lineno, is_marker))
    return bound


def is_rebound(bound: Sequence[tuple[int, bool]], line: int) -> bool:
    """Whether the last binding before a line is to something that is no marker."""
    before = [is_marker for at, is_marker in bound if at < line]
    return bool(before) and not before[-1]


def _bound_names(statement: ast.stmt, names: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """The names that a statement binds, and whether each is a marker then."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, False
    elif isinstance(statement, ast.ImportFrom):
        yield from ((item.asname or item.name, item.name in MARKERS) for item in statement.names)
    for target, value in bindings(statement):
        source = origin(value, names) or loaded(value) or ""
        yield target, source.rpartition(".")[2] == target


def bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement assigns, each with its value: of `a, b = c, d` two."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return
    value = statement.value
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=False)
        yield from ((one.id, its) for one, its in pairs if isinstance(one, ast.Name))


def loaded(node: ast.expr) -> str | None:
    """The attribute of a module that an expression gives, such as a file loaded by its path."""
    return f"{LOADED}.{node.attr}" if isinstance(node, ast.Attribute) else None
