"""As few globs as possible that take some test files and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from runci.config.taxonomy import OUT
from runci.core.globs import UNHELD, escaped, matches
from runci.core.paths import is_below


@dataclass(slots=True)
class _Folder:
    folders: dict[str, _Folder] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def cover(wanted: Collection[str], others: Collection[str]) -> tuple[str, ...]:
    """Globs for `tests` of a suite that take all of `wanted` and none of `others`.

    Folders, single files, and «!» for what is taken out again: the fewest of these that there are.
    A later one decides. Empty where nothing is wanted.
    """
    top = _Folder()
    for path in sorted({*wanted, *others}):
        *folders, _ = path.split("/")
        at = top
        for name in folders:
            at = at.folders.setdefault(name, _Folder())
        at.files.append(path)
    inside = frozenset(wanted)
    costs: dict[tuple[int, bool], int] = {}
    _cost(top, inside, costs)
    found = list(_entries(top, "", False, inside, costs))
    takes_ = taker(found)
    for path in sorted({*wanted, *others}):  # a name without a folder means it in every one
        if (taken := takes_(path)) != (path in inside):
            found.append(f"{OUT if taken else ''}{escaped(path)}")
            takes_ = taker(found)  # rare, and it may take others, too
    return tuple(found)


def taker(entries: Iterable[str]) -> Callable[[str], bool]:
    """Whether `tests` with these globs take a file: the last that matches decides.

    Thousands of entries that are paths cost no more than one.
    """
    plain: dict[str, int] = {}
    globs: list[tuple[int, str]] = []
    out: list[bool] = []
    for at, entry in enumerate(entries):
        glob = entry.removeprefix(OUT)
        out.append(entry.startswith(OUT))
        if is_path(glob):
            plain[glob] = at
        else:
            globs.append((at, glob))

    def takes(path: str) -> bool:
        last = max((at for at, glob in globs if matches(path, (glob,))), default=-1)
        last = max(last, plain.get(path, -1))
        return last >= 0 and not out[last]

    return takes


def is_path(glob: str) -> bool:
    """Whether a glob is the path of one file, and matches no other."""
    return "/" in glob and not set(glob) & set("*?[")


def _cost(folder: _Folder, wanted: frozenset[str], costs: dict[tuple[int, bool], int]) -> None:
    """How many entries it takes below a folder, by whether its files are taken so far."""
    for below in folder.folders.values():
        _cost(below, wanted, costs)
    for taken in (True, False):
        wrong = sum((path in wanted) != taken for path in folder.files)
        costs[id(folder), taken] = min(wrong, 1 + len(folder.files) - wrong) + sum(
            _least(below, taken, costs) for below in folder.folders.values()
        )


def _least(folder: _Folder, taken: bool, costs: dict[tuple[int, bool], int]) -> int:
    return min(costs[id(folder), taken], 1 + costs[id(folder), not taken])


def _entries(
    folder: _Folder,
    name: str,
    taken: bool,
    wanted: frozenset[str],
    costs: dict[tuple[int, bool], int],
) -> Iterable[str]:
    flipped, kept = 1 + costs[id(folder), not taken], costs[id(folder), taken]
    several = sum((path in wanted) != taken for path in folder.files) > 1
    # Of two ways of one length the one that takes new folders in, too.
    if flipped < kept or (flipped == kept and several and not folder.folders):
        yield f"{OUT if taken else ''}{escaped(name)}/**" if name else "**"
        taken = not taken
    wrong = sum((path in wanted) != taken for path in folder.files)
    direct = taken
    if name and 1 + len(folder.files) - wrong < wrong:
        yield f"{OUT if taken else ''}{escaped(name)}/*.py"
        direct = not taken
    for path in folder.files:
        if (path in wanted) != direct:
            yield f"{OUT if direct else ''}{escaped(path)}"
    for below, found in folder.folders.items():
        yield from _entries(found, f"{name}/{below}" if name else below, taken, wanted, costs)


def whole(wanted: Collection[str], others: Collection[str]) -> tuple[str, ...]:
    """As `cover`, with nothing taken out again: for entries that may not."""
    found = cover(wanted, others)
    if any(glob.startswith(OUT) for glob in found):
        return tuple(escaped(path) for path in sorted(wanted))
    return found


def roots_of(tests: Sequence[str], most: int = 8) -> tuple[str, ...]:
    """The folders that hold the tests: those called tests, or where the files stand."""
    found = {_root_of(path) for path in tests}
    found = {root for root in found if not is_below(root, found - {root})}
    if len(found) > most:
        found = {root.partition("/")[0] for root in found}
    return (".",) if "" in found or len(found) > most else tuple(sorted(found))


def _root_of(path: str) -> str:
    folders = path.split("/")[:-1]
    named = next((at for at, name in enumerate(folders) if name in _TEST_FOLDERS), None)
    root = folders if named is None else folders[: named + 1]
    while root and not all(c.isprintable() and c not in UNHELD for c in "/".join(root)):
        root = root[:-1]
    return "/".join(root)


def is_test_folder(folder: str) -> bool:
    """Whether it is called tests, or stands in a folder that is."""
    return not _TEST_FOLDERS.isdisjoint(folder.split("/"))


_TEST_FOLDERS = frozenset(("test", "tests", "testing", "unittests", "unit_tests"))
