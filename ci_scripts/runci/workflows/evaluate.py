"""What an expression can be when only part of what it reads is known; GitHub's functions."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from runci.workflows import expressions as syntax
from runci.workflows.expressions import Expression, ExpressionError, parse, split
from runci.workflows.values import (
    EITHER,
    UNKNOWN,
    Choices,
    Contexts,
    OneOf,
    Partial,
    Unknown,
    Value,
    bounded,
    concatenated,
    equal,
    flat,
    folded,
    is_known,
    joined,
    may_equal,
    number_of,
    one,
    product,
    spread,
    text_of,
    truth,
)

STATUS = frozenset({"always", "cancelled", "failure", "success"})
_FIELD = re.compile(r"\{\{|\}\}|\{(\d+)[^{}]*\}|[{}]")
_EQUALITY = ("==", "!=")
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def render(text: str, contexts: Contexts) -> Choices:
    """The possible values of a template; a lone `${{ }}` keeps its type, else they are text."""
    pieces = split(text)
    if len(pieces) == 1 and pieces[0].expression:
        return evaluate_text(pieces[0].text, contexts)
    return joined(
        evaluate_text(piece.text, contexts) if piece.expression else (piece.text,)
        for piece in pieces
    )


def can_hold(text: str, contexts: Contexts) -> bool:
    """Whether an `if:`, which may leave out `${{ }}`, can hold."""
    pieces = split(text)
    if len(pieces) != 1:
        return True  # none is `success()`; text around an expression is never empty, so true
    try:
        return can_be(True, parse(pieces[0].text), contexts)
    except (ExpressionError, RecursionError):
        return True


def can_be(wanted: bool, expression: Expression, contexts: Contexts) -> bool:
    """Whether GitHub can take the expression for true, or for false."""
    match expression:
        case syntax.Not(operand):
            return can_be(not wanted, operand, contexts)
        case syntax.Binary("||" | "&&" as symbol, left, right):
            every = all if wanted is (symbol == "&&") else any
            return every(can_be(wanted, side, contexts) for side in (left, right))
    return any(truth(value) is not (not wanted) for value in evaluate(expression, contexts))


def evaluate_text(text: str, contexts: Contexts) -> Choices:
    """The possible values of an expression; unknown where it is none, or endless."""
    try:
        return evaluate(parse(text), contexts)
    except (ExpressionError, RecursionError):
        return UNKNOWN


def evaluate(expression: Expression, contexts: Contexts) -> Choices:
    """Every possible value of an expression, at least one."""
    match expression:  # the most frequent first
        case syntax.Access(of, key):
            sources = evaluate(of, contexts)
            if sources is UNKNOWN:
                return UNKNOWN
            pairs = product((sources, evaluate(key, contexts)))
            return flat(_accessed(*pair) for pair in pairs)
        case syntax.Literal(value):
            return (value,)
        case syntax.Name(name):
            return spread(contexts[name]) if name in contexts else UNKNOWN
        case syntax.Binary("||" | "&&" as symbol, left, right):
            return _logical(symbol, evaluate(left, contexts), evaluate(right, contexts))
        case syntax.Call(name, arguments):
            return _called(name, arguments, contexts)
        case syntax.Binary(symbol, left, right):
            pairs = product((evaluate(left, contexts), evaluate(right, contexts)))
            return flat(_compared(symbol, *pair) for pair in pairs)
        case syntax.Not(operand):
            return bounded(_negated(value) for value in evaluate(operand, contexts))
        case syntax.Star(of):
            return bounded(_filtered(value) for value in evaluate(of, contexts))
    raise TypeError(f"no expression: {expression!r}")


def _called(name: str, arguments: tuple[Expression, ...], contexts: Contexts) -> Choices:
    if not arguments and f"{name}()" in contexts:
        return spread(contexts[f"{name}()"])  # a status function, where its result is known
    found = product(evaluate(argument, contexts) for argument in arguments)
    return flat(call(name, combination) for combination in found)


def call(name: str, arguments: tuple[Value, ...]) -> Choices:
    """The possible results. What depends on the run (`success()`, `hashFiles()`) is unknown."""
    if name in STATUS:
        return (True,) if name == "always" else EITHER
    function = FUNCTIONS.get(name)
    if function is None or not arguments:
        return UNKNOWN
    return function(arguments)


def _contains(arguments: tuple[Value, ...]) -> Choices:
    within, item = _two(arguments)
    if not (is_known(within) and is_known(item)):
        return EITHER
    if isinstance(within, tuple):
        return (any(equal(value, item) for value in within),)
    if isinstance(within, dict) or isinstance(item, (tuple, dict)):
        return (False,)
    return (folded(text_of(item)) in folded(text_of(within)),)


def _on_texts(test: Callable[[str, str], bool], arguments: tuple[Value, ...]) -> Choices:
    text, part = _two(arguments)
    if not (is_known(text) and is_known(part)):
        return EITHER
    if isinstance(text, (tuple, dict)) or isinstance(part, (tuple, dict)):
        return (False,)
    return (test(folded(text_of(text)), folded(text_of(part))),)


def _two(arguments: tuple[Value, ...]) -> tuple[Value, Value]:
    return (arguments[0], arguments[1]) if len(arguments) == 2 else (Unknown(), Unknown())


def _case(arguments: tuple[Value, ...]) -> Choices:
    """`case(test, value, …, default)`: the value of the first test that is true."""
    found: list[Value] = []
    for test, value in zip(arguments[:-1:2], arguments[1::2], strict=False):
        if test is True:
            return bounded((*found, value))
        if test is not False:
            if not isinstance(test, (Unknown, OneOf)):
                return UNKNOWN  # GitHub takes booleans only, and fails
            found.append(value)
    return bounded((*found, arguments[-1]))


def _format(arguments: tuple[Value, ...]) -> Choices:
    template, *values = arguments
    if not is_known(template):
        return UNKNOWN
    text = text_of(template)
    parts: list[Value] = []
    done = 0
    for match in _FIELD.finditer(text):
        parts.append(text[done : match.start()])
        done = match.end()
        if match[1] is None:
            if len(match[0]) == 1:
                return UNKNOWN  # a lone brace, at which GitHub fails
            parts.append(match[0][0])
        else:
            index = int(match[1])
            if index >= len(values):
                return UNKNOWN
            parts.append(values[index])
    return (concatenated([*parts, text[done:]]),)


def _join(arguments: tuple[Value, ...]) -> Choices:
    items, separator = arguments[0], arguments[1] if len(arguments) > 1 else ","
    if isinstance(items, (Unknown, OneOf)):
        return UNKNOWN
    if isinstance(items, dict):
        return ("",)
    if isinstance(separator, (tuple, dict)):
        separator = ","
    values = items if isinstance(items, tuple) else (items,)
    parts = [part for value in values for part in (separator, value)]
    return (concatenated(parts[1:]),)


def _to_json(arguments: tuple[Value, ...]) -> Choices:
    value = arguments[0]
    if not is_known(value):
        return UNKNOWN
    return (json.dumps(_plain(value), indent=2, ensure_ascii=False),)


def _plain(value: Value) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _from_json(arguments: tuple[Value, ...]) -> Choices:
    value = arguments[0]
    if not is_known(value):
        return UNKNOWN
    try:
        return (_value(json.loads(text_of(value), parse_constant=_no_number)),)
    except (ValueError, RecursionError):
        return UNKNOWN


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _value(plain: object) -> Value:
    if isinstance(plain, list):
        return tuple(map(_value, plain))
    if isinstance(plain, dict):
        return {str(key): _value(value) for key, value in plain.items()}
    return plain if plain is None or isinstance(plain, (bool, int, float, str)) else Unknown()


def _negated(value: Value) -> Value:
    known = truth(value)
    return Unknown() if known is None else not known


def _logical(symbol: str, left: Choices, right: Choices) -> Choices:
    ends = symbol == "||"  # the truth of a left side that is itself the result
    found: list[Value] = []
    for value in left:
        known = truth(value)
        if known is None:
            # What && gives for an unknown left side is a false value: the empty text stands for it.
            found += [value if ends else "", *right]
        else:
            found += [value] if known is ends else right
    return bounded(found)


def _compared(symbol: str, left: Value, right: Value) -> Choices:
    if isinstance(left, (Unknown, OneOf)) or isinstance(right, (Unknown, OneOf)):
        return EITHER if may_equal(left, right) or symbol not in _EQUALITY else (symbol == "!=",)
    if symbol in _EQUALITY:
        return (equal(left, right) is (symbol == "=="),)
    if symbol in ("<=", ">=") and equal(left, right):
        return (True,)
    if isinstance(left, str) and isinstance(right, str):
        return (_ORDER[symbol](folded(left), folded(right)),)
    return (_ORDER[symbol](number_of(left), number_of(right)),)


class _Filtered(tuple[Value, ...]):
    """What `.*` gives: a property read from it is read from each item."""

    __slots__ = ()


def _filtered(of: Value) -> Value:
    if isinstance(of, _Filtered):
        inner = [_filtered(item) for item in of]
        if not all(isinstance(item, tuple) for item in inner):
            return Unknown()
        return _Filtered(value for item in inner if isinstance(item, tuple) for value in item)
    if isinstance(of, (Unknown, OneOf, Partial)):
        return of if isinstance(of, Unknown) else Unknown()
    if isinstance(of, (tuple, dict)):
        return _Filtered(of.values() if isinstance(of, dict) else of)
    return _Filtered()


def _accessed(of: Value, key: Value) -> Choices:
    if isinstance(of, OneOf) or isinstance(key, OneOf):
        pairs = product((spread(of), spread(key)))
        return flat(_accessed(*pair) for pair in pairs)
    if isinstance(of, Unknown) or isinstance(key, Unknown):
        return (Unknown(typed=isinstance(of, Unknown) and of.typed),)
    if isinstance(of, _Filtered):
        found = (_member(item, key) for item in of)
        return (_Filtered(one(choices) for choices in found if choices),)
    return _member(of, key) or (None,)


def _member(of: Value, key: Value) -> Choices:
    """What an object or array has under a key; nothing where it has none."""
    if isinstance(of, OneOf):
        return flat(_member(value, key) or (None,) for value in of.values)
    if isinstance(of, tuple):
        index = number_of(key)
        return spread(of[int(index)]) if 0 <= index < len(of) else ()
    if isinstance(of, dict) and not isinstance(key, (tuple, dict)):
        name = text_of(key).lower()
        found = (spread(value) for known, value in of.items() if known.lower() == name)
        return next(found, UNKNOWN if isinstance(of, Partial) else ())
    return UNKNOWN if isinstance(of, Unknown) else ()


FUNCTIONS: dict[str, Callable[[tuple[Value, ...]], Choices]] = {
    "case": _case,
    "contains": _contains,
    "endswith": partial(_on_texts, str.endswith),
    "format": _format,
    "fromjson": _from_json,
    "join": _join,
    "startswith": partial(_on_texts, str.startswith),
    "tojson": _to_json,
}
