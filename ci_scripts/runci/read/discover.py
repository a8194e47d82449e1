"""Which files a repository's tests are, in one order on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from runci.core import inputs
from runci.core.errors import Exit, RunciError
from runci.core.git import list_files
from runci.core.globs import FileGlobs, matcher
from runci.core.paths import walk

T = TypeVar("T")


class Layout(Protocol):
    """What a taxonomy says of files."""

    @property
    def path(self) -> str:
        """Where the taxonomy stands."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that hold tests."""

    def globs_by_root(self) -> Mapping[str, FileGlobs]:
        """Those of roots that have their own; by "" those of all others."""

    def root_of(self, path: str) -> str:
        """The root whose own globs a path is sorted by; "" where it has none."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """Paths relative to the root, with forward slashes, sorted.

    `tests` are collected by runners; `others` are Python files under a root that are neither
    collected nor excluded; `packages` are folders with an `__init__.py`; `linked` are symbolic
    links to folders, whose files are not visited, and folders that cannot be listed.
    """

    tests: tuple[str, ...]
    others: tuple[str, ...]
    packages: frozenset[str]
    linked: tuple[str, ...] = ()


def discover(root: Path, taxonomy: Layout) -> Discovered:
    """Find the files below the taxonomy's roots. Raises RunciError where there are none."""
    inputs.look(*(root / name for name in taxonomy.roots))
    missing = [name for name in taxonomy.roots if not (root / name).is_dir()]
    if missing:
        raise RunciError(
            f"{taxonomy.path}: roots: no such folder: {', '.join(missing)} (below {root}): "
            f"correct `roots`, or pass --root"
        )
    listed = list_files(root, taxonomy.roots)
    paths = walk(root, taxonomy.roots) if listed is None else listed
    found = classify(paths, taxonomy)
    if not found.tests:
        folders = ", ".join(taxonomy.roots)
        every = (glob for globs in taxonomy.globs_by_root().values() for glob in globs.test_files)
        patterns = ", ".join(dict.fromkeys(every))
        raise RunciError(f"no test file ({patterns}) below {folders} in {root}", Exit.NOTHING)
    others = (path for path in paths if not path.endswith(".py"))
    linked = [path for path in others if os.path.isdir(f"{root}/{path}")]  # noqa: PTH112  faster
    is_excluded = by_root(taxonomy, lambda globs: matcher(globs.exclude))
    kept = tuple(path for path in linked if not is_excluded(path)(path))
    return replace(found, linked=kept)


def classify(paths: Sequence[str], taxonomy: Layout) -> Discovered:
    """Sort paths into tests, other Python files and packages."""
    tests: list[str] = []
    others: list[str] = []
    asked = by_root(taxonomy, lambda globs: (matcher(globs.test_files), matcher(globs.exclude)))
    for path in paths:
        is_test, is_excluded = asked(path)
        if path.endswith(".py") and not is_excluded(path):
            (tests if is_test(path) else others).append(path)
    packages = (p.rpartition("/")[0] for p in paths if p.endswith("/__init__.py"))
    return Discovered(tuple(sorted(tests)), tuple(sorted(others)), frozenset(packages))


def by_root(layout: Layout, make: Callable[[FileGlobs], T]) -> Callable[[str], T]:
    """What is made of the globs that sort a path, made once a root."""
    made = {root: make(globs) for root, globs in layout.globs_by_root().items()}
    if len(made) == 1:
        (usual,) = made.values()
        return lambda _path: usual
    return lambda path: made[layout.root_of(path)]


def why_not_visited(root: Path, path: str) -> str:
    """What is wrong with a folder among the files."""
    try:
        os.scandir(root / path).close()
    except OSError as error:
        return f"a folder that cannot be listed: {error.strerror}"
    return "a symbolic link to a folder"
