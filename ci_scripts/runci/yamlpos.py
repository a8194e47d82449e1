"""YAML with positions: every value knows its line, so that an error can name it.

Values are plain data (PyYAML's safe tags); nothing is constructed from tags of the document.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from runci.errors import RunciError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

# Aliases share nodes, so a small document can describe a huge tree: bound what a reader visits.
MAX_NODES = 200_000

Scalar: TypeAlias = str | int | float | bool | None


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


def load(data: bytes, path: str) -> Node:
    """Read one YAML document. Raises YamlError with the position of the fault."""
    loader = _Loader(_decode(data, path))
    try:
        root = loader.get_single_node()
        if root is None:
            raise YamlError(path, 1, 1, "the file is empty")
        return _Builder(loader, path).build(root, ())
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


class _Builder:
    """Turns PyYAML's nodes into ours, once each, with a bound on what aliases can expand to."""

    def __init__(self, loader: _Loader, path: str) -> None:
        self._loader = loader
        self._path = path
        self._done: dict[int, tuple[Node, int]] = {}
        self._size = 0

    def build(self, node: yaml.Node, above: tuple[int, ...]) -> Node:
        return self._sized(node, above)[0]

    def _sized(self, node: yaml.Node, above: tuple[int, ...]) -> tuple[Node, int]:
        """Build one node; also give how many values a reader of it visits."""
        known = self._done.get(id(node))
        if known is not None:
            return known
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if id(node) in above:
            raise YamlError(self._path, line, column, "an anchor contains itself: write it out")
        value, keys, size = self._value(node, (*above, id(node)))
        if size > MAX_NODES:
            problem = f"anchors expand to more than {MAX_NODES} values: write them out"
            raise YamlError(self._path, line, column, problem)
        self._done[id(node)] = built = (Node(value, line, column, keys), size)
        return built

    def _value(
        self, node: yaml.Node, above: tuple[int, ...]
    ) -> tuple[Scalar | tuple[Node, ...] | dict[str, Node], dict[str, tuple[int, int]], int]:
        if isinstance(node, yaml.SequenceNode):
            built = [self._sized(item, above) for item in node.value]
            return tuple(n for n, _ in built), {}, 1 + sum(size for _, size in built)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, above)
        return self._scalar(node), {}, 1

    def _mapping(
        self, node: yaml.MappingNode, above: tuple[int, ...]
    ) -> tuple[dict[str, Node], dict[str, tuple[int, int]], int]:
        self._reject_duplicates(node)
        self._loader.flatten_mapping(node)  # `<<: *anchor`
        values: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        size = 1
        for key, item in node.value:
            name = self._key(key)
            values[name], added = self._sized(item, above)
            keys[name] = (key.start_mark.line + 1, key.start_mark.column + 1)
            size += added
        return values, keys, size

    def _reject_duplicates(self, node: yaml.MappingNode) -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            name = self._key(key)
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if name in seen:
                problem = f"key {name!r} stands twice (first on line {seen[name]}): keep one"
                raise YamlError(self._path, line, column, problem)
            seen[name] = line

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            line, column = node.start_mark.line + 1, node.start_mark.column + 1
            raise YamlError(self._path, line, column, "a key must be a plain word or a string")
        return str(node.value)

    def _scalar(self, node: yaml.Node) -> Scalar:
        try:
            value: Hashable = self._loader.construct_object(node)
        except ValueError as error:  # such as 2026-13-45, which looks like a date
            line, column = node.start_mark.line + 1, node.start_mark.column + 1
            raise YamlError(self._path, line, column, f"invalid value: {error}") from error
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        return str(node.value)  # dates, times and binary stay text
