"""YAML with positions: every value knows its line, so that an error can name it.

Values are plain data (PyYAML's safe tags); nothing is constructed from tags of the document.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from runci.core.errors import RunciError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

# Aliases share nodes, so a small document can describe a huge tree: bound what a reader visits.
MAX_NODES = 200_000

Scalar: TypeAlias = str | int | float | bool | None
_Pairs: TypeAlias = dict[str, tuple[yaml.Node, yaml.Node]]

_PLAIN = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Node:
    """One YAML value and where it stands (line and column from 1).

    `value` is a scalar, a tuple of nodes, or a dict from key text to node. Keys stay text: `on:`
    is "on", not True. `keys` gives the position of each key of a mapping.
    """

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    line: int
    column: int
    keys: dict[str, tuple[int, int]]

    def plain(self) -> object:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    @property
    def mapping(self) -> dict[str, Node]:
        """The value when it is a mapping, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """The value when it is a sequence, else an empty one."""
        return self.value if isinstance(self.value, tuple) else ()

    def get(self, *path: str) -> Node | None:
        """The node below a path of keys, or None."""
        node: Node | None = self
        for key in path:
            node = node.mapping.get(key) if node is not None else None
        return node


class YamlError(RunciError):
    """A document that cannot be used; `line` and `column` from 1."""

    def __init__(self, path: str, line: int, column: int, problem: str) -> None:
        super().__init__(f"{path}:{line}:{column}: {problem}")
        self.path, self.line, self.column, self.problem = path, line, column, problem


# Numbers that YAML 1.1 and 1.2 read differently: 030 is 24 or 30; 1:30, 1_0 and 0b11 are numbers
# in 1.1 alone, 08, 0o17 and 1e3 in 1.2 alone.
_TWO_MEANINGS = re.compile(
    r"""[-+]?(?:0[0-9_]+ | [0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    | 0b[01_]+ | 0o[0-7]+ | 0x[0-9a-fA-F]*_[0-9a-fA-F_]* | (?=[^_]*_)[0-9][0-9_]*(?:\.[0-9_]*)?
    | (?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][0-9]+ | [0-9]+[eE][-+][0-9]+)""",
    re.VERBOSE | re.ASCII,
)


def load(data: bytes, path: str, *, strict: bool = False, tags: Collection[str] = ()) -> Node:
    """Read one YAML document. Raises YamlError with the position of the fault.

    `strict` refuses numbers that YAML 1.1 and 1.2 read differently. A list with one of `tags`
    becomes a mapping with the tag as its one key; any other tag is an error.
    """
    text = _decode(data, path)
    _reject_controls(text, path)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise YamlError(path, 1, 1, "the file is empty")
        return _Builder(loader, path, strict, tags).build(root, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlError(path, line, column, f"invalid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise YamlError(path, 1, 1, f"invalid YAML: {error}") from error
    except RecursionError as error:
        raise YamlError(path, 1, 1, "nested too deeply: flatten the document") from error
    finally:
        loader.dispose()


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlError(path, line, 1, "not UTF-8: save the file as UTF-8") from error


def _reject_controls(text: str, path: str) -> None:
    """Characters that YAML forbids. PyYAML knows them too, but not on which line they stand."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        problem = f"invalid YAML: character U+{ord(found[0]):04X} may not stand in a file"
        raise YamlError(path, line, column, problem)


class _Builder:
    """Turns PyYAML's nodes into ours, once each, with a bound on what aliases can expand to."""

    def __init__(self, loader: _Loader, path: str, strict: bool, tags: Collection[str]) -> None:
        self._tags = tags
        self._strict = strict
        self._loader = loader
        self._path = path
        self._done: dict[int, tuple[Node, int]] = {}
        self._merged: dict[int, _Pairs] = {}

    def build(self, node: yaml.Node, above: tuple[int, ...]) -> Node:
        return self._sized(node, above)[0]

    def _sized(self, node: yaml.Node, above: tuple[int, ...]) -> tuple[Node, int]:
        """Build one node; also give how many values a reader of it visits."""
        known = self._done.get(id(node))
        if known is not None:
            return known
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if id(node) in above:
            raise self._error(node, "an anchor contains itself: write it out")
        value, keys, size = self._value(node, (*above, id(node)))
        if size > MAX_NODES:
            problem = f"anchors expand to more than {MAX_NODES} values: write them out"
            raise self._error(node, problem)
        self._done[id(node)] = built = (Node(value, line, column, keys), size)
        return built

    def _value(
        self, node: yaml.Node, above: tuple[int, ...]
    ) -> tuple[Scalar | tuple[Node, ...] | dict[str, Node], dict[str, tuple[int, int]], int]:
        tagged = isinstance(node, yaml.SequenceNode) and node.tag in self._tags
        if not (tagged or isinstance(node, yaml.ScalarNode) or node.tag in _PLAIN):
            raise self._error(node, f"tag {node.tag!r} is not plain data: leave it out")
        if isinstance(node, yaml.SequenceNode):
            built = [self._sized(item, above) for item in node.value]
            items, size = tuple(n for n, _ in built), 1 + sum(size for _, size in built)
            if not tagged:
                return items, {}, size
            place = node.start_mark.line + 1, node.start_mark.column + 1
            return {str(node.tag): Node(items, *place, {})}, {str(node.tag): place}, size + 1
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, above)
        return self._scalar(node), {}, 1

    def _mapping(
        self, node: yaml.MappingNode, above: tuple[int, ...]
    ) -> tuple[dict[str, Node], dict[str, tuple[int, int]], int]:
        values: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        size = 1
        for name, (key, item) in self._pairs(node, above[:-1]).items():
            values[name], added = self._sized(item, above)
            keys[name] = (key.start_mark.line + 1, key.start_mark.column + 1)
            size += added
        return values, keys, size

    def _pairs(self, node: yaml.Node, above: tuple[int, ...]) -> _Pairs:
        """The mapping's keys with those that `<<: *anchor` brings, each key once.

        PyYAML keeps a key as often as anchors repeat it, which a small document can make endless.
        """
        known = self._merged.get(id(node))
        if known is not None:
            return known
        if id(node) in above:
            raise self._error(node, "an anchor contains itself: write it out")
        own, merged = self._own(node), _Pairs()
        merge = own.pop("<<", None) if any(key.tag == _MERGE for key, _ in node.value) else None
        if merge is not None:
            for source in self._sources(merge[1]):
                merged.update(self._pairs(source, (*above, id(node))))
        self._merged[id(node)] = pairs = {**merged, **own}
        return pairs

    def _own(self, node: yaml.Node) -> _Pairs:
        own: _Pairs = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key must be a plain word or a string")
            name = str(key.value)
            if name in own:
                first = f"first on line {own[name][0].start_mark.line + 1}"
                raise self._error(key, f"key {name!r} stands twice ({first}): keep one")
            own[name] = (key, item)
        return own

    def _sources(self, node: yaml.Node) -> list[yaml.Node]:
        """The mappings to merge, the strongest last."""
        nodes = node.value[::-1] if isinstance(node, yaml.SequenceNode) else [node]
        for source in nodes:
            if not isinstance(source, yaml.MappingNode):
                raise self._error(source, "<< takes a mapping or a list of mappings")
        return nodes

    def _scalar(self, node: yaml.Node) -> Scalar:
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        if self._strict and plain and _TWO_MEANINGS.fullmatch(node.value):
            problem = (
                f"{node.value} is not one number in every YAML: write it plainly, or in quotes"
            )
            raise self._error(node, problem)
        if node.tag == _TEXT:
            return str(node.value)
        try:
            value: Hashable = self._loader.construct_object(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # PyYAML's constructors fail as they will on `2026-13-45` or `!!bool x`.
            problem = f"invalid value {node.value!r}: write it in quotes"
            raise self._error(node, problem) from error
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        return str(node.value)  # dates, times and binary stay text

    def _error(self, node: yaml.Node, problem: str) -> YamlError:
        mark = node.start_mark
        return YamlError(self._path, mark.line + 1, mark.column + 1, problem)
