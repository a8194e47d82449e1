"""One file's syntax tree, with what several readers ask of it: each worked out once."""

from __future__ import annotations

import ast
import bisect
from functools import cached_property
from typing import Any, TypeVar

from runci.core.source import lines_with
from runci.read.cases import Classes
from runci.read.decode import Positions
from runci.read.names import flat, is_main, names_of_imports, walk

_Statement = TypeVar("_Statement", bound=ast.stmt)


class Module:
    """A file's text and tree. `statements` are those at top level, and inside its blocks."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text, self.tree, self.body = text, tree, tree.body
        self.positions = Positions(text)
        self.statements = [*flat(tree.body)]
        self._kinds: dict[type, list[Any]] = {}
        for statement in self.statements:
            self._kinds.setdefault(type(statement), []).append(statement)
        self.names = names_of_imports(self.statements)
        self.blocks = [s for s in tree.body if type(s) is ast.If and is_main(s.test)]
        self._lines: dict[str, list[int]] = {}

    def each(self, kind: type[_Statement]) -> list[_Statement]:
        """The statements of this very kind, in order."""
        return self._kinds.get(kind, [])

    def says(self, word: str, first: int, last: int) -> bool:
        """Whether a line from `first` to `last` holds the word."""
        if word not in self._lines:
            self._lines[word] = lines_with(self.text, word)
        lines = self._lines[word]
        index = bisect.bisect_left(lines, first)
        return index < len(lines) and lines[index] <= last

    @cached_property
    def imported(self) -> list[ast.stmt]:
        """The statements that are there when the file is imported: without the main blocks."""
        if not self.blocks:
            return self.statements
        if self.body[-1] in self.blocks and len(self.blocks) == 1:  # nearly always
            return self.statements[: self.statements.index(self.body[-1])]
        return [*flat(s for s in self.body if s not in self.blocks)]

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions by name; of two of one name, the last."""
        return {function.name: function for function in self.each(ast.FunctionDef)}

    @cached_property
    def classes(self) -> Classes:
        """The classes at the top level."""
        return Classes({n.name: n for n in self.body if isinstance(n, ast.ClassDef)}, self.names)

    @cached_property
    def uses(self) -> frozenset[str]:
        """Every name in the file, wherever it stands."""
        return frozenset(n.id for n in walk(self.tree) if isinstance(n, ast.Name))
