"""Files with registrations that no reader of the roots sees, and what a checkout leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.core.git import Entry, list_entries
from runci.core.globs import FileGlobs, matcher, matches
from runci.core.paths import is_below, walk
from runci.core.registration import MARKERS
from runci.read.decode import read
from runci.read.discover import Layout, by_root

# Names that may hold a registration by mistake; any other file is somebody's program.
NAMES = ("test_*.py", "*_test.py", "bench_*.py", "conftest.py")
_ANY = ("*", "**", "*.py")  # names that say nothing
# A name alone is enough: `from runci import register_cpu_ci as r`.
_MARKER = re.compile(rb"\b(?:" + "|".join(MARKERS).encode() + rb")\b")


@dataclass(frozen=True, slots=True)
class Outside:
    """Paths that hold what looks like a registration and are not read as tests; submodules in,
    at or around a root; and files below a root that a sparse checkout leaves out."""

    candidates: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


NOTHING = Outside()


def find_outside(root: Path, layout: Layout, read_already: Iterable[str]) -> Outside:
    """What `discover` leaves out without a word."""
    entries = list_entries(root, ".py")
    if entries is None:
        entries = [Entry(path) for path in walk(root, [""])]
    roots = frozenset(name.strip("/").removeprefix("./") for name in layout.roots)
    names = test_names(layout)
    known = frozenset(read_already)
    named = by_root(layout, lambda globs: matcher(_by_path(globs.exclude)))
    is_test = by_root(layout, _is_test)
    return Outside(
        tuple(
            entry.path
            for entry in entries
            if entry.path.endswith(".py")
            and entry.path not in known
            and not entry.skipped
            and (matches(entry.path, names) or is_below(entry.path, roots))
            and not named(entry.path)(entry.path)
            and _mentions(root, entry.path)
        ),
        tuple(entry.path for entry in entries if entry.submodule and _meets(entry.path, roots)),
        tuple(
            entry.path
            for entry in entries
            if entry.skipped and is_below(entry.path, roots) and is_test(entry.path)(entry.path)
        ),
    )


def test_names(layout: Layout) -> tuple[str, ...]:
    """Patterns of file names that say «test», the taxonomy's own among them."""
    every = (glob for globs in layout.globs_by_root().values() for glob in globs.test_files)
    own = (glob.rpartition("/")[2] for glob in every)
    return tuple(dict.fromkeys((*NAMES, *(name for name in own if name not in _ANY))))


def _mentions(root: Path, path: str) -> bool:
    data = read(root, path)
    return isinstance(data, bytes) and b"_ci" in data and _MARKER.search(data) is not None


def _meets(path: str, roots: Iterable[str]) -> bool:
    return is_below(path, frozenset(roots)) or any(is_below(root, (path,)) for root in roots)


def _by_path(exclude: Iterable[str]) -> tuple[str, ...]:
    """What is left out by path, and so on purpose."""
    return tuple(glob for glob in exclude if "/" in glob)


def _is_test(globs: FileGlobs) -> Callable[[str], bool]:
    tests, excluded = matcher(globs.test_files), matcher(globs.exclude)
    return lambda path: tests(path) and not excluded(path)


def shown(paths: Sequence[str]) -> str:
    """A few of many paths."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
