"""Names in a syntax tree: what a local name was imported as, and dotted chains."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

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
# The fields of each node that hold nodes: asking the others takes half of the time of a walk.
_NO_NODES = frozenset(("arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind"))
_NO_NODES |= {"kwd_attrs", "level", "module", "name", "names", "op", "ops", "rest", "simple"}
_NO_NODES |= {"type_comment", "type_ignores"}
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _NO_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_FIELDS |= {ast.Constant: (), ast.MatchSingleton: ()}
_GAPS = (ast.arguments, ast.Dict)  # whose lists say None for what is not there
STAR = "*"


def import_names(statements: Iterable[ast.stmt]) -> dict[str, str]:
    """Local name → dotted origin, of imports at this level and in if, try, with and loops.

    `from a.b import c as d` gives {"d": "a.b.c"}; `import a.b` gives {"a": "a"}. A star import of
    module a gives {"*a": "a"}.
    """
    return names_of_imports(flat(statements))


def names_of_imports(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The same, of these very nodes."""
    names: dict[str, str] = {}
    for statement in nodes:
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
            pending += inner_statements(statement)[::-1]


def compound(statements: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Of `flat`, the statements that hold others."""
    pending = [s for s in statements if type(s) in _BLOCKS][::-1]
    found: list[ast.stmt] = []
    while pending:
        statement = pending.pop()
        found.append(statement)
        pending += [s for s in inner_statements(statement) if type(s) in _BLOCKS][::-1]
    return found


def inner_statements(statement: ast.AST) -> list[ast.stmt]:
    """The statements directly inside a compound statement, all branches."""
    found: list[ast.stmt] = []
    for field in _BLOCKS.get(type(statement), ()):
        inner = getattr(statement, field)
        if inner and not isinstance(inner[0], ast.stmt):  # except handlers or match cases
            for holder in inner:
                found += holder.body
        else:
            found += inner
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below one, without operators, Load, Store and names of imports."""
    found: list[ast.AST] = []
    for field in _FIELDS[type(node)]:
        value = getattr(node, field, None)
        if type(value) is list:
            found += value
        elif value is not None:
            found.append(value)
    return [n for n in found if n is not None] if type(node) in _GAPS else found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, in the order of the source."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)[::-1]


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


def origin(node: ast.AST, names: Mapping[str, str]) -> str | None:
    """The dotted origin of a name or attribute chain, through the imports."""
    chain = dotted(node)
    if chain is None:
        return None
    head, _, rest = chain.partition(".")
    known = names.get(head, head)
    return f"{known}.{rest}" if rest else known
