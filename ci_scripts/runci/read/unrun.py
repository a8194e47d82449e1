"""Finds tests that are written and never execute: replaced, not awaited, not collected."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from runci.read.cases import DEFINITIONS, FUNCTIONS, Function, methods_of
from runci.read.module import Module
from runci.read.names import STAR, children, dotted, import_names, is_main, origin, walk
from runci.read.resolve import assigned, bound_by
from runci.read.testfile import Unrun

# Decorators from elsewhere may keep, wrap or replace what they stand at.
_KNOWN = ("pytest.mark.", "unittest.", "torch.", "mock.", "hypothesis.")
_SKIPS = re.compile(r"(skip|require|only_if|slow)", re.IGNORECASE)  # by their last names
# Names of classes that other files are meant to derive from.
_SHARED = re.compile(r"(?i)base|mixin|abstract|common|template|interface|shared|^_")
# Methods by which a TestCase may run its tests in another way.
_RUNS = frozenset(("run", "__call__", "_callTestMethod", "__getattribute__", "__init_subclass__"))
_SUITES = frozenset(("unittest.TestSuite", "unittest.suite.TestSuite"))
_COLLECTIONS = frozenset(("list", "tuple", "set", "dict", "range", "sorted"))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_PARAMETRIZED = frozenset(("pytest.mark.parametrize", "pytest.fixture"))
_NAMESPACES = frozenset(("globals", "locals", "vars", "setattr", "exec"))
_EXITS = frozenset(("sys.exit", "exit", "quit", "os._exit", "pytest.exit"))


def find_unrun(module: Module, by_unittest: bool) -> tuple[Unrun, ...]:
    """In the order of the file. `by_unittest`: `unittest.main()` runs the file, not pytest."""
    finder = _Finder(module, by_unittest)
    found = [*finder.replaced(module.body, ""), *finder.exits(module.body)]
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            found += finder.of_class(statement)
        elif isinstance(statement, FUNCTIONS):
            found += finder.of_function(statement)
        elif isinstance(statement, ast.Assign):
            found += finder.of_assignment(statement)
    if any(unrun.cause == "constructor" for unrun in found):  # which the file itself may use
        found = [u for u in found if u.cause != "constructor" or u.test not in module.uses]
    return tuple(sorted(found, key=lambda unrun: unrun.span))


class _Finder:
    def __init__(self, module: Module, by_unittest: bool) -> None:
        self._module, self._names = module, module.names
        self._by_unittest = by_unittest

    def _unrun(self, cause: str, test: str, node: ast.AST, other: str = "") -> Unrun:
        span = self._module.positions.span(node)
        if isinstance(node, DEFINITIONS):  # a place, not the whole body
            span = span._replace(end_line=span.line, end_column=span.column)
        return Unrun(cause, test, other, span)

    def replaced(self, body: Sequence[ast.stmt], within: str) -> Iterator[Unrun]:
        """Tests whose name a later statement of the same body binds again, or deletes."""
        for node in body:
            for inner in _bodies(node):
                yield from self.replaced(inner, within)
            if within and isinstance(node, ast.ClassDef):
                yield from self.replaced(node.body, f"{within}{node.name}.")
        last: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        for index, node in enumerate(body):
            pairs += [(last.pop(name), index) for name in _binds(node) if name in last]
            if isinstance(node, DEFINITIONS):
                last[node.name] = index
        yield from self._replaced_in(body, within, pairs)

    def _replaced_in(
        self, body: Sequence[ast.stmt], within: str, pairs: list[tuple[int, int]]
    ) -> Iterator[Unrun]:
        for first, second in pairs:
            node, other = body[first], body[second]
            assert isinstance(node, DEFINITIONS)  # noqa: S101 (only those)
            if not self._tests(node) or not self._plain(node):
                continue
            between = [*body[first + 1 : second], *_head(other)]
            if not any(_mentions(statement, node.name) for statement in between):
                cause = "deleted" if isinstance(other, ast.Delete) else "replaced"
                yield self._unrun(cause, within + node.name, node, str(other.lineno))

    def _tests(self, node: ast.ClassDef | Function) -> bool:
        if isinstance(node, ast.ClassDef):
            return bool(methods_of(node))
        return node.name.startswith("test")

    def _plain(self, node: ast.ClassDef | Function) -> bool:
        """Whether nothing is done with a definition but what is known to leave it as it is."""
        names = (
            origin(d.func if isinstance(d, ast.Call) else d, self._names) or ""
            for d in node.decorator_list
        )
        return all(
            f"{name}.".startswith(_KNOWN) or _SKIPS.match(name.rpartition(".")[2]) for name in names
        )

    def exits(self, body: Sequence[ast.stmt]) -> Iterator[Unrun]:
        """An exit at the top level, with tests or a main block below it."""
        for index, node in enumerate(body):
            if not isinstance(node, (ast.Expr, ast.Raise, ast.If)) or not self._exits(node):
                continue
            rest = body[index + 1 :]
            if any(self._is_test(s) or (isinstance(s, ast.If) and is_main(s.test)) for s in rest):
                yield self._unrun("exit", "", node)
            return

    def _is_test(self, node: ast.stmt) -> bool:
        return isinstance(node, DEFINITIONS) and self._tests(node)

    def _exits(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc
            function = raised.func if isinstance(raised, ast.Call) else raised
            known = origin(function, self._names) == "SystemExit"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            raised = node.value
            known = origin(raised.func, self._names) in _EXITS
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Constant) and node.test.value:
            return any(map(self._exits, node.body))
        else:
            return False
        arguments = raised.args if isinstance(raised, ast.Call) else []
        # `sys.exit(pytest.main(...))` runs them after all.
        return known and not any(isinstance(n, ast.Call) for a in arguments for n in walk(a))

    def of_class(self, node: ast.ClassDef) -> Iterator[Unrun]:
        """Of a class: its methods, and whether pytest takes it at all."""
        yield from self.replaced(node.body, f"{node.name}.")
        methods = methods_of(node)
        kind = self._module.classes.kind(node) if methods else ""
        runs = kind == "case" or (kind == "plain" and not self._by_unittest)
        for method in methods:
            name = f"{node.name}.{method.name}"
            if isinstance(method, ast.AsyncFunctionDef) and self._not_awaited(node, method):
                yield self._unrun("coroutine", name, method)
            elif runs and self._is_generator(method):
                yield self._unrun("generator", name, method)
            if kind != "case" and method.decorator_list:
                yield from self._empty(method, name)
            if kind == "plain" and not self._by_unittest:
                yield from self._no_params(method, name)
        if methods and kind != "case" and node.decorator_list:
            yield from self._empty(node, node.name)
        if kind == "plain" and not self._by_unittest:
            yield from self._init(node)
        named = node.name.startswith("Test") or kind in ("case", "async")
        if methods and named and not self._by_unittest and not _SHARED.search(node.name):
            yield from self._no_test(node)

    def _not_awaited(self, node: ast.ClassDef, method: ast.AsyncFunctionDef) -> bool:
        """Whether plain TestCases get the method, of this class or of a mixin, as it stands."""
        classes, names = self._module.classes, {method.name} | _RUNS
        if not self._plain(method):
            return False
        if classes.kind(node) == "case":
            return True
        lines = [[*classes.lineage(one)] for one in classes.classes.values()]
        heirs = [line for line in lines if node in line[1:] and classes.kind(line[0]) != "plain"]
        defined = [one for line in heirs for one in line if one is not node and _has(one, names)]
        return (
            bool(heirs) and not defined and all(classes.kind(line[0]) == "case" for line in heirs)
        )

    def _no_test(self, node: ast.ClassDef | Function) -> Iterator[Unrun]:
        """`__test__ = False`, in a class or below it, where no other line names it."""
        inside = node.body if isinstance(node, ast.ClassDef) else []
        below = [s for s in self._module.body if _sets(s, f"{node.name}.__test__")]
        found = [*(s for s in inside if _sets(s, "__test__")), *below]
        if len(found) == 1 and self._used(node.name) == len(below):
            value = found[0].value if isinstance(found[0], (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Constant) and value.value is False:
                yield self._unrun("untested", node.name, found[0])

    def _used(self, name: str) -> int:
        """How often the file names it, but for its definition."""
        if name not in self._module.uses:
            return 0
        return sum(isinstance(n, ast.Name) and n.id == name for n in walk(self._module.tree))

    def of_function(self, node: Function) -> Iterator[Unrun]:
        """Of a function at top level."""
        if node.name.startswith("test") and not self._by_unittest:
            if self._is_generator(node):
                yield self._unrun("generator", node.name, node)
            yield from self._empty(node, node.name)
            yield from self._no_params(node, node.name)
            yield from self._no_test(node)
        elif node.name == "load_tests" and self._by_unittest and _gives_nothing(node, self._names):
            yield self._unrun("load_tests", "load_tests", node)

    def of_assignment(self, node: ast.Assign) -> Iterator[Unrun]:
        """`load_tests = lambda *_: unittest.TestSuite()`."""
        made = node.value.body if isinstance(node.value, ast.Lambda) else None
        named = self._by_unittest and _sets(node, "load_tests")
        if named and isinstance(made, ast.Call) and _is_new(made, self._names):
            yield self._unrun("load_tests", "load_tests", node)

    def _is_generator(self, node: Function) -> bool:
        inside = self._module.says("yield", node.lineno, node.end_lineno or node.lineno)
        return inside and self._plain(node) and any(map(_yields, node.body))

    def _empty(self, node: Function | ast.ClassDef, name: str) -> Iterator[Unrun]:
        for mark in node.decorator_list:
            if not isinstance(mark, ast.Call):
                continue
            values = [*mark.args[1:2], *(k.value for k in mark.keywords if k.arg == "argvalues")]
            empty = any(_is_empty(v) or self._named_empty(v) for v in values)
            if empty and origin(mark.func, self._names) == "pytest.mark.parametrize":
                yield self._unrun("empty", name, mark)

    def _no_params(self, node: Function, name: str) -> Iterator[Unrun]:
        """A test that asks for a fixture with nothing in `params`."""
        marks = (origin(getattr(d, "func", d), self._names) or "" for d in node.decorator_list)
        wanted = {argument.arg for argument in node.args.args} & self._without_params
        if wanted and all(mark.startswith("pytest.mark.") for mark in marks):
            yield self._unrun("empty", name, node, min(wanted))

    def _named_empty(self, value: ast.expr) -> bool:
        """Whether it is a constant of the module without items, that only marks use."""
        if not isinstance(value, ast.Name) or value.id in self._names:
            return False
        made = [s for s in self._module.body if value.id in bound_by(s)]
        if len(made) != 1 or not _is_empty(assigned(made[0]).get(value.id, value)):
            return False
        nodes = [*walk(self._module.tree)]
        uses = sum(isinstance(n, ast.Name) and n.id == value.id for n in nodes)
        marks = (
            sum(isinstance(v, ast.Name) and v.id == value.id for v in [*n.args, *_values(n)])
            for n in nodes
            if isinstance(n, ast.Call) and origin(n.func, self._names) in _PARAMETRIZED
        )
        return uses == 1 + sum(marks) and not self._open

    @cached_property
    def _open(self) -> bool:
        """Whether names of the module may be bound by what is not seen."""
        return any(n.startswith(STAR) for n in self._names) or not _NAMESPACES.isdisjoint(
            self._module.uses
        )

    @cached_property
    def _without_params(self) -> frozenset[str]:
        """Fixtures with an empty `params`, whose names nothing else in the file says."""
        found = {
            f.name
            for f in self._module.body
            if isinstance(f, FUNCTIONS)
            for mark in f.decorator_list
            if isinstance(mark, ast.Call) and origin(mark.func, self._names) == "pytest.fixture"
            if {k.arg for k in mark.keywords}.isdisjoint(("name", None))
            if any(k.arg == "params" and _is_empty(k.value) for k in mark.keywords)
        }
        if not found or self._open:
            return frozenset()
        nodes = [*walk(self._module.tree)]
        texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        defined = [n.name for n in nodes if isinstance(n, DEFINITIONS)]
        if "pytest_generate_tests" in defined:
            return frozenset()
        return frozenset(
            n for n in found if defined.count(n) == 1 and not any(n in text for text in texts)
        )

    def _init(self, node: ast.ClassDef) -> Iterator[Unrun]:
        """pytest does not collect a class that has a constructor."""
        if not node.name.startswith("Test"):
            return
        lineage = [*self._module.classes.lineage(node)]
        makers = [
            inner.name
            for one in lineage
            for inner in one.body
            if isinstance(inner, FUNCTIONS) and inner.name in ("__init__", "__new__")
        ]
        makers += ["__init__" for one in lineage if self._is_dataclass(one)]
        if makers and (self._plain(node) or self._is_dataclass(node)):
            yield self._unrun("constructor", node.name, node, makers[0])

    def _is_dataclass(self, node: ast.ClassDef) -> bool:
        """Whether the one decorator makes a constructor, as `@dataclass(init=False)` does not."""
        if len(node.decorator_list) != 1:
            return False
        mark = node.decorator_list[0]
        keywords = mark.keywords if isinstance(mark, ast.Call) else []
        made_by = origin(mark.func if isinstance(mark, ast.Call) else mark, self._names)
        return made_by == "dataclasses.dataclass" and all(
            k.arg not in ("init", None) for k in keywords
        )


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement that is no definition."""
    if isinstance(node, (ast.If, ast.Try, ast.With)):
        yield node.body
        yield getattr(node, "orelse", [])
        yield getattr(node, "finalbody", [])


def _binds(node: ast.stmt) -> list[str]:
    """The names that a statement surely binds again, or deletes: a loop may have no turn."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [*import_names([node])]
    if isinstance(node, (*DEFINITIONS, ast.Assign, ast.Delete)) or (
        isinstance(node, ast.AnnAssign) and node.value is not None
    ):
        return list(dict.fromkeys(bound_by(node)))
    return []


def _head(node: ast.stmt) -> list[ast.AST]:
    """What of a definition is evaluated before its name is bound again."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords, *node.body]
    if isinstance(node, FUNCTIONS):
        return [*node.decorator_list, node.args]
    value = getattr(node, "value", None)
    return [value] if isinstance(value, ast.expr) else []


def _mentions(node: ast.AST, name: str) -> bool:
    """Whether a node uses a name, or a text of that name: `globals()["TestA"]`."""
    return any(
        (isinstance(inner, ast.Name) and inner.id == name)
        or (isinstance(inner, ast.Constant) and inner.value == name)
        or (isinstance(inner, ast.Name) and inner.id in ("globals", "locals", "vars"))
        for inner in walk(node)
    )


def _has(node: ast.ClassDef, names: frozenset[str] | set[str]) -> bool:
    return any(name in names for s in node.body for name in bound_by(s))


def _yields(node: ast.AST) -> bool:
    """Whether a statement has a yield of the function that it stands in."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += children(node)
    return False


def _gives_nothing(node: Function, names: dict[str, str]) -> bool:
    """Whether `load_tests` returns nothing, or a fresh suite, whatever is the case."""
    for inner in walk(node):
        if isinstance(inner, (ast.Yield, ast.Raise)):
            return False
        if isinstance(inner, ast.Return) and inner.value is not None:
            none = isinstance(inner.value, ast.Constant) and inner.value.value is None
            if not (none or _fresh(inner.value, node, names)):
                return False
    return True


def _fresh(value: ast.expr, function: Function, names: dict[str, str]) -> bool:
    """Whether a value is a new suite without tests, or a name that is one and used once."""
    if isinstance(value, ast.Name):
        uses = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == value.id]
        made = [
            s.value for s in function.body if isinstance(s, ast.Assign) and {*uses} & {*s.targets}
        ]
        return len(uses) == 2 and len(made) == 1 and _fresh(made[0], function, names)
    return isinstance(value, ast.Call) and _is_new(value, names)


def _is_new(value: ast.Call, names: dict[str, str]) -> bool:
    if value.keywords or not all(map(_is_empty, value.args)):
        return False
    made_by = origin(value.func, names) or ""
    return made_by in _SUITES or made_by.endswith(".suiteClass")


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is written as a collection of nothing: `[]`, `[i for i in ()]`."""
    if isinstance(node, ast.Call):
        empty = all(
            (isinstance(a, ast.Constant) and a.value == 0) or _is_empty(a) for a in node.args
        )
        return dotted(node.func) in _COLLECTIONS and empty and not node.keywords
    if isinstance(node, _COMPREHENSIONS):
        return _is_empty(node.generators[0].iter)
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(isinstance(item, ast.Starred) and _is_empty(item.value) for item in node.elts)
    return isinstance(node, ast.BinOp) and _is_empty(node.left) and _is_empty(node.right)


def _sets(node: ast.stmt, name: str) -> bool:
    """Whether a statement assigns to a name, or chain of names, anywhere in it."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Delete)):
        return not isinstance(node, DEFINITIONS) and any(
            dotted(n) == name for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))
        )
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    return any(dotted(target) == name for target in targets)


def _values(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords]
