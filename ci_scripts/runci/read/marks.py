"""Which pytest marks the tests of a file have: the different sets of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from runci.core.marks import call_text
from runci.read.cases import FUNCTIONS, Function, methods_of
from runci.read.module import Module
from runci.read.names import dotted, walk
from runci.read.resolve import Scope

# What pytest itself means by a mark says nothing of where a test belongs.
_BUILT_IN = frozenset(
    ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail", "asyncio")
)
_PREFIX = "pytest.mark."
Marks = frozenset[str]
NO_MARKS: tuple[tuple[str, ...], ...] = ((),)


def find_marks(module: Module) -> tuple[tuple[str, ...], ...]:
    """The different sets of marks that tests of the file have, sorted; `((),)` where none has any.

    Marks come from decorators, `pytestmark` of the module and of classes, bases in the file, and
    `pytest.param(marks=...)` that is written in a decorator.
    """
    if "mark" not in module.text:
        return NO_MARKS
    reader = _Reader(module)
    return tuple(sorted({tuple(sorted(marks)) for marks in reader.sets()})) or NO_MARKS


class _Reader:
    def __init__(self, module: Module) -> None:
        self._module, self._scope = module, Scope(module)

    def sets(self) -> Iterator[Marks]:
        """The marks of each test, with repetitions."""
        whole = self._assigned(self._module.imported)
        found = False
        for node in self._module.imported:
            if isinstance(node, FUNCTIONS) and node.name.startswith("test"):
                yield from self._test(node, whole)
                found = True
            elif isinstance(node, ast.ClassDef):
                for marks in self._class(node, whole):
                    yield marks
                    found = True
        if not found:
            yield whole  # of tests that are imported, or made at run time

    def _class(self, node: ast.ClassDef, whole: Marks) -> Iterator[Marks]:
        classes = self._module.classes
        lineage = list(classes.lineage(node))
        methods = {m.name: m for base in reversed(lineage) for m in methods_of(base)}
        if not methods and not (node.name.startswith("Test") or node.bases):
            return
        marks = whole
        for base in lineage:
            marks = marks | self._marks(base.decorator_list) | self._assigned(base.body)
        for method in methods.values():
            yield from self._test(method, marks)
        if not methods or classes.kind(node) == "unknown":
            yield marks  # of tests that a base elsewhere has

    def _test(self, node: Function, around: Marks) -> Iterator[Marks]:
        marks = around | self._marks(node.decorator_list)
        yield marks
        by_parameters = [
            self._marks(_listed(keyword.value))
            for decorator in node.decorator_list
            for call in walk(decorator)
            if isinstance(call, ast.Call) and (dotted(call.func) or "").endswith("param")
            for keyword in call.keywords
            if keyword.arg == "marks"
        ]
        for more in by_parameters:
            yield marks | more
        if len(by_parameters) > 1:
            yield marks.union(*by_parameters)

    def _assigned(self, body: Iterable[ast.stmt]) -> Marks:
        """What `pytestmark = ...` says there."""
        found: Marks = frozenset()
        for statement in body:
            targets: Sequence[ast.expr] = ()
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
                targets = (statement.target,)
            value = getattr(statement, "value", None)
            if value is not None and any(dotted(target) == "pytestmark" for target in targets):
                found |= self._marks(_listed(value))
        return found

    def _marks(self, nodes: Iterable[ast.expr]) -> Marks:
        return frozenset(text for node in nodes if (text := self._mark(node)) is not None)

    def _mark(self, node: ast.expr) -> str | None:
        """A mark that stands there, or that a name of the file stands for."""
        written = self._scope.written_out(node)
        called = written.func if isinstance(written, ast.Call) else written
        chain = dotted(called) or ""
        name = chain.removeprefix(_PREFIX)
        if name == chain or not name.isidentifier() or name in _BUILT_IN:
            return None
        return call_text(written, name) if isinstance(written, ast.Call) else name


def _listed(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else (node,)
