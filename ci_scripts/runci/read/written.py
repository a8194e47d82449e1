"""Which tests a file cannot have, by its syntax tree alone; pure.

It says no only where nothing could make such a test: names that are imported, assigned, inherited
from elsewhere or made by a decorator may be any.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runci.read.names import dotted, flat, import_names, origin, walk
from runci.read.parse import tree_of_bytes

_MAKES_NAMES = re.compile(
    r"\b(globals|locals|vars|setattr|exec|eval|load_tests|__dict__|__getattr__|import_module)\b"
)
# Decorators that leave a test its name.
_PLAIN = re.compile(
    r"(pytest|unittest|mock|patch|functools|contextlib)(\.|$)|(static|class)method$"
)
_BASES = ("object", "unittest.TestCase", "unittest.IsolatedAsyncioTestCase")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Written:
    """What is defined, as `Class::test`, and the classes that may hold more («»: the file)."""

    names: frozenset[str]
    open: frozenset[str] = frozenset()

    def may_have(self, test: str) -> bool:
        """Whether the file could have a test of this name, whatever its parameters are."""
        plain = test.partition("[")[0]
        parts = plain.split("::")
        above = ["", *("::".join(parts[:n]) for n in range(1, len(parts)))]
        return plain in self.names or any(name in self.open for name in above)


ANY = Written(frozenset(), frozenset({""}))


def written(data: bytes) -> Written:
    """The tests of a file; `ANY` where it cannot be parsed, or makes names as it runs."""
    parsed = tree_of_bytes(data)
    if parsed is None or _MAKES_NAMES.search(parsed[0]):
        return ANY
    tree = parsed[1]
    names = import_names(tree.body)
    if any(name.startswith("*") for name in names):
        return ANY
    found, open_ = _level(tree.body, names, "")
    # `instantiate(TestX)` at the top level may do anything to the class.
    for statement in flat(tree.body):
        if isinstance(statement, ast.Expr):
            open_ |= {n.id for n in walk(statement) if isinstance(n, ast.Name) and n.id in found}
    return Written(frozenset(found | names.keys()), frozenset(open_ | names.keys()))


def _level(
    body: Iterable[ast.stmt], names: dict[str, str], prefix: str
) -> tuple[set[str], set[str]]:
    """The names that these statements define, and which of them are open."""
    found: set[str] = set()
    open_: set[str] = set()
    for statement in flat(body):
        for name in _assigned(statement):
            found.add(prefix + name)
            open_.add(prefix + name)
        if not isinstance(statement, (ast.ClassDef, *_Function)):
            continue
        found.add(prefix + statement.name)
        if not all(_is_plain(d, names) for d in statement.decorator_list):
            open_.add(prefix.removesuffix("::"))
        if isinstance(statement, ast.ClassDef):
            whole = prefix + statement.name
            inner, inner_open = _level(statement.body, names, f"{whole}::")
            found |= inner
            open_ |= inner_open
            if not _inherit(statement, names, whole, found, open_):
                open_.add(whole)
    return found, open_


def _inherit(
    node: ast.ClassDef, names: dict[str, str], whole: str, found: set[str], open_: set[str]
) -> bool:
    """Add what the bases bring; False where one of them is not known."""
    for base in node.bases:
        name = dotted(base)
        if origin(base, names) in _BASES:
            continue
        if name is None or name not in found or name in open_:
            return False
        mine = {one for one in found if one.startswith(f"{name}::")}
        found |= {whole + one[len(name) :] for one in mine}
        open_ |= {whole + one[len(name) :] for one in mine & open_}
    return not node.keywords


def _assigned(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars]
    for target in targets:
        yield from (node.id for node in walk(target) if isinstance(node, ast.Name))


def _is_plain(decorator: ast.expr, names: dict[str, str]) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _PLAIN.match(origin(function, names) or "") is not None
