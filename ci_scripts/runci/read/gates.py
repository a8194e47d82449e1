"""Finds what skips tests: decorators, marks, and skips at the beginning of a body."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from runci.read.cases import DEFINITIONS, FUNCTIONS, Function, methods_of
from runci.read.condition import UNKNOWN, evaluate
from runci.read.module import Module
from runci.read.names import dotted, origin, source_of, walk
from runci.read.resolve import UNKNOWN_NAME, Local, Scope, assigned
from runci.read.testfile import Gate

_ALWAYS = ast.Constant(True)
_SKIPS = frozenset(("unittest.skip", "pytest.mark.skip"))
_IF = frozenset(("unittest.skipIf", "pytest.mark.skipif"))
_MARKS = _SKIPS | _IF | {"unittest.skipUnless", "pytest.mark.xfail"}
_TEXTS = frozenset(("pytest.mark.skipif", "pytest.mark.xfail"))
_SKIP_CALLS = frozenset(("self.skipTest", "cls.skipTest", "pytest.skip"))
_SKIP_ERRORS = frozenset(("unittest.SkipTest", "unittest.case.SkipTest", "pytest.skip.Exception"))
_CASE_SETUPS = frozenset(("setUp", "setUpClass", "asyncSetUp"))
_PYTEST_SETUPS = frozenset(("setup_method", "setup_class"))
_MODULE_SETUPS = frozenset(("setUpModule", "setup_module"))
_NAMING = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)
_SAYS = frozenset(("print", "super"))
_TEST = re.compile(r"test_|Test(?!Case$|Suite$|Loader$)")
_BINDS = frozenset(("globals", "locals", "vars", "setattr"))
_NO_TEST = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr)
# A condition, written out, and the node that says so.
_Found = tuple[ast.expr, ast.AST]


def find_gates(module: Module, by_unittest: bool) -> tuple[Gate, ...]:
    """The gates of a file; where everything is always skipped, one for the whole file.

    `by_unittest`: `unittest.main()` runs the file, which knows no marks.
    """
    finder = _Finder(module, by_unittest)
    gates = [*finder.of_module()]
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            gates += finder.of_class(statement)
        elif isinstance(statement, FUNCTIONS) and statement.name.startswith("test"):
            gates += finder.of_test(statement, "")
        elif isinstance(statement, FUNCTIONS) and (
            statement.name in _MODULE_SETUPS or finder.for_all(statement)
        ):
            gates += finder.gates("", "", finder.of_body(statement.body, statement))
    always = {gate.test for gate in gates if gate.condition == "True"}
    if always and "" not in always and _all_in(always, module):
        first = next(gate for gate in gates if gate.condition == "True")
        gates.insert(0, first._replace(test="", within=""))
    return tuple(gate for gate in gates if gate.condition != "True" or not gate.test)


def _all_in(always: set[str], module: Module) -> bool:
    """Whether these are all tests of the file; another statement that may make some is a no."""
    classes, tests = module.classes, 0
    if any(map(_brings_tests, module.body)):
        return False
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            methods = [f"{node.name}.{method.name}" for method in methods_of(node)]
            known = classes.kind(node) != "unknown" and not node.bases[1:]
            if node.decorator_list and (node.name.startswith("Test") or node.bases):
                known = False  # a decorator may add tests
            inherits = any(methods_of(base) for base in [*classes.lineage(node)][1:])
            if node.name not in always and (
                not known or inherits or not always.issuperset(methods)
            ):
                return False
            tests += len(methods) + (node.name in always)
        elif isinstance(node, FUNCTIONS) and node.name.startswith("test"):
            if node.name not in always:
                return False
            tests += 1
        elif isinstance(node, (ast.For, ast.With, ast.While, ast.If, ast.Try)):
            if node not in module.blocks and _defines(node):
                return False
    return tests > 0


def _defines(node: ast.AST) -> bool:
    return any(isinstance(inner, DEFINITIONS) for inner in walk(node))


def _brings_tests(node: ast.stmt) -> bool:
    """Whether a statement may bring tests beside the functions and methods that are written."""
    if isinstance(node, ast.ImportFrom):
        return any(n.name == "*" or _TEST.match(n.asname or n.name) for n in node.names)
    if isinstance(node, ast.ClassDef):
        inside = (inner for inner in node.body if not isinstance(inner, FUNCTIONS))
        return any(_defines(inner) or _assigns_test(inner) for inner in inside)
    if isinstance(node, (ast.Assign, ast.Expr)):
        names = (n.id for n in walk(node) if isinstance(n, ast.Name))
        return _assigns_test(node) or not _BINDS.isdisjoint(names)
    return isinstance(node, FUNCTIONS) and node.name == "load_tests"


def _assigns_test(node: ast.stmt) -> bool:
    """`test_b = make()`, `TestA.test_b = ...`; a list or a number under such a name is no test."""
    if not isinstance(node, ast.Assign) or isinstance(node.value, _NO_TEST):
        return False
    names = (getattr(target, "id", getattr(target, "attr", "")) for target in node.targets)
    return any(name.startswith(("test", "Test")) for name in names)


class _Finder:
    def __init__(self, module: Module, by_unittest: bool) -> None:
        self._module, self._names, self._positions = module, module.names, module.positions
        self._scope, self._by_unittest = Scope(module), by_unittest

    def gates(self, test: str, within: str, found: Iterable[_Found]) -> Iterator[Gate]:
        """Gates of these conditions; those that never skip are none."""
        for condition, node in found:
            value = evaluate(condition, lambda _name, _arguments: UNKNOWN)
            if value is UNKNOWN and not _can_be_known(condition):
                continue
            if value is UNKNOWN or value:
                text = source_of(condition) if value is UNKNOWN else "True"
                span = self._positions.span(node)
                yield Gate(test, within, source_of(node), text, span)

    def of_module(self) -> Iterator[Gate]:
        """Marks of the module, and skips while it is imported."""
        body = [s for s in self._module.body if s not in self._module.blocks]
        yield from self.gates("", "", self._marks(body))
        yield from self.gates("", "", self._in(body, None))

    def of_class(self, node: ast.ClassDef) -> Iterator[Gate]:
        """Gates of a class and of its tests."""
        kind = self._module.classes.kind(node)
        plain, setups = kind == "plain", set() if kind == "plain" else {*_CASE_SETUPS}
        if not self._by_unittest and kind not in ("case", "async"):
            setups |= _PYTEST_SETUPS
        found = [*self._decorators(node.decorator_list, plain), *self._marks(node.body)]
        found += () if plain else _skip_flags(node.body)
        for method in node.body:
            if isinstance(method, FUNCTIONS) and (method.name in setups or self.for_all(method)):
                found += self.of_body(method.body, method)
        yield from self.gates(node.name, "", found)
        for method in methods_of(node):
            last = method.end_lineno or method.lineno
            if method.decorator_list or self._module.says("kip", method.lineno, last):
                yield from self.of_test(method, node.name)

    def for_all(self, node: Function) -> bool:
        """Whether a function is a fixture that every test around it gets."""
        return not self._by_unittest and any(
            isinstance(mark, ast.Call)
            and self._origin(mark.func) == "pytest.fixture"
            and any(k.arg == "autouse" and _is_true(k.value) for k in mark.keywords)
            for mark in node.decorator_list
        )

    def of_test(self, node: Function, within: str) -> Iterator[Gate]:
        """Gates of one test function or method."""
        name = f"{within}.{node.name}" if within else node.name
        found = [*self._decorators(node.decorator_list, False), *self.of_body(node.body, node)]
        yield from self.gates(name, within, found)

    def _marks(self, body: Sequence[ast.stmt]) -> Iterator[_Found]:
        """`pytestmark = ...`, and `__test__ = False`, which only pytest obeys."""
        for statement in body:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            name, value = dotted(statement.targets[0]), statement.value
            if name == "pytestmark":
                marks = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
                yield from self._decorators(marks, False)
            elif name == "__test__" and not self._by_unittest:
                if isinstance(value, ast.Constant) and value.value is False:
                    yield _ALWAYS, statement

    def _decorators(self, nodes: Iterable[ast.expr], plain: bool) -> Iterator[_Found]:
        """Those that skip. `plain`: they stand at a class without a TestCase, so marks only do."""
        for node in nodes:
            function = node.func if isinstance(node, ast.Call) else node
            head = (dotted(function) or "").partition(".")[0]
            if head in self._names and origin(function, self._names) not in _MARKS:
                continue  # imported, and something else
            mark = self._scope.written_out(node)
            called = mark if isinstance(mark, ast.Call) else ast.Call(mark, [], [])
            name = dotted(called.func) or ""
            if name in _TEXTS:
                called = self._with_texts_read(called)
            if name.startswith("pytest.") and self._by_unittest:
                continue
            if not (name.startswith("unittest.") and plain):
                yield from ((condition, node) for condition in _conditions(name, called))

    def _with_texts_read(self, mark: ast.Call) -> ast.Call:
        """pytest evaluates a condition that is a text, with the names of the module."""
        keywords = [
            ast.keyword(k.arg, self._read(k.value) if k.arg == "condition" else k.value)
            for k in mark.keywords
        ]
        return ast.Call(mark.func, [*map(self._read, mark.args)], keywords)

    def _read(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return node
        try:
            return self._scope.written_out(ast.parse(node.value.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Name(UNKNOWN_NAME)

    def of_body(self, body: Sequence[ast.stmt], function: Function | None = None) -> list[_Found]:
        """Skips that come before a function does anything else."""
        last = body[-1].end_lineno or body[-1].lineno
        if not self._module.says("kip", body[0].lineno, last) or not self._may_skip(body):
            return []  # looked at first: names are written out slowly
        local: Local = {}
        if function is not None:
            spec = function.args
            local = {
                a.arg: ast.Name(UNKNOWN_NAME)
                for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
            }
        return list(self._in(body, local))

    def _in(self, body: Sequence[ast.stmt], local: Local | None) -> Iterator[_Found]:
        """`local` None: of the module itself, where definitions and imports stand between."""
        for statement in body:
            if isinstance(statement, ast.If):
                if self._skips(statement.body[-1]):
                    yield self._scope.written_out(statement.test, local), statement.test
                elif statement.orelse and self._skips(statement.orelse[-1]):
                    test = self._scope.written_out(statement.test, local)
                    yield ast.UnaryOp(ast.Not(), test), statement.test
                elif local is not None:
                    return
            elif self._skips(statement):
                yield _ALWAYS, statement
                return
            elif local is None:
                continue
            elif isinstance(statement, _NAMING):
                self._scope.assign(statement, local)
            elif not _only_says(statement):
                return

    def _may_skip(self, body: Sequence[ast.stmt]) -> bool:
        """Whether `_in` finds something in the body of a function."""
        for statement in body:
            if isinstance(statement, ast.If):
                ends = [branch[-1] for branch in (statement.body, statement.orelse) if branch]
                return any(map(self._skips, ends))
            if not isinstance(statement, _NAMING):
                if self._skips(statement):
                    return True
                if not _only_says(statement):
                    return False
        return False

    def _skips(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return raised is not None and self._origin(raised) in _SKIP_ERRORS
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = self._origin(node.value.func)
            return name in _SKIP_CALLS and not (name == "pytest.skip" and self._by_unittest)
        return False

    def _origin(self, node: ast.expr) -> str:
        return origin(node, self._names) or ""


def _skip_flags(body: Sequence[ast.stmt]) -> Iterator[_Found]:
    """`__unittest_skip__ = True` in a TestCase: what `unittest.skip` sets."""
    for statement in body:
        value = assigned(statement).get("__unittest_skip__")
        if isinstance(value, ast.Constant) and value.value:
            yield _ALWAYS, statement


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _can_be_known(condition: ast.expr) -> bool:
    """Whether it asks anything but names that stand for nothing known."""
    return any(isinstance(node, ast.Name) and node.id != UNKNOWN_NAME for node in walk(condition))


def _only_says(statement: ast.stmt) -> bool:
    """A docstring, `super().setUp()`, or what prints."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    while isinstance(value, (ast.Call, ast.Attribute)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Constant) or dotted(value) in _SAYS


def _conditions(name: str, mark: ast.Call) -> Iterator[ast.expr]:
    """When a mark or decorator skips (or, `xfail(run=False)`, does not run) what it stands at."""
    keywords = {keyword.arg: keyword.value for keyword in mark.keywords}
    given = [*mark.args, *([keywords["condition"]] if "condition" in keywords else [])]
    if name in _SKIPS:
        yield _ALWAYS
    elif name in _IF:
        yield from given if name.startswith("pytest") else given[:1]
    elif name == "unittest.skipUnless":
        yield from (ast.UnaryOp(ast.Not(), condition) for condition in given[:1])
    elif name == "pytest.mark.xfail":
        run = keywords.get("run")
        if isinstance(run, ast.Constant) and run.value is False:
            yield from given[:1] or [_ALWAYS]
