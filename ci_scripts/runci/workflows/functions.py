"""The functions of GitHub's expressions, on values that may be unknown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from runci.workflows.values import (
    EITHER,
    UNKNOWN,
    Choices,
    OneOf,
    Unknown,
    Value,
    bounded,
    concatenated,
    equal,
    folded,
    is_known,
    text_of,
)


def call(name: str, arguments: tuple[Value, ...]) -> Choices:
    """The possible results. What depends on the run (`success()`, `hashFiles()`) is unknown."""
    if name in STATUS:
        return (True,) if name == "always" else EITHER
    function = FUNCTIONS.get(name)
    if function is None or not arguments:
        return UNKNOWN
    return function(arguments)


STATUS = frozenset({"always", "cancelled", "failure", "success"})


def _contains(arguments: tuple[Value, ...]) -> Choices:
    within, item = _two(arguments)
    if not (is_known(within) and is_known(item)):
        return EITHER
    if isinstance(within, tuple):
        return (any(equal(value, item) for value in within),)
    if isinstance(within, dict) or isinstance(item, (tuple, dict)):
        return (False,)
    return (folded(text_of(item)) in folded(text_of(within)),)


def _starts_with(arguments: tuple[Value, ...]) -> Choices:
    return _on_texts(str.startswith, arguments)


def _ends_with(arguments: tuple[Value, ...]) -> Choices:
    return _on_texts(str.endswith, arguments)


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


_FIELD = re.compile(r"\{\{|\}\}|\{(\d+)[^{}]*\}|[{}]")


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


FUNCTIONS: dict[str, Callable[[tuple[Value, ...]], Choices]] = {
    "case": _case,
    "contains": _contains,
    "endswith": _ends_with,
    "format": _format,
    "fromjson": _from_json,
    "join": _join,
    "startswith": _starts_with,
    "tojson": _to_json,
}
