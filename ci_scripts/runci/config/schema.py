"""The JSON Schemas of our files, and where a file differs from them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from runci.core.globs import check_glob
from runci.core.patterns import check_pattern
from runci.read.yamlpos import Node
from runci.text.wording import nearest_name

Schema: TypeAlias = Mapping[str, Any]
Pointer: TypeAlias = tuple[str | int, ...]

SHOWN = 24  # names that one message lists


def schema_text(name: str = "suites") -> str:
    """A schema as it is shipped."""
    # importlib.resources would cost more to import than the file to read.
    path = Path(__file__).parent / "schemas" / f"{name}.schema.json"
    return path.read_text(encoding="utf-8")


@functools.cache
def read_schema(name: str) -> dict[str, Any]:
    """A schema, parsed; shared, so not to be changed."""
    schema: dict[str, Any] = json.loads(schema_text(name))
    return schema


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where it stands (line and column from 1), what it is, and the way to it."""

    line: int
    column: int
    text: str
    pointer: Pointer = ()


def check(node: Node, schema: Schema) -> list[Problem]:
    """Everything in the document that the schema does not allow, in the order of the file."""
    checker = _Checker(schema)
    checker.visit(node, schema, ())
    return sorted(checker.problems, key=lambda problem: (problem.line, problem.column))


def remedy(value: object, allowed: Iterable[str]) -> str:
    """The tail of a message: the allowed values, and the nearest one to what was written."""
    names = list(dict.fromkeys(allowed))
    listed = ", ".join(names[:SHOWN]) or "none"
    if len(names) > SHOWN:
        listed += f" and {len(names) - SHOWN} more"
    near = nearest_name(str(value), tuple(names))
    return f"allowed: {listed}" + (f"; did you mean {near}?" if near else "")


def place(pointer: Pointer) -> str:
    """A pointer as people write it: `suites.cuda[0].kind`."""
    text = ""
    for part in pointer:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the document"


def shown(node: Node) -> str:
    """A value as a message shows it."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    if node.value is None:
        return "nothing"
    text = str(node.value).lower() if isinstance(node.value, bool) else repr(node.value)
    return text if len(text) <= 60 else text[:57] + "…" + text[0]


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: _TYPES["number"](value) and value % 1 == 0,
}
_FORMATS: dict[str, Callable[[str], object]] = {
    "regex": re.compile,
    "glob": check_glob,
    "test-glob": check_pattern,
}


class _Checker:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self.problems: list[Problem] = []

    def visit(self, node: Node, schema: Schema, at: Pointer) -> None:
        schema = self._resolve(schema)
        branch = self._branch(node, schema)
        if "enum" in branch:
            self._enum(node, branch, at)
        elif branch.get("type") is None or not _TYPES[branch["type"]](node.value):
            tail = "; put it in quotes" if _unquoted(node, branch) else ""
            self._reject(node, at, self._title(schema) + tail)
        else:
            for test in _CHECKS.get(branch["type"], ()):
                test(self, node, branch, at)

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:  # only `#/$defs/NAME`; keywords beside it are descriptions
            schema = self._root["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _branch(self, node: Node, schema: Schema) -> Schema:
        """The alternative that the writer meant: its first key or most of its keys are there."""
        if "oneOf" not in schema:
            return schema
        branches = [self._resolve(branch) for branch in schema["oneOf"]]
        fitting = [branch for branch in branches if _TYPES[branch["type"]](node.value)]
        if len(fitting) < 2:
            return fitting[0] if fitting else schema
        keys = node.mapping.keys()
        return max(fitting, key=lambda b: (b["required"][0] in keys, len(keys & b["properties"])))

    def _title(self, schema: Schema) -> str:
        """What the schema allows, in words."""
        if "title" in schema:
            return str(schema["title"])
        if "oneOf" in schema:
            return " or ".join(self._title(self._resolve(branch)) for branch in schema["oneOf"])
        return {"object": "a mapping", "array": "a list"}.get(schema["type"], "true or false")

    def _fault(self, node: Node, at: Pointer, text: str) -> None:
        self.problems.append(Problem(node.line, node.column, f"{place(at)}: {text}", at))

    def _reject(self, node: Node, at: Pointer, allowed: str) -> None:
        self._fault(node, at, f"{shown(node)} is not allowed; allowed: {allowed}")

    def _enum(self, node: Node, schema: Schema, at: Pointer) -> None:
        # True == 1 in Python, not in JSON.
        if isinstance(node.value, bool) or node.value not in schema["enum"]:
            values = [str(value) for value in schema["enum"]]
            self._fault(node, at, f"{shown(node)} is not allowed; {remedy(node.value, values)}")

    def _string(self, node: Node, schema: Schema, at: Pointer) -> None:
        value = str(node.value)
        if len(value) < schema.get("minLength", 0) or not re.search(
            schema.get("pattern", ""), value
        ):
            self._reject(node, at, self._title(schema))
        elif "format" in schema:
            try:
                _FORMATS[schema["format"]](value)
            except re.error as error:
                allowed = self._title(schema)
                self._fault(node, at, f"{shown(node)} is wrong: {error.msg}; allowed: {allowed}")

    def _range(self, node: Node, schema: Schema, at: Pointer) -> None:
        value: Any = node.value
        inside = (
            value > schema.get("exclusiveMinimum", float("-inf"))
            and value >= schema.get("minimum", float("-inf"))
            and value <= schema.get("maximum", float("inf"))
        )
        if not inside:  # written so that NaN, which compares with nothing, is outside
            self._reject(node, at, self._title(schema))

    def _size(self, node: Node, schema: Schema, at: Pointer) -> None:
        if not node.value and (schema.get("minItems") or schema.get("minProperties")):
            self._fault(node, at, f"{shown(node)} without entries; allowed: one entry or more")

    def _items(self, node: Node, schema: Schema, at: Pointer) -> None:
        for index, item in enumerate(node.items):  # every list of ours says what it holds
            self.visit(item, schema["items"], (*at, index))

    def _names(self, node: Node, schema: Schema, at: Pointer) -> None:
        for name in node.mapping if "propertyNames" in schema else ():
            line, column = node.keys[name]
            self.visit(Node(name, line, column, {}), schema["propertyNames"], (*at, name))

    def _properties(self, node: Node, schema: Schema, at: Pointer) -> None:
        known, others = schema.get("properties", {}), schema["additionalProperties"]
        for name, value in node.mapping.items():
            if name in known:
                self.visit(value, known[name], (*at, name))
            elif others is False:
                line, column = node.keys[name]
                text = f"{place(at)}: unknown key {name!r}; {remedy(name, known)}"
                self.problems.append(Problem(line, column, text, (*at, name)))
            else:
                self.visit(value, others, (*at, name))

    def _required(self, node: Node, schema: Schema, at: Pointer) -> None:
        for name in schema.get("required", ()):
            if name not in node.mapping:
                self._missing(node, schema, at, name, "")

    def _dependent(self, node: Node, schema: Schema, at: Pointer) -> None:
        for given, needed in schema.get("dependentRequired", {}).items():
            for name in needed:
                if given in node.mapping and name not in node.mapping:
                    self._missing(node, schema, at, name, f", which {given!r} needs")

    def _missing(self, node: Node, schema: Schema, at: Pointer, name: str, why: str) -> None:
        wanted = self._resolve(schema["properties"][name])
        allowed = ", ".join(map(str, wanted["enum"])) if "enum" in wanted else self._title(wanted)
        self._fault(node, at, f"key {name!r} is missing{why}; allowed: {allowed}")


def _unquoted(node: Node, schema: Schema) -> bool:
    """Whether YAML read a number or a boolean where a text is wanted."""
    return schema.get("type") == "string" and isinstance(node.value, (bool, int, float))


_Test: TypeAlias = Callable[[_Checker, Node, Schema, Pointer], None]
_CHECKS: dict[str, tuple[_Test, ...]] = {
    "string": (_Checker._string,),
    "number": (_Checker._range,),
    "integer": (_Checker._range,),
    "array": (_Checker._size, _Checker._items),
    "object": (
        _Checker._size,
        _Checker._required,
        _Checker._dependent,
        _Checker._names,
        _Checker._properties,
    ),
}
