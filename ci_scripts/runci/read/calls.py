"""Finds every call of a registration marker, however it is written."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from runci.core.registration import MARKERS, POSITIONAL
from runci.read.decode import Positions
from runci.read.module import Module
from runci.read.names import STAR, children, dotted, flat, origin, source_of
from runci.read.testfile import LOADED, REBOUND, Argument, MarkerCall

# By the name of a marker: where it is bound at top level, and whether to a marker.
Bound: TypeAlias = Mapping[str, Sequence[tuple[int, bool]]]

# What looks like a marker, existing or not: a misspelled backend must not vanish.
MARKER = re.compile(r"register_\w+_ci")
_MENTION = re.compile(r"register_\w+_ci\b")
_LARGE = 10**300
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SIMPLE = {"assign", "annassign", "augassign", "return", "assert", "delete", "raise", "expr"}


def find_calls(module: Module) -> tuple[MarkerCall, ...]:
    """All marker calls of the file, in order of position."""
    mentions = len(_MENTION.findall(module.text))
    if not mentions:
        return ()
    tree = module.tree
    reader = _Reader(module.names, module.positions)
    calls = list(reader.top_level(tree))
    # The call of an alias mentions no marker.
    if mentions != sum(1 for call in calls if _MENTION.search(call.written)) + reader.imported:
        calls = list(reader.everywhere(tree))
    return tuple(sorted(calls, key=lambda call: call.span))


class _Reader:
    def __init__(self, names: dict[str, str], positions: Positions) -> None:
        self._names = dict(names)
        self._positions = positions
        self._bound: Bound = {}
        self.imported = sum(
            1 for name, source in names.items() if MARKER.fullmatch(name) and name in source
        )

    def top_level(self, tree: ast.Module) -> Iterator[MarkerCall]:
        """Calls that are plain statements at top level: nearly always all there are."""
        for statement in tree.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                call = self._read(statement.value, None)
                if call is not None:
                    yield call

    def everywhere(self, tree: ast.Module) -> Iterator[MarkerCall]:
        """Calls in any place, through names bound by assignment and as values too."""
        self._bind_assignments(tree)
        self._bound = marker_bindings(tree, self._names)
        pending: list[tuple[ast.AST, str | None, bool]] = [(n, None, False) for n in tree.body]
        while pending:
            node, within, handed = pending.pop()
            statement = isinstance(node, ast.Expr)
            around = within if statement else _around(node, within)
            inner = node.value if isinstance(node, ast.Expr) else node
            parts: Iterable[ast.AST] = children(node)
            call = None
            if isinstance(inner, ast.Call):
                call = self._read(inner, within if statement else around)
                if call is not None:
                    parts, around = _parts(inner), "expression" if statement else around
            elif handed and not (within or "").startswith("function"):
                call = self._value(inner)
            if call is not None:
                yield call
            pending.extend((part, around, handed or _hands_on(node, part)) for part in parts)

    def _bind_assignments(self, tree: ast.Module) -> None:
        for target, value in itertools.chain.from_iterable(map(bindings, flat(tree.body))):
            source = origin(value, self._names) or loaded(value)
            if source is not None and MARKER.fullmatch(source.rpartition(".")[2]):
                self._names[target] = source

    def _read(self, call: ast.Call, within: str | None) -> MarkerCall | None:
        written = dotted(call.func)
        if written is None:
            return self._read_dynamic(call, within)
        source = origin(call.func, self._names) or written
        module, _, marker = source.rpartition(".")
        if not MARKER.fullmatch(marker):
            return None
        via = "attribute" if "." in written else "name" if written == marker else "alias"
        if not module and via == "name":
            module = self._star_module()
        if is_rebound(self._bound.get(written, ()), call.lineno):
            module = REBOUND
        return MarkerCall(
            marker,
            written,
            via,
            module or None,
            within,
            tuple(self._arguments(call)),
            self._positions.span(call),
            self._positions.span(call.func),
        )

    def _value(self, node: ast.AST) -> MarkerCall | None:
        """A marker that is handed on, to be called elsewhere: `map(register_cuda_ci, ...)`."""
        written = dotted(node)
        source = origin(node, self._names) or ""
        module, _, marker = source.rpartition(".")
        module = module or self._star_module()
        if written is None or not module or marker not in MARKERS:
            return None
        span = self._positions.span(node)
        return MarkerCall(marker, written, "value", module, None, (), span, span)

    def _read_dynamic(self, call: ast.Call, within: str | None) -> MarkerCall | None:
        """`getattr(module, "register_cuda_ci")(...)`, `globals()["..."]`: a marker all the same."""
        inner = call.func
        looked_up = _looked_up(inner)
        if looked_up is None:
            return None
        name, owner = looked_up
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return None
        if not MARKER.fullmatch(name.value):
            return None
        module = origin(owner, self._names)
        written = source_of(inner)
        arguments = tuple(self._arguments(call))
        span, function = self._positions.span(call), self._positions.span(inner)
        return MarkerCall(
            name.value, written, "attribute", module, within, arguments, span, function
        )

    def _star_module(self) -> str:
        """Any star import may bind the marker: all their modules, separated by commas."""
        return ",".join(m for n, m in self._names.items() if n.startswith(STAR))

    def _arguments(self, call: ast.Call) -> Iterator[Argument]:
        for place, node in enumerate(call.args):
            if isinstance(node, ast.Starred):
                yield self._argument(None, node, node.value, kind="*")
            else:
                name = POSITIONAL[place] if place < len(POSITIONAL) else None
                yield self._argument(name, node, node)
        for keyword in call.keywords:
            kind = "**" if keyword.arg is None else None
            yield self._argument(keyword.arg, keyword, keyword.value, kind=kind, positional=False)

    def _argument(
        self,
        name: str | None,
        whole: ast.expr | ast.keyword,
        value: ast.expr,
        kind: str | None = None,
        positional: bool = True,
    ) -> Argument:
        found = _constant(value)
        text = source_of(value) if found is None else _written(found[0])
        return Argument(
            name,
            positional,
            kind or ("expression" if found is None else "constant"),
            "" if found is None else type(found[0]).__name__,
            _storable(found[0]) if found is not None else None,
            text if len(text) <= 80 else text[:77] + "...",
            self._positions.span(whole),
            self._positions.span(value),
        )


def _looked_up(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The name that is looked up at run time, and where: by getattr or in a namespace."""
    if isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) >= 2:
        return node.args[1], node.args[0]
    return (node.slice, node.value) if isinstance(node, ast.Subscript) else None


def _hands_on(node: ast.AST, part: ast.AST) -> bool:
    """Whether a node gives the value of a part to something that can call it."""
    if isinstance(node, ast.Call):
        return True
    return isinstance(node, (ast.For, ast.comprehension)) and part is node.iter


def _constant(node: ast.expr) -> tuple[object] | None:
    """The value of a literal (a sign is part of a number), boxed; None for an expression."""
    if isinstance(node, ast.Constant):
        return (node.value,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        operand = node.operand
        if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
            value = operand.value
            return (-value if isinstance(node.op, ast.USub) else value,)  # type: ignore[operator]
    return None


def _written(value: object) -> str:
    """A constant as text; Python writes no decimal number of any length."""
    return hex(value) if isinstance(value, int) and abs(value) > _LARGE else repr(value)


def _storable(value: object) -> str | int | float | bool | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGE:
        return float("inf")  # beyond any float; JSON readers differ on it
    return value if isinstance(value, (str, int, float, bool)) else None


def _parts(call: ast.Call) -> Iterator[ast.AST]:
    yield from call.args
    yield from call.keywords


def _around(node: ast.AST, within: str | None) -> str | None:
    """How a reader names what surrounds the children of a node."""
    if isinstance(node, _SCOPES):
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        return f"{kind} {getattr(node, 'name', '<lambda>')}"
    if isinstance(node, ast.stmt):
        if within is not None and within.startswith(("class", "function")):
            return within
        word = type(node).__name__.lower().removeprefix("async")
        return "expression" if word in _SIMPLE else word.removesuffix("star")
    if isinstance(node, (ast.ExceptHandler, ast.match_case)):
        return within
    return within or "expression"


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
