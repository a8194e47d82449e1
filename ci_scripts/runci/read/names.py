"""Names in a syntax tree: what a local name was imported as, and dotted chains."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_COMPOUND = (
    ast.If,
    ast.Try,
    ast.With,
    ast.For,
    ast.While,
    ast.AsyncWith,
    ast.AsyncFor,
    ast.Match,
    getattr(ast, "TryStar", ast.Try),  # Python 3.11
)
_HOLDS_STATEMENTS = {"body", "orelse", "finalbody", "handlers", "cases"}
# The fields of each compound statement that hold statements, or what has a body of them.
_BLOCKS = {
    kind: tuple(name for name in kind._fields if name in _HOLDS_STATEMENTS) for kind in _COMPOUND
}
STAR = "*"


def import_names(statements: Iterable[ast.stmt]) -> dict[str, str]:
    """Local name → dotted origin, of imports at this level and in if, try, with and loops.

    `from a.b import c as d` gives {"d": "a.b.c"}; `import a.b` gives {"a": "a"}. A star import of
    module a gives {"*a": "a"}.
    """
    names: dict[str, str] = {}
    for statement in flat(statements):
        if isinstance(statement, ast.Import):
            for item in statement.names:
                top = item.name.partition(".")[0]
                names[item.asname or top] = item.name if item.asname else top
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            for item in statement.names:
                if item.name == STAR:
                    names[STAR + module] = module
                else:
                    names[item.asname or item.name] = f"{module}.{item.name}"
    return names


def flat(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in order, with those inside if, try, with and loops; not inside functions."""
    pending = list(statements)[::-1]  # a long chain of elif nests deeper than calls may
    while pending:
        statement = pending.pop()
        yield statement
        if type(statement) in _BLOCKS:  # a tenth of the time of isinstance with so many
            pending += list(inner_statements(statement))[::-1]


def inner_statements(statement: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a compound statement, all branches."""
    for field in _BLOCKS.get(type(statement), ()):
        for inner in getattr(statement, field):
            if isinstance(inner, ast.stmt):
                yield inner
            else:  # an except handler or a match case
                yield from inner.body


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below one, without Load and Store: half the time of the ast module's."""
    found: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST) and field != "ctx":
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, in the order of the source."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(children(node))


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text for a chain of plain names, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def source_of(node: ast.AST) -> str:
    """The expression as text on one line, for messages."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):  # too deep; a number of more digits than Python writes
        return "..."


def origin(node: ast.AST, names: dict[str, str]) -> str | None:
    """The dotted origin of a name or attribute chain, through the imports."""
    chain = dotted(node)
    if chain is None:
        return None
    head, _, rest = chain.partition(".")
    known = names.get(head, head)
    return f"{known}.{rest}" if rest else known
