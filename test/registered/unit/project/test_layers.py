"""Who may import whom in `runci`: as the table says, in no circle, and commands by name only."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from runci import register_cpu_ci

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "ci_scripts" / "runci"
DESIGN = ROOT / "docs" / "design.md"

# Each folder imports from those of earlier lines only; everybody may import `runci` itself, the
# markers and the version, which imports nothing.
LEVELS = (
    ("core",),
    ("text",),
    ("read",),
    ("config",),
    ("workflows",),
    ("checks", "adopt"),
    ("plan",),
    ("run", "results"),
    ("gate",),
    ("nightly",),
    ("commands",),
)
# The files beside the folders. `cli` starts commands by name, so that one command loads one.
FILES = {"": (), "cli": ("core", "text"), "__main__": ("cli",)}
BY_NAME = {"cli": ("commands",)}

RANK = {folder: rank for rank, level in enumerate(LEVELS) for folder in level}

Graph = dict[str, set[str]]


def imported(source: str, package: str) -> set[str]:
    """All that a module imports, wherever in it: in functions and under TYPE_CHECKING too.

    Of `from a import b`, `a.b`, which need be no module. `package` is where a leading dot starts.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = [*(parts if node.level else ()), *([node.module] if node.module else ())]
            found |= {".".join([*base, alias.name]) for alias in node.names}
    return found


def named(source: str) -> set[str]:
    """Names of our modules in strings, as for import_module; of an f-string, how it begins."""
    strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {
        text.rstrip(".")
        for text in strings
        if isinstance(text, str) and re.fullmatch(r"runci(\.\w+)+\.?", text)
    }


def known(names: Iterable[str], modules: Iterable[str]) -> set[str]:
    """The modules that these names stand for or stand in; names of other packages are left out."""
    ours = set(modules)
    found = set()
    for name in names:
        parts = name.split(".")
        prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        found |= {next((prefix for prefix in prefixes if prefix in ours), "")}
    return found - {""}


def graph_of(sources: Mapping[str, str], packages: Iterable[str] = ()) -> Graph:
    """Module → the modules that it imports by a statement."""
    of_package = set(packages)
    return {
        module: known(
            imported(source, module if module in of_package else module.rpartition(".")[0]), sources
        )
        - {module}
        for module, source in sources.items()
    }


def folder(module: str) -> str:
    """`core` of `runci.core.git`, `cli` of `runci.cli`, and nothing of `runci`."""
    return module.partition(".")[2].partition(".")[0]


def may(importer: str, other: str) -> bool:
    if other in ("", importer):
        return True
    if importer in FILES:
        return other in FILES[importer]
    return importer in RANK and other in RANK and RANK[other] < RANK[importer]


def breaches(graph: Graph, by_name: Graph) -> list[str]:
    """Who imports whom against the table, as sentences."""
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if not may(folder(module), folder(other))
    ]
    wrong += [
        f"{module} names {other}"
        for module, others in by_name.items()
        for other in others
        if not may(folder(module), folder(other))
        and folder(other) not in BY_NAME.get(folder(module), ())
    ]
    return sorted(wrong)


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Some circle, its first name again at its end; or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def by_folder(graph: Graph, depth: int) -> Graph:
    """The same between folders of one depth below `runci`; what stands less deep is left out."""

    def cut(module: str) -> str:
        parts = module.split(".")
        return ".".join(parts[: depth + 1]) if len(parts) > depth + 1 else ""

    folders: Graph = {}
    for module, others in graph.items():
        for other in others:
            if cut(module) and cut(other) and cut(module) != cut(other):
                folders.setdefault(cut(module), set()).add(cut(other))
    return folders


def sources_of(root: Path) -> tuple[dict[str, str], set[str]]:
    """Source by name of module, and which modules are packages."""
    sources, packages = {}, set()
    for path in sorted(root.rglob("*.py")):
        parts = ("runci", *path.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts = parts[:-1]
            packages.add(".".join(parts))
        sources[".".join(parts)] = path.read_text(encoding="utf-8")
    return sources, packages


SOURCES, PACKAGES = sources_of(PACKAGE)
GRAPH = graph_of(SOURCES, PACKAGES)


def test_folders_import_as_the_table_says() -> None:
    folders = {folder(module) for module in SOURCES}
    assert folders == {*RANK, *FILES}, "a new folder wants its line in LEVELS"
    names = {module: known(named(source), SOURCES) for module, source in SOURCES.items()}
    assert breaches(GRAPH, names) == []


def test_the_page_on_the_design_says_who_imports_whom() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)/` \|.*\| ([\w, ]+) \|$", DESIGN.read_text(encoding="utf-8"))
    said = {name: set(others.split(", ")) - {"nothing"} for name, others in rows}
    below = {name: by_folder(GRAPH, 1).get(f"runci.{name}", set()) for name in RANK}
    assert said == {name: set(map(folder, others)) for name, others in below.items()}
    assert [*said] == [*RANK]  # each below those that it may import


def test_no_circle_by_file() -> None:
    assert circle(GRAPH) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_no_circle_by_folder(depth: int) -> None:
    assert circle(by_folder(GRAPH, depth)) == []


def test_the_package_itself_imports_nothing() -> None:
    assert imported(SOURCES["runci"], "runci") == {"__future__.annotations"}


COMMANDS = {"runci.commands": "", "runci.commands.lint": ""}


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("runci.checks.engine", "from runci.core import git", []),
        ("runci.checks.engine", "import runci", []),
        ("runci.checks.engine", "import os, json\nfrom yaml import load", []),
        ("runci.commands.lint", "from runci.checks.engine import check", []),
        ("runci.cli", 'start(f"runci.commands.{name}")', []),
        ("runci.__main__", "from runci.cli import main", []),
        (
            "runci.core.git",
            "from runci.text import tables",
            ["runci.core.git imports runci.text.tables"],
        ),
        (
            "runci.core.git",
            "import runci.text.tables",
            ["runci.core.git imports runci.text.tables"],
        ),
        (
            "runci.checks.engine",
            "def run():\n    from runci.commands.lint import run",
            ["runci.checks.engine imports runci.commands.lint"],
        ),
        (
            "runci.checks.engine",
            'run("runci.commands.lint")',
            ["runci.checks.engine names runci.commands.lint"],
        ),
        (
            "runci.checks.engine",
            'run(f"runci.commands.{name}")',
            ["runci.checks.engine names runci.commands"],
        ),
        (
            "runci.cli",
            "def run():\n    import runci.commands.lint",
            ["runci.cli imports runci.commands.lint"],
        ),
        (
            "runci.run.pool",
            "from ..results import read",
            ["runci.run.pool imports runci.results.read"],
        ),
        (
            "runci.results.read",
            "import runci.run.pool",
            ["runci.results.read imports runci.run.pool"],
        ),
        ("runci.plan.build", "from runci import cli", ["runci.plan.build imports runci.cli"]),
        ("runci", "from runci.core import git", ["runci imports runci.core.git"]),
        ("runci.odd.file", "import runci.core.git", ["runci.odd.file imports runci.core.git"]),
    ],
)
def test_breaches(module: str, source: str, expected: list[str]) -> None:
    names = "runci cli __main__ core.git text.tables checks.engine plan.build run.pool results.read"
    modules = {name if name == "runci" else f"runci.{name}": "" for name in names.split()}
    sources = {**modules, **COMMANDS, "runci.results": "", module: source}
    graph = graph_of(sources, {"runci"})
    assert breaches(graph, {module: known(named(source), sources)}) == expected


def graph(**sources: str) -> Graph:
    """Of modules whose names have `_` for a dot."""
    return graph_of({f"runci.{name.replace('_', '.')}": text for name, text in sources.items()})


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"core_a": "import runci.core.b", "core_b": ""}, set()),
        (
            {
                "core_a": "if TYPE_CHECKING:\n    from runci.core.b import B",
                "core_b": "from runci.core import a",
            },
            {"runci.core.a", "runci.core.b"},
        ),
        (
            {
                "core_a": "class A:\n    def run(self):\n        from .b import run",
                "core_b": "import runci.core.c",
                "core_c": "from runci.core.a import A",
            },
            {"runci.core.a", "runci.core.b", "runci.core.c"},
        ),
    ],
)
def test_circles_by_file(sources: dict[str, str], expected: set[str]) -> None:
    assert set(circle(graph(**sources))) == expected


def test_a_circle_of_folders_without_one_of_files() -> None:
    found = graph(
        gate_x_a="import runci.gate.y.b",
        gate_x_c="",
        gate_y_b="",
        gate_y_d="import runci.gate.x.c",
        gate_e="import runci.gate.x.a",
    )
    assert circle(found) == []
    assert circle(by_folder(found, 1)) == []
    assert set(circle(by_folder(found, 2))) == {"runci.gate.x", "runci.gate.y"}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
