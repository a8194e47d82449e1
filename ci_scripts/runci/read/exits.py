"""What `python FILE` exits with when a test fails: main blocks, executed path by path.

Each call of a test runner succeeds on one path and fails on another; what is not known (arguments,
the environment) is branched on, the same way each time that it is asked. The paths are bounded.
"""

# ruff: noqa: N802, N815, N818 (methods are named by the node; what leaves a block is no error)

from __future__ import annotations

import ast
import builtins
import contextlib
import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from runci.read.condition import COMPARE
from runci.read.names import children, import_names, origin, source_of, walk

_PATHS, _STEPS, _DEPTH, _TURNS = 256, 2_000, 8, 8
_MOST = 1_000  # items of a list that is made
_ALL_STEPS = 10_000  # of all paths of one file
# pytest.main returns 1 where tests fail, 2 where a file cannot be collected; of unittest, 1 stands
# for a failure and 2 for an error.
_CODES = {"pytest": (0, 1, 2), "unittest": (0, 1, 2)}
_EXIT_CODES = ("OK", "TESTS_FAILED", "INTERRUPTED", "INTERNAL_ERROR", "USAGE_ERROR")
_HELP = frozenset({"-h", "--help"})
# Options of pytest with which it runs no test, and exits with 0.
COLLECTS = frozenset(
    {"--co", "--collect-only", "--collectonly", "--fixtures", "--fixtures-per-test", "--help"}
    | {"-h", "--markers", "--setup-only", "--setup-plan", "--version", "-V"}
)
EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit"}
# Context managers that let SystemExit pass, whatever they are given; others may stop it.
_PASSING = re.compile(
    r"open|(io|os|gzip|zipfile|tarfile|tempfile|torch|threading|multiprocessing)\..*"
    r"|(unittest\.)?mock\.patch(\..*)?|subprocess\.Popen|concurrent\.futures\..*|numpy\.errstate"
    r"|contextlib\.(redirect_.*|nullcontext|closing|chdir)|warnings\.catch_warnings"
    r"|pytest\.(warns|deprecated_call|MonkeyPatch\.context)"
)
# Calls that surely run no test.
_QUIET = re.compile(
    rf"(sys|argparse|logging|warnings|os\.(environ|path))\..*|os\.(getenv|getcwd|chdir)"
    rf"|(?!exec$|eval$|__import__$|map$|filter$)({'|'.join(dir(builtins))})"
)
_PURE = "int bool max min sum any all len abs list tuple set dict sorted range enumerate zip"
# Methods of lists, sets and mappings that are followed; others may change what they belong to.
_CHANGES = [
    "append",
    "extend",
    "insert",
    "add",
    "update",
    "setdefault",
    "pop",
    "remove",
    "discard",
    "clear",
]
_READS = ["count", "index", "get", "items", "keys", "values", "copy"]
_BUILTINS: dict[str, Callable[..., Any]] = {n: getattr(builtins, n) for n in _PURE.split()}
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    **COMPARE,
    ast.Is: operator.eq,  # of numbers, truths and None
    ast.IsNot: operator.ne,
}


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A value that is not known, told apart by where it comes from; `result`: from a runner.

    `passes`: as a context manager it lets SystemExit pass. `changed`: after a failure, so that it
    may tell of it; calling its methods alone does not.
    """

    key: object
    result: bool = False
    passes: bool = False
    changed: bool = False

    def __repr__(self) -> str:  # of one size, however it was computed
        return f"?{hash(self.key):x}{'!' * self.result}"


@dataclass(frozen=True, slots=True)
class _Origin:
    """Something imported or built in, by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Result:
    """A unittest.TestResult, or the TestProgram that holds one."""

    code: int


@dataclass(frozen=True, slots=True)
class _Runner:
    """A unittest.TextTestRunner, by the call that makes it."""

    node: ast.Call


@dataclass(frozen=True, slots=True)
class _Parser:
    """An argparse.ArgumentParser, by the values of its options where none is given."""

    values: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Options:
    values: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Suppress:
    """A context manager that stops these exceptions."""

    kinds: tuple[object, ...]


class _Code(int):
    """What pytest.main returned, as it was."""


class _Raised(Exception):
    def __init__(self, kind: str, code: object = None) -> None:
        super().__init__(kind)
        self.kind, self.code = kind, code


class _Ended(Exception):
    """os._exit, which nothing catches."""

    def __init__(self, code: object) -> None:
        self.code = code


class _Return(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Abandoned(Exception):
    """A path that is longer than the bounds."""


@dataclass(frozen=True, slots=True)
class _Program:
    """What a file imports and defines, the kinds of runners, and which functions matter."""

    names: dict[str, str]
    functions: dict[str, ast.FunctionDef]
    runners: dict[str, str]
    plain: bool = False  # started as `python FILE`, without arguments
    known: dict[int, bool] = field(default_factory=dict)

    def matters(self, function: ast.FunctionDef) -> bool:
        """Whether a function may run tests, exit, or tell others of a failure."""
        if id(function) not in self.known:
            self.known[id(function)] = self._reaches(function, set())
        return self.known[id(function)]

    def _reaches(self, function: ast.FunctionDef, seen: set[str]) -> bool:
        seen.add(function.name)
        short = len(function.body) <= 3  # what a longer one returns is taken as unknown
        names = {**self.names, **import_names(function.body)}
        own = {n.id for n in walk(function) if isinstance(n, ast.Name) and _stores(n)}
        own |= {n.arg for n in walk(function.args) if isinstance(n, ast.arg)}
        for node in walk(function):
            if _changed(node) not in (None, *own):
                return True
            if isinstance(node, (ast.Global, ast.Nonlocal)) or (
                isinstance(node, ast.Return) and short
            ):
                return True
            if not isinstance(node, (ast.Attribute, ast.Name)):
                continue
            name = origin(node, names) or ""
            if name in EXITS or name in self.runners:
                return True
            inner = self.functions.get(name)
            if inner is not None and name not in seen and self._reaches(inner, seen):
                return True
        return False


@dataclass(slots=True)
class _Path:
    """One path: the choices made on it, and what became of the tests."""

    choices: list[int]
    options: list[int] = field(default_factory=list)
    taken: int = 0
    steps: int = 0
    failed: ast.Call | None = None
    reached: list[ast.Call] = field(default_factory=list)
    unsure: bool = False
    asked: bool = False  # something that is not known, so that another path may be the real one
    empty: bool = False  # something that is not known is taken to hold nothing
    argv: list[object] = field(default_factory=lambda: ["test.py"])
    outcomes: dict[object, int] = field(default_factory=dict)

    def choose(self, key: object, options: int) -> int:
        """One of the options; the same for the same question."""
        known, self.asked = repr(key), True
        if known not in self.outcomes:
            if self.taken == len(self.choices):
                self.choices.append(0)
            self.options.append(options)
            self.outcomes[known] = self.choices[self.taken]
            self.taken += 1
        return self.outcomes[known]

    def step(self) -> None:
        self.steps += 1
        if self.steps > _STEPS:
            raise _Abandoned


@dataclass(slots=True)
class _Search:
    """The paths that statements may take, within bounds.

    `left` are the choices that were not made yet, each with whether the path beside it ran tests.
    """

    statements: Sequence[ast.stmt]
    constants: dict[str, object]
    program: _Program
    left: deque[tuple[bool, list[int]]] = field(default_factory=lambda: deque([(False, [])]))

    def paths(self) -> Iterator[tuple[_Path, object]]:
        """Each path, and what the process ends with: None where it was abandoned."""
        steps = paths = 0
        while self.left and paths < _PATHS and steps < _ALL_STEPS:
            start = self.left.popleft()[1]
            path = _Path(list(start))
            code: object = None
            with contextlib.suppress(_Abandoned, RecursionError):
                frame = _Frame(path, self.program, dict(self.constants))
                code = _exit_code(self.statements, frame)
            yield path, code
            for place in range(len(start), len(path.choices)):
                others = range(1, path.options[place])
                self.left += [(bool(path.reached), [*path.choices[:place], o]) for o in others]
            steps, paths = steps + path.steps, paths + 1


def kept_results(
    statements: Sequence[ast.stmt],
    names: dict[str, str],
    functions: dict[str, ast.FunctionDef],
    constants: dict[str, object],
    runners: dict[str, str],
) -> dict[int, bool | None]:
    """For each runner call that is reached, by id: does its failure fail the process?

    None where that cannot be told. `runners` gives the kind of each dotted name of a runner.
    """
    search = _Search(statements, constants, _Program(names, functions, runners))
    verdicts: dict[int, bool | None] = {}
    for path, ended in search.paths():
        # What is abandoned counts where a runner had failed before.
        code, unsure = (0, True) if ended is None else (ended, path.unsure)
        for call in path.reached:
            verdicts.setdefault(id(call), True)
        if path.failed is not None:
            _judge(verdicts, id(path.failed), code, unsure)
    if any(ran for ran, _ in search.left):  # paths beside those that run no test are left out
        return {call: False if kept is False else None for call, kept in verdicts.items()}
    return verdicts


def runs_plainly(
    statements: Sequence[ast.stmt],
    names: dict[str, str],
    functions: dict[str, ast.FunctionDef],
    constants: dict[str, object],
    runners: dict[str, str],
) -> bool | None:
    """Whether `python FILE`, without arguments, runs a test runner or fails.

    None where it depends on what is not known, such as the environment, or cannot be told.
    """
    program = _Program(names, functions, runners, plain=True)
    for path, code in _Search(statements, constants, program).paths():
        if code == 0 and not path.reached and not path.empty:
            return None if path.asked or path.unsure else False
    return True


def _judge(verdicts: dict[int, bool | None], call: int, code: object, unsure: bool) -> None:
    if isinstance(code, _Unknown) or (unsure and code == 0):
        if verdicts[call] is True:
            verdicts[call] = None
    elif code == 0:
        verdicts[call] = False


def _exit_code(statements: Sequence[ast.stmt], frame: _Frame) -> object:
    """What the process ends with: a number, or an _Unknown."""
    try:
        frame.run(statements)
    except _Ended as end:
        return _number(end.code)
    except _Raised as raised:
        return _number(raised.code) if raised.kind == "SystemExit" else 1
    except (_Return, _Break, _Continue):
        return 1  # a syntax error
    return 0


def _number(code: object) -> object:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    return code if isinstance(code, _Unknown) else 1  # anything else is printed


class _Frame:
    """The names of a module or of a function that is called, and what executes there."""

    def __init__(
        self,
        path: _Path,
        program: _Program,
        outer: dict[str, object],
        depth: int = 0,
    ) -> None:
        self.path, self.program, self.outer, self.depth = path, program, outer, depth
        self.local: dict[str, object] = {} if depth else outer
        self.shared: set[str] = set()
        self.caught: list[_Raised] = []

    def run(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.path.step()
            method = _METHODS.get(type(statement), _Frame._other)
            method(self, statement)

    # Statements

    def _do_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.shared.update(node.names)

    _do_Nonlocal = _do_Global

    def _do_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, source in import_names([node]).items():
            self._bind(name, _Origin(source))

    _do_ImportFrom = _do_Import

    def _do_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._bind(node.name, node)

    def _do_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name, _Unknown(node.name))

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self.value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        old, new = self.value(node.target), self.value(node.value)
        self._assign(node.target, self._operate(node.op, old, new))

    def _do_If(self, node: ast.If) -> None:
        self.run(node.body if self._truth(node.test) else node.orelse)

    def _do_Assert(self, node: ast.Assert) -> None:
        if not self._truth(node.test):
            raise _Raised("AssertionError")

    def _do_Return(self, node: ast.Return) -> None:
        raise _Return(None if node.value is None else self.value(node.value))

    def _do_Break(self, _node: ast.Break) -> None:
        raise _Break

    def _do_Continue(self, _node: ast.Continue) -> None:
        raise _Continue

    def _do_Raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            raise self.caught[-1] if self.caught else _Raised("RuntimeError")
        value = self.value(node.exc)
        if isinstance(value, _Raised):
            raise value
        raise _Raised(value.name if isinstance(value, _Origin) else source_of(node.exc))

    def _do_While(self, node: ast.While) -> None:
        for turn in range(_TURNS):
            if not self._truth(node.test, turn):
                return self.run(node.orelse)
            try:
                self.run(node.body)
            except _Continue:
                pass
            except _Break:
                return None
        raise _Abandoned

    def _do_For(self, node: ast.For) -> None:
        for item in self._items(node.iter):
            self._assign(node.target, item)
            try:
                self.run(node.body)
            except _Continue:
                pass
            except _Break:
                return
        self.run(node.orelse)

    def _do_With(self, node: ast.With) -> None:
        managers: list[object] = []
        for item in node.items:
            managers.append(self.value(item.context_expr))
            if item.optional_vars is not None:
                self._assign(item.optional_vars, _Unknown(source_of(item.context_expr)))
        try:
            self.run(node.body)
        except _Raised as raised:
            if not any(self._suppresses(manager, raised) for manager in managers):
                raise

    def _suppresses(self, manager: object, raised: _Raised) -> bool:
        if isinstance(manager, _Suppress):
            return any(self._is(kind, raised) for kind in manager.kinds)
        if isinstance(manager, _Unknown) and manager.passes:
            return False
        stops = self.path.choose(("stops", repr(manager), raised.kind), 2) == 1
        self.path.unsure |= stops
        return stops

    def _do_Try(self, node: ast.Try) -> None:
        try:
            try:
                self.run(node.body)
            except _Raised as raised:
                self._handle(node, raised)
            else:
                self.run(node.orelse)
        except _Ended:
            raise
        except Exception:
            self.run(node.finalbody)
            raise
        self.run(node.finalbody)

    def _handle(self, node: ast.Try, raised: _Raised) -> None:
        for handler in node.handlers:
            if handler.type is None or self._catches(handler.type, raised):
                if handler.name:
                    self._bind(handler.name, raised)
                self.caught.append(raised)
                try:
                    return self.run(handler.body)
                finally:
                    self.caught.pop()
        raise raised

    def _catches(self, kind: ast.expr, raised: _Raised) -> bool:
        return self._is(self.value(kind), raised)

    def _is(self, value: object, raised: _Raised) -> bool:
        if isinstance(value, (list, tuple)):
            return any(self._is(one, raised) for one in value)
        wanted = value.name.removeprefix("builtins.") if isinstance(value, _Origin) else ""
        one, other = getattr(builtins, wanted, None), getattr(builtins, raised.kind, None)
        if isinstance(one, type) and isinstance(other, type):
            return issubclass(other, one)
        if wanted in ("BaseException", "Exception"):
            return True
        if raised.kind != "SystemExit" and self.path.failed is not None:
            self.path.unsure = True
        return wanted == raised.kind

    def _other(self, node: ast.stmt) -> None:
        """A statement that is not followed: what it assigns is unknown."""
        for inner in walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
                self._bind(inner.id, _Unknown((inner.id, node.lineno), self._failing))
            elif isinstance(inner, ast.Call):
                self.path.asked = True
                self.path.unsure |= self._failing

    @property
    def _failing(self) -> bool:
        return self.path.failed is not None

    def _bind(self, name: str, value: object) -> None:
        (self.outer if name in self.shared else self.local)[name] = value

    def _assign(self, target: ast.expr, value: object) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, (list, tuple)) and len(value) == len(target.elts)
            for index, inner in enumerate(target.elts):
                unknown = _Unknown((repr(value), index), _from_result(value))
                self._assign(inner, value[index] if known else unknown)  # type: ignore[index]
        elif isinstance(target, ast.Starred):
            self._assign(target.value, _Unknown(repr(value), _from_result(value)))
        elif isinstance(target, ast.Subscript):
            holder, index = self.value(target.value), self.value(target.slice)
            try:
                holder[index] = value
            except (TypeError, IndexError):
                self._change(target.value, value)
        elif isinstance(target, ast.Attribute):
            self._change(target.value, value)

    def _change(self, holder: ast.expr, value: object) -> None:
        """Something unknown was changed: after a failure it may tell of it."""
        self.path.unsure |= _from_result(value)
        if self._failing and isinstance(holder, ast.Name):
            old = self.value(holder)
            if isinstance(old, _Unknown):
                scope = self.local if holder.id in self.local else self.outer
                scope[holder.id] = _Unknown((old.key, self.path.steps), True, changed=True)

    # Values

    def value(self, node: ast.expr) -> Any:
        self.path.step()
        method = _METHODS.get(type(node))
        if method is not None:
            return method(self, node)
        inner = [self.value(n) for n in children(node) if isinstance(n, ast.expr)]
        return _Unknown((type(node).__name__, repr(inner)), self._tells(inner))

    def _tells(self, value: object) -> bool:
        """Whether a value comes from a runner that failed."""
        return _from_result(value) or (self._failing and _holds_code(value))

    def _of_Constant(self, node: ast.Constant) -> object:
        return node.value

    def _of_JoinedStr(self, node: ast.JoinedStr) -> object:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return source_of(node)

    def _of_Lambda(self, node: ast.Lambda) -> object:
        return _Unknown(source_of(node), any(isinstance(n, ast.Call) for n in walk(node.body)))

    def _of_Name(self, node: ast.Name) -> object:
        value = self._named(node)
        if self.program.plain and value == _Origin("sys.argv"):
            return self.path.argv
        return value

    def _named(self, node: ast.Name) -> object:
        if node.id == "__name__":
            return "__main__"
        for scope in (self.local, self.outer, self.program.functions):
            if node.id in scope:
                return scope[node.id]
        if node.id in self.program.names:
            return _Origin(self.program.names[node.id])
        return _Origin(node.id) if hasattr(builtins, node.id) else _Unknown(node.id)

    def _of_Attribute(self, node: ast.Attribute) -> object:
        value = self.value(node.value)
        if isinstance(value, _Origin):
            name = f"{value.name}.{node.attr}"
            if self.program.plain and name == "sys.argv":
                return self.path.argv
            if value.name.endswith("ExitCode") and node.attr in _EXIT_CODES:
                return _EXIT_CODES.index(node.attr)
            return 5 if name.endswith("ExitCode.NO_TESTS_COLLECTED") else _Origin(name)
        if isinstance(value, _Raised) and node.attr in ("code", "args"):
            return value.code if node.attr == "code" else (value.code,)
        if isinstance(value, int) and node.attr in ("value", "real"):
            return int(value)
        if isinstance(value, _Result) and node.attr in ("failures", "errors"):
            return ["a test"] * (value.code == ("failures", "errors").index(node.attr) + 1)
        if isinstance(value, _Result) and node.attr == "result":
            return value
        if isinstance(value, _Options) and node.attr in value.values:
            return value.values[node.attr]
        changed = isinstance(value, _Unknown) and value.changed
        return _Unknown((repr(value), node.attr), _from_result(value), changed=changed)

    def _of_List(self, node: ast.List | ast.Tuple | ast.Set) -> list[object]:
        values: list[object] = []
        for item in node.elts:
            if not isinstance(item, ast.Starred):
                values.append(self.value(item))
                continue
            inner = self.value(item.value)
            values += inner if isinstance(inner, (list, tuple)) else [_Unknown(repr(inner))]
        return values

    def _of_Set(self, node: ast.Set) -> object:
        values = self._of_List(node)
        return _applied(set, values)

    def _of_Tuple(self, node: ast.Tuple) -> object:
        return tuple(self._of_List(node))

    def _of_Dict(self, node: ast.Dict) -> object:
        keys = [None if key is None else self.value(key) for key in node.keys]
        values = [self.value(value) for value in node.values]
        try:
            return dict(zip(keys, values, strict=True))
        except TypeError:
            return _Unknown(repr(values), any(map(_from_result, values)))

    def _of_Subscript(self, node: ast.Subscript) -> object:
        value, index = self.value(node.value), self.value(node.slice)
        try:
            return value[index]
        except (TypeError, ValueError, LookupError):
            return _Unknown((repr(value), repr(index)), _from_result(value))

    def _of_Slice(self, node: ast.Slice) -> object:
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if end is None else self.value(end) for end in ends))

    def _of_NamedExpr(self, node: ast.NamedExpr) -> object:
        value = self.value(node.value)
        self._assign(node.target, value)
        return value

    def _of_IfExp(self, node: ast.IfExp) -> object:
        return self.value(node.body if self._truth(node.test) else node.orelse)

    def _of_BoolOp(self, node: ast.BoolOp) -> object:
        value: object = None
        for operand in node.values:
            value = self.value(operand)
            if self._true(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _of_UnaryOp(self, node: ast.UnaryOp) -> object:
        if isinstance(node.op, ast.Not):
            return not self._truth(node.operand)
        value = self.value(node.operand)
        if not isinstance(value, int):
            return _Unknown((type(node.op).__name__, repr(value)), _from_result(value))
        return {ast.USub: -value, ast.Invert: ~int(value)}.get(type(node.op), +value)

    def _of_BinOp(self, node: ast.BinOp) -> object:
        return self._operate(node.op, self.value(node.left), self.value(node.right))

    def _of_Compare(self, node: ast.Compare) -> object:
        left, result = self.value(node.left), True
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            value = self._operate(op, left, right)
            if len(node.ops) == 1:
                return value
            result, left = result and self._true(value), right
        return result

    def _operate(self, op: ast.AST, left: object, right: object) -> object:
        function = _OPERATORS.get(type(op))
        known = _known_inside if type(op) in COMPARE else _known
        if function is not None and known(left) and known(right) and _is_short(op, left, right):
            return _applied(function, left, right)
        key = (type(op).__name__, repr(left), repr(right))
        return _Unknown(key, _from_result(left) or _from_result(right))

    def _of_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> object:
        values: list[object] = []
        if len(node.generators) > 1:
            self.path.unsure = True
        generator = node.generators[0]
        for item in self._items(generator.iter):
            self._assign(generator.target, item)
            if all(self._truth(condition) for condition in generator.ifs):
                values.append(self.value(node.elt))
        return values

    _of_GeneratorExp = _of_SetComp = _of_ListComp

    def _of_DictComp(self, node: ast.DictComp) -> object:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return _applied(dict, self._of_ListComp(ast.ListComp(pair, node.generators)))

    def _items(self, node: ast.expr) -> Iterable[object]:
        value = self.value(node)
        if isinstance(value, (list, tuple, range, dict, str, set, enumerate, zip)):
            items = list(islice(value, _TURNS + 1))
            if len(items) > _TURNS:
                raise _Abandoned
            return items
        count = self.path.choose(("items", repr(value)), 3)
        self.path.empty |= not count
        return [_Unknown((repr(value), index), _from_result(value)) for index in range(count)]

    def _truth(self, node: ast.expr, turn: int = 0) -> bool:
        return self._true(self.value(node), turn)

    def _true(self, value: object, turn: int = 0) -> bool:
        if isinstance(value, _Unknown):
            self.path.unsure |= value.result
            return self.path.choose(("true", turn, value.key), 2) == 0
        if isinstance(value, _Origin):
            return self.path.choose(("true", turn, value.name), 2) == 0
        return bool(value) if _known(value) else True

    # Calls

    def _of_Call(self, node: ast.Call) -> object:
        function = self._method(node, node.func) if isinstance(node.func, ast.Attribute) else None
        if function is not None:
            return function()
        called = self.value(node.func)
        given = self._of_List(ast.List([*node.args], ast.Load()))
        named = {k.arg or "**": self.value(k.value) for k in node.keywords}
        arguments: list[object] = [*given, *named.values()]
        if isinstance(called, _Origin):
            return self._imported(node, called.name, given, named)
        if isinstance(called, ast.FunctionDef):
            return self._function(called, given, named)
        if isinstance(called, _Unknown) and called.changed:
            given_on = self._unfollowed(replace(called, result=False), arguments)
            return replace(given_on, result=True)
        return self._unfollowed(called, arguments)

    def _method(self, node: ast.Call, function: ast.Attribute) -> Callable[[], object] | None:
        holder, name = self.value(function.value), function.attr
        if isinstance(holder, _Result) and name == "wasSuccessful":
            return lambda: holder.code == 0
        if isinstance(holder, (list, set, dict)) and hasattr(holder, name):
            return lambda: self._container(node, holder, name)
        if isinstance(holder, _Unknown) and name != "wasSuccessful":
            self._change(function.value, None)
        if isinstance(holder, _Parser):
            return lambda: self._parser(node, holder, name)
        if isinstance(holder, _Runner) and name == "run":
            suites = [self.value(argument) for argument in node.args]
            return lambda: _Result(self._ran(holder.node, "unittest", suites))
        return None

    def _parser(self, node: ast.Call, parser: _Parser, name: str) -> object:
        """A call of a method of a parser whose program is given no arguments."""
        given = self._of_List(ast.List([*node.args], ast.Load()))
        named = {k.arg or "**": self.value(k.value) for k in node.keywords}
        if name == "add_argument":
            option = _option(given, named)
            parser.values.update({key: v for key, v in option.items() if key not in parser.values})
        elif name == "parse_args" and given in ([], [[]]) and not named:
            return _Options(dict(parser.values))
        elif name == "parse_known_args" and given in ([], [[]]) and not named:
            return _Options(dict(parser.values)), []
        elif name == "add_argument_group":
            return parser
        elif name not in ("print_help", "print_usage", "format_help"):
            parser.values.update({key: _Unknown((name, key)) for key in parser.values})
        return _Unknown((name, repr(given)))

    def _container(self, node: ast.Call, holder: Any, name: str) -> object:
        given = self._of_List(ast.List([*node.args], ast.Load()))
        named = {k.arg or "**": self.value(k.value) for k in node.keywords}
        if name in ("extend", "update"):  # by how many is not known, but by what
            given = [one if _known(one) else [one] for one in given]
        followed = name in (*_CHANGES, *_READS) and "**" not in named
        asks = name in ("count", "index", "get", "pop", "remove", "setdefault")
        if not followed or (asks and not (_known_inside(given) and _known_inside(list(holder)))):
            self.path.unsure |= self._failing
            return _Unknown((repr(holder), name, repr(given)), self._failing)
        if any(len(one) > _MOST for one in (holder, *given) if isinstance(one, (list, set, dict))):
            raise _Abandoned
        value = _applied(getattr(holder, name), *given, **named)
        return list(value) if name in ("items", "keys", "values") else value

    def _imported(
        self, node: ast.Call, name: str, given: list[object], named: dict[str, object]
    ) -> object:
        name = name.removeprefix("builtins.")
        if name in EXITS:
            code = given[0] if given else named.get("status")
            if name == "SystemExit":
                return _Raised(name, code)
            raise _Ended(code) if name == "os._exit" else _Raised("SystemExit", code)
        if (
            name == "argparse.ArgumentParser"
            and self.program.plain
            and "argument_default" not in named
        ):
            return _Parser({})
        if name == "unittest.TextTestRunner":
            return _Runner(node)
        if name in self.program.runners:
            return self._runner(node, name, given, named)
        if name in ("contextlib.suppress", "pytest.raises"):
            return _Suppress((*given, *named.values()))
        if name == "print":
            return None
        if name in _BUILTINS and all(map(_known_inside, given)) and not named:
            return _applied(_BUILTINS[name], *given)
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return _Raised(name)
        value = self._unfollowed(name, [*given, *named.values()])
        return replace(value, passes=_PASSING.fullmatch(name) is not None)

    def _runner(
        self, node: ast.Call, name: str, given: list[object], named: dict[str, object]
    ) -> object:
        if self.program.runners[name] == "pytest":
            return self._ran(node, "pytest", [*given, *named.values()])
        code = self._ran(node, "unittest", [given, named])
        options = named.get("**", {})
        if not isinstance(options, dict):
            options = {"exit": _Unknown(name, True)}
        ends = {"exit": given[5] if len(given) > 5 else True, **named, **options}["exit"]
        if name.startswith("unittest.") and not self._true(ends):
            return _Result(code)
        raise _Raised("SystemExit", min(code, 1))

    def _ran(self, node: ast.Call, kind: str, arguments: list[object]) -> int:
        """The code of a runner: with the same arguments the same tests fail."""
        self.path.reached.append(node)
        idle = COLLECTS if kind == "pytest" else _HELP
        collects = any(isinstance(word, str) and word in idle for word in _words(arguments))
        options = (0,) if collects else _CODES[kind]
        code = options[self.path.choose((id(node), repr(arguments)), len(options))]
        if (code or collects) and self.path.failed is None:
            self.path.failed = node
        return _Code(code)

    def _unfollowed(self, called: object, arguments: list[object]) -> _Unknown:
        """A call into what is not read: it may do anything with a result that it is given."""
        self.path.asked |= self.program.plain and not _is_quiet(called)
        result = _from_result(called) or any(map(_from_result, arguments))
        own = [v for v in self.local.values() if isinstance(v, (list, set, dict))]
        failing = self._failing and any(
            isinstance(a, ast.FunctionDef) or _holds_code(a) or any(a is v for v in own)
            for a in arguments
        )
        self.path.unsure |= result or failing
        return _Unknown((repr(called), repr(arguments)), result or failing)

    def _function(
        self, function: ast.FunctionDef, given: list[object], named: dict[str, object]
    ) -> object:
        if _manages(function, self.program.names):  # what it does comes with the `with`
            return _Unknown(
                (function.name, repr(given), repr(named)), passes=_only_yields(function)
            )
        inert = not self._failing or not any(map(_from_result, [*given, *named.values()]))
        if inert and not self.program.matters(function):
            self.path.asked = True  # it may call what runs tests in another module
            return _Unknown((function.name, repr(given), repr(named)))
        if self.depth >= _DEPTH:
            raise _Abandoned
        if function.decorator_list:
            self.path.unsure = True
        outer = (
            self.outer if self.depth == 0 or function.name in self.program.functions else self.local
        )
        frame = _Frame(self.path, self.program, outer, self.depth + 1)
        frame.local.update(self._bound(function.args, given, named))
        try:
            frame.run(function.body)
        except _Return as returned:
            return returned.value
        return None

    def _bound(
        self, wanted: ast.arguments, given: list[object], named: dict[str, object]
    ) -> dict[str, object]:
        places = [*wanted.posonlyargs, *wanted.args]
        every = [*places, *wanted.kwonlyargs]
        values: dict[str, object] = {a.arg: _Unknown(a.arg) for a in every}
        for place, default in zip(places[::-1], wanted.defaults[::-1], strict=False):
            values[place.arg] = self.value(default)
        for place, keyword in zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True):
            if keyword is not None:
                values[place.arg] = self.value(keyword)
        values.update({p.arg: value for p, value in zip(places, given, strict=False)})
        values.update({key: value for key, value in named.items() if key in values})
        if wanted.vararg is not None:
            values[wanted.vararg.arg] = given[len(places) :]
        return values


_METHODS: dict[type[ast.AST], Callable[[_Frame, Any], Any]] = {
    getattr(ast, name[4:]): method
    for name, method in vars(_Frame).items()
    if name.startswith(("_do_", "_of_"))
}


def _manages(function: ast.FunctionDef, names: dict[str, str]) -> bool:
    marks = (origin(decorator, names) for decorator in function.decorator_list)
    return "contextlib.contextmanager" in marks


def _only_yields(function: ast.FunctionDef) -> bool:
    """Whether nothing in a manager can catch what is raised where it yields."""
    catches = (ast.With, ast.Return, ast.Break, ast.Continue)
    return not any(
        isinstance(n, catches) or (isinstance(n, ast.Try) and n.handlers) for n in walk(function)
    )


def _words(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _words(one)
    elif isinstance(value, dict):
        yield from _words(list(value.values()))
    else:
        yield value


def _option(given: list[object], named: dict[str, object]) -> dict[str, object]:
    """The name and the value of an option of argparse that is not given."""
    names = [one for one in given if isinstance(one, str)]
    long = [one for one in names if one.startswith("--")] or names
    name = named.get("dest", long[0].lstrip("-").replace("-", "_") if long else None)
    if not isinstance(name, str) or "**" in named:
        return {}
    action = named.get("action", "store")
    default = {"store": None, "store_true": False, "store_false": True}
    if not isinstance(action, str) or action not in default or not names[0].startswith("-"):
        return {name: _Unknown(("option", name))}
    return {name: named.get("default", default[action])}


def _is_quiet(called: object) -> bool:
    """Whether a call surely runs no test."""
    return isinstance(called, str) and _QUIET.fullmatch(called) is not None


def _applied(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What a function gives; its errors are those of the program."""
    try:
        return function(*values, **named)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise _Raised(type(error).__name__) from None


def _is_short(op: ast.AST, left: object, right: object) -> bool:
    """Whether the result is surely no long text or list."""
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        return not any(sign in repr(left) for sign in "0123456789*")  # no width
    return not isinstance(op, ast.Mult) or all(isinstance(v, (int, float)) for v in (left, right))


def _known(value: object) -> bool:
    return value is None or isinstance(value, (int, float, str, bytes, list, tuple, dict, set))


def _known_inside(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return all(map(_known_inside, value))
    if isinstance(value, dict):
        return all(map(_known_inside, value.values()))
    if isinstance(value, range):
        return len(value[:_MOST]) < _MOST
    return _known(value) or isinstance(value, (enumerate, zip))


def _from_result(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(map(_from_result, value))
    if isinstance(value, dict):
        return any(map(_from_result, value.values()))
    return isinstance(value, _Result) or (isinstance(value, _Unknown) and value.result)


def _holds_code(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(map(_holds_code, value))
    if isinstance(value, dict):
        return any(map(_holds_code, value.values()))
    return isinstance(value, _Code)


def _stores(node: ast.Name | ast.Subscript | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _changed(node: ast.AST) -> str | None:
    """The name of what a call, or an assignment to a part of it, changes."""
    holder: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        holder = node.func.value if node.func.attr in _CHANGES else None
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and _stores(node):
        holder = node.value
    return holder.id if isinstance(holder, ast.Name) else None
