"""The functions of GitHub's expressions, on values that may be unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from runci.workflows.values import (
    EITHER,
    UNKNOWN,
    Choices,
    Unknown,
    Value,
    concatenated,
    equal,
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
    return (text_of(item).lower() in text_of(within).lower(),)


def _starts_with(arguments: tuple[Value, ...]) -> Choices:
    return _on_texts(str.startswith, arguments)


def _ends_with(arguments: tuple[Value, ...]) -> Choices:
    return _on_texts(str.endswith, arguments)


def _on_texts(test: Callable[[str, str], bool], arguments: tuple[Value, ...]) -> Choices:
    text, part = _two(arguments)
    if not (is_known(text) and is_known(part)):
        return EITHER
    return (test(text_of(text).lower(), text_of(part).lower()),)


def _two(arguments: tuple[Value, ...]) -> tuple[Value, Value]:
    return (arguments[0], arguments[1]) if len(arguments) == 2 else (Unknown(), Unknown())


_FIELD = re.compile(r"\{\{|\}\}|\{(\d+)\}")


def _format(arguments: tuple[Value, ...]) -> Choices:
    template, *values = arguments
    if not isinstance(template, str):
        return UNKNOWN
    parts: list[Value] = []
    done = 0
    for match in _FIELD.finditer(template):
        parts.append(template[done : match.start()])
        done = match.end()
        if match[1] is None:
            parts.append(match[0][0])
        else:
            index = int(match[1])
            parts.append(values[index] if index < len(values) else Unknown())
    return (concatenated([*parts, template[done:]]),)


def _join(arguments: tuple[Value, ...]) -> Choices:
    items, separator = arguments[0], arguments[1] if len(arguments) > 1 else ","
    if isinstance(items, Unknown):
        return UNKNOWN
    values = items if isinstance(items, tuple) else (items,)
    parts = [part for value in values for part in (separator, value)]
    return (concatenated(parts[1:]),)


def _to_json(arguments: tuple[Value, ...]) -> Choices:
    value = arguments[0]
    return (json.dumps(value, indent=2),) if is_known(value) else UNKNOWN


def _from_json(arguments: tuple[Value, ...]) -> Choices:
    value = arguments[0]
    if not is_known(value):
        return UNKNOWN
    try:
        return (_value(json.loads(text_of(value))),)
    except (ValueError, RecursionError):
        return UNKNOWN


def _value(plain: object) -> Value:
    if isinstance(plain, list):
        return tuple(map(_value, plain))
    if isinstance(plain, dict):
        return {str(key): _value(value) for key, value in plain.items()}
    return plain if plain is None or isinstance(plain, (bool, int, float, str)) else Unknown()


FUNCTIONS: dict[str, Callable[[tuple[Value, ...]], Choices]] = {
    "contains": _contains,
    "endswith": _ends_with,
    "format": _format,
    "fromjson": _from_json,
    "join": _join,
    "startswith": _starts_with,
    "tojson": _to_json,
}
