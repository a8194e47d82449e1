"""Evaluates an expression on what is known of a machine: three-valued, and runs nothing."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from runci.read.names import dotted


class Unknown:
    """The value of what cannot be known; there is one, `UNKNOWN`."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
# What a chain of names, or a call of it with these arguments, is: UNKNOWN for most.
Lookup = Callable[[str, "list[Any] | None"], Any]

COMPARE: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "any": any,
    "all": all,
    "len": len,
    "bool": bool,
    "int": int,
    "tuple": tuple,
    "max": max,
    "min": min,
}
_LARGE = 10**9  # numbers of machines are small; a product of large ones takes long


def evaluate(node: ast.expr, lookup: Lookup) -> Any:
    """The value of an expression, UNKNOWN where it depends on something unknown or would raise."""
    try:
        return _value(node, lookup)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError):
        return UNKNOWN


def _value(node: ast.expr, lookup: Lookup) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BoolOp):
        return _bool(node, lookup)
    if isinstance(node, ast.Compare):
        return _compare(node, lookup)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _apply(_UNARY[type(node.op)], [_value(node.operand, lookup)])
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, lookup)
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_value(item, lookup) for item in node.elts)
    if isinstance(node, ast.IfExp):
        return _if(node, lookup)
    if isinstance(node, ast.Subscript):
        return _subscript(node, lookup)
    if isinstance(node, ast.Call):
        return _call(node, lookup)
    return _named(node, lookup)


def _named(node: ast.expr, lookup: Lookup) -> Any:
    """A chain of names, or a field of what a call gives."""
    name = dotted(node)
    if name is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        called = dotted(node.value.func)
        name = called and f"{called}().{node.attr}"
    return UNKNOWN if name is None else lookup(name, None)


def _apply(function: Callable[..., Any], values: list[Any]) -> Any:
    return UNKNOWN if any(_is_unknown(value) for value in values) else function(*values)


def _is_unknown(value: Any) -> bool:
    return value is UNKNOWN or (isinstance(value, tuple) and any(map(_is_unknown, value)))


def _bool(node: ast.BoolOp, lookup: Lookup) -> Any:
    """`and`, `or`: what decides stands, whatever is unknown beside it."""
    decides = isinstance(node.op, ast.Or)
    last: Any = not decides
    unknown = False
    for part in node.values:
        value = evaluate(part, lookup)
        if _is_unknown(value):
            unknown = True
        elif bool(value) is decides:
            return UNKNOWN if unknown and not isinstance(value, bool) else value
        else:
            last = value
    return UNKNOWN if unknown else last


def _compare(node: ast.Compare, lookup: Lookup) -> Any:
    values = [_value(side, lookup) for side in (node.left, *node.comparators)]
    results = [
        _apply(COMPARE[type(op)], values[index : index + 2]) for index, op in enumerate(node.ops)
    ]
    if any(result is False for result in results):
        return False
    return UNKNOWN if any(map(_is_unknown, results)) else all(results)


def _if(node: ast.IfExp, lookup: Lookup) -> Any:
    test = evaluate(node.test, lookup)
    if not _is_unknown(test):
        return _value(node.body if test else node.orelse, lookup)
    values = [evaluate(branch, lookup) for branch in (node.body, node.orelse)]
    return values[0] if not any(map(_is_unknown, values)) and values[0] == values[1] else UNKNOWN


def _arithmetic(node: ast.BinOp, lookup: Lookup) -> Any:
    sides = [_value(node.left, lookup), _value(node.right, lookup)]
    small = all(isinstance(side, int) and abs(side) < _LARGE for side in sides)
    known = _ARITHMETIC.get(type(node.op))
    return _apply(known, sides) if small and known else UNKNOWN


def _subscript(node: ast.Subscript, lookup: Lookup) -> Any:
    whole = _value(node.value, lookup)
    if isinstance(node.slice, ast.Slice):
        parts = (node.slice.lower, node.slice.upper, node.slice.step)
        at = [None if part is None else _value(part, lookup) for part in parts]
        return _apply(lambda w, a, b, c: w[a:b:c], [whole, *at])
    index = _value(node.slice, lookup)
    return whole[index] if isinstance(whole, tuple) and isinstance(index, int) else UNKNOWN


def _call(node: ast.Call, lookup: Lookup) -> Any:
    arguments = [evaluate(argument, lookup) for argument in node.args]
    name = dotted(node.func)
    if name is None:
        text = node.func
        if not isinstance(text, ast.Attribute) or text.attr not in ("lower", "upper") or arguments:
            return UNKNOWN
        return _apply(lambda value: getattr(value, text.attr)(), [_value(text.value, lookup)])
    if name in _FUNCTIONS and not node.keywords:
        return _apply(_FUNCTIONS[name], arguments)
    return lookup(name, arguments)


# What an expression in suites.yml may ask of a machine.
FACTS = ("backend", "gpus", "gpu", "compute_capability", "memory_gb")


def condition_problem(text: str) -> str | None:
    """What is wrong with an expression of `FACTS`, or None."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "is no Python expression"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*FACTS, *_FUNCTIONS}:
            return f"asks {node.id!r}, which is not known of a runner"
        if isinstance(node, ast.expr) and not isinstance(node, _ALLOWED):
            return f"holds {ast.unparse(node)!r}, which is not evaluated"
    return None


_ALLOWED = (
    ast.Constant,
    ast.Name,
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.BinOp,
    ast.Tuple,
    ast.List,
    ast.IfExp,
    ast.Subscript,
    ast.Call,
)
