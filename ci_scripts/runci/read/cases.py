"""What kind a test class is, as far as its file says: a TestCase, a plain class, or unknown."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runci.read.names import origin

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)  # isinstance is slow with a union
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)
_BASES = {
    "unittest.TestCase": "case",
    "unittest.case.TestCase": "case",
    "unittest.IsolatedAsyncioTestCase": "async",
    "unittest.async_case.IsolatedAsyncioTestCase": "async",
    "object": "plain",
}


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes at the top level of a file, by name; of two of one name, the last."""

    classes: Mapping[str, ast.ClassDef]
    names: Mapping[str, str]

    def kind(self, node: ast.ClassDef, depth: int = 0) -> str:
        """«case», «async» (an IsolatedAsyncioTestCase), «plain», or «unknown»."""
        if depth > len(self.classes) or any(keyword.arg for keyword in node.keywords):
            return "unknown"
        found = [self._base(base, depth) for base in node.bases]
        return next((kind for kind in ("unknown", "async", "case") if kind in found), "plain")

    def _base(self, base: ast.expr, depth: int) -> str:
        if isinstance(base, ast.Name) and base.id in self.classes:
            inner = self.classes[base.id]
            return self.kind(inner, depth + 1)
        return _BASES.get(origin(base, self.names) or "", "unknown")

    def lineage(self, node: ast.ClassDef, depth: int = 0) -> Iterator[ast.ClassDef]:
        """The class and its bases of this file."""
        yield node
        for base in node.bases if depth <= len(self.classes) else ():
            if isinstance(base, ast.Name) and base.id in self.classes:
                yield from self.lineage(self.classes[base.id], depth + 1)


def methods_of(node: ast.ClassDef) -> list[Function]:
    """The methods of the class itself that are tests by their names."""
    return [n for n in node.body if isinstance(n, FUNCTIONS) and n.name.startswith("test")]
