"""RT103: a marker under another name, or one that is not imported from a marker module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from runci.finding import Finding
from runci.parse.bound import LOADED, REBOUND
from runci.parse.model import MarkerCall, TestFile
from runci.registration import MARKERS
from runci.rules.base import FileRule, Tree, nearest
from runci.source import Edit, Span, at

_RENAMED = ("alias", "attribute")


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the function name of each such call."""
    for call in file.calls:
        problem = _problem(call, tree.taxonomy.marker_modules)
        if problem is None:
            continue
        message, remedy, fixable = problem
        yield Finding(
            file.path,
            call.function_span,
            "RT103",
            message,
            remedy,
            key=call.written,
            fixable=fixable and call.within is None,
        )


def _problem(call: MarkerCall, modules: Sequence[str]) -> tuple[str, str, bool] | None:
    if call.marker not in MARKERS:
        known = ", ".join(MARKERS)
        hint = nearest(call.marker, MARKERS)
        return f"{call.marker} is no registration marker{hint}", f"Markers are {known}.", False
    importing = f"`from {modules[0]} import {call.marker}`"
    if call.via == "value":
        message = f"{call.written} is handed on as a value: no call through it is read"
        return message, f"Write {importing} and call {call.marker}() itself.", False
    if call.via != "name":
        message = f"{call.written}() is {call.marker} under another name: it is not read"
        return message, f"Write {importing} and call {call.marker}() by that name.", True
    if call.module == REBOUND:
        message = f"{call.marker} is something else here: this file gives its name away before"
        return message, f"Give the other another name, or write {importing} after it.", False
    if call.module is None:
        return f"{call.marker} is not imported", f"Add {importing}.", True
    if not {*modules, LOADED}.intersection(call.module.split(",")):
        allowed = ", ".join(modules)
        message = f"{call.marker} comes from {call.module}, which is no marker module"
        return message, f"Import it from {allowed} (`marker_modules` in suites.yml).", False
    return None


def fix(file: TestFile, text: str, finding: Finding, tree: Tree) -> Sequence[Edit]:
    """Call the marker by its own name, wherever it is called so, and import that name."""
    call = next(c for c in file.calls if c.function_span == finding.span)
    same = [c for c in file.calls if c.via in _RENAMED and c.written == call.written]
    edits = [Edit(c.function_span, c.marker) for c in same]
    module = call.module if call.module in tree.taxonomy.marker_modules else None
    module = module or tree.taxonomy.marker_modules[0]
    # The import first: it may go where the call stands.
    return [*_import_edits(file, text, call, module, len(same)), *edits]


def _import_edits(
    file: TestFile, text: str, call: MarkerCall, module: str, calls: int
) -> list[Edit]:
    """Rename the alias where it is imported, else add an import; nothing where it is bound."""
    tree = ast.parse(text)
    uses = sum(1 for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == call.written)
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or (node.module or "") != module:
            continue
        for item in node.names:
            if item.name == call.marker and item.asname in (None, call.marker):
                return []
            if item.name == call.marker and item.asname == call.written and uses == calls:
                end_line, end = item.end_lineno or item.lineno, item.end_col_offset or 0
                span = Span(item.lineno, item.col_offset + 1, end_line, end + 1)
                return [Edit(span, call.marker)]
    return [Edit(at(file.import_line), f"from {module} import {call.marker}\n")]


RULE = FileRule(
    id="RT103",
    name="marker-under-another-name",
    summary="A marker is called through an alias, attribute or value, or is not imported from a "
    "marker module.",
    reason="A reader of the syntax tree knows markers by name. An alias, an attribute, or a marker "
    "handed to `map` or `functools.partial`, is dropped in silence by most readers; a name that is "
    "not imported stops the file with a NameError.",
    bad="from runci import register_cpu_ci as register\n\n"
    'register(est_time=5, stage="base-a", runner_config="cpu")',
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    fixable=True,
    check=check,
    fix=fix,
)
