"""Lists of tests that a repository has elsewhere, as entries for `tests` of suites. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from runci.adopt.hardware import BACKENDS, CPU, GPU, words_mean
from runci.adopt.pytest_files import is_named
from runci.config.taxonomy import Kind
from runci.core.errors import RunciError
from runci.core.globs import matches
from runci.core.labels import Label
from runci.core.marks import compiled
from runci.core.paths import is_below
from runci.core.registration import Backend
from runci.core.targets import read_target
from runci.text.wording import some
from runci.workflows.by_path import suffixes

BY_HAND = "by hand"
_MOST = 1024  # GPUs that a runner of a taxonomy may have
BUILDKITE, GITLAB = "Buildkite", "GitLab"
_SERVICES = (BUILDKITE, GITLAB)  # a suite has the service's name, and one may be of both
_KINDS = {"nightly": Kind.NIGHTLY, "weekly": Kind.WEEKLY, "stress": Kind.STRESS}
_KINDS |= {"post_merge": Kind.NIGHTLY, "postmerge": Kind.NIGHTLY}
_VENDORS = (
    (re.compile(r"ascend|npu"), Backend.NPU),
    (re.compile(r"xpu|intel[-_ ]?gpu"), Backend.XPU),
    (re.compile(r"musa|mthreads"), Backend.MUSA),
)
BACKENDS = {**BACKENDS, GPU: Backend.CUDA, CPU: Backend.CPU}


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list. `target` is a file, folder or glob, "" for the folder of the list.

    `names` are globs of the files of a folder that run, `without` what is left out. `narrowed` is
    what else selects a part, such as «-k fp8», and `refused` why it can be no entry of a suite.
    """

    line: int
    target: str
    test: str = ""
    marked: str = ""
    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    narrowed: str = ""
    refused: str = ""
    path: str = ""  # the file that says so, where that is not the list's

    @property
    def text(self) -> str:
        """For a report."""
        return self.target + (f"::{self.test}" if self.test else "")


@dataclass(frozen=True, slots=True)
class ListOfTests:
    """One list, as it is written. `words` say what it runs on, `gpus` how many, where it says so.

    `by` is who runs it today, BY_HAND where nothing does. `label` names the machine, `labels` are
    all that it must have where these are several.
    """

    path: str
    line: int
    name: str
    items: tuple[Item, ...]
    by: str
    words: tuple[str, ...] = ()
    label: Label = ""
    gpus: int | None = None
    kind: Kind = Kind.PER_COMMIT
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """Something of a list that no suite has, or has otherwise, and why."""

    path: str
    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A suite to write from lists. `tests` are single tests as `(path, test)`.

    `marked` as (expression, files). `sources` are the lists, as PATH:LINE.
    """

    name: str
    backend: Backend
    gpus: int
    label: Label
    kind: Kind
    by: str
    files: tuple[str, ...]
    tests: tuple[tuple[str, str], ...] = ()
    marked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sources: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """All files of which it has a test."""
        marked = (path for _, files in self.marked for path in files)
        return frozenset((*self.files, *(path for path, _ in self.tests), *marked))


def gpu_count(value: object) -> int | None:
    """How many GPUs a value of a list says; None where it says no number that there can be."""
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,4}", value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if 0 <= number <= _MOST else None


def sources_of(listed: Listed) -> str:
    """The lists of a suite: each file once, with its lines."""
    lines: dict[str, list[str]] = {}
    for path, _, line in (source.rpartition(":") for source in listed.sources):
        lines.setdefault(path, []).append(line)
    return some([f"{path}:{','.join(found)}" for path, found in lines.items()])


def kind_of(words: Iterable[str]) -> Kind:
    """When a list runs, by the words of its name."""
    text = "-".join(words).lower()
    return next((kind for word, kind in _KINDS.items() if word in text), Kind.PER_COMMIT)


def backend_of(words: Iterable[str]) -> Backend | None:
    """What a list runs on by its words; None where they do not say."""
    text = " ".join(words).lower()
    vendor = next((backend for pattern, backend in _VENDORS if pattern.search(text)), None)
    return vendor or BACKENDS.get(words_mean(text.replace("_", " ")))


class Places:
    """Where the entries of lists are: the test files of a repository, by the ends of their paths.

    `tests` are its test files with the names in them, `marks` the sets of marks that their tests
    have, `others` all other files.
    """

    def __init__(
        self,
        tests: Mapping[str, Collection[str]],
        others: Collection[str] = (),
        marks: Mapping[str, Iterable[Collection[str]]] = MappingProxyType({}),
    ) -> None:
        self._tests, self._others, self._marks = tests, others, marks
        self._ends: dict[str, set[str]] = {}
        self._below: dict[str, list[str]] = {"": [*tests]}  # the tests of a file or folder
        self._order = {path: at for at, path in enumerate(tests)}
        for path in tests:
            parts = path.split("/")
            for place in ("/".join(parts[:count]) for count in range(1, len(parts) + 1)):
                self._below.setdefault(place, []).append(path)
                for end in suffixes(place):
                    self._ends.setdefault(end, set()).add(place)

    def base(self, items: Iterable[Item]) -> str:
        """The folder that most entries of a list are written from; "" is the root."""
        votes: Counter[str] = Counter()
        for target in {_literal(item.target) for item in items} - {""}:
            votes.update(place[: -len(target)].rstrip("/") for place in self._of(target))
        return min(votes, key=lambda base: (-votes[base], len(base), base), default="")

    def files(self, item: Item, base: str) -> tuple[str, ...] | str:
        """The test files that an entry names, or why there are none."""
        at = self._at(item.target, base)
        if isinstance(at, str):
            return at
        out = tuple(place for one in item.without for place in self._without(one, base))
        named = frozenset(at)
        there = {path for place in named for path in self._below.get(place, ())}
        found = tuple(
            path
            for path in sorted(there, key=self._order.__getitem__)
            if not is_below(path, out)
            and (path in named or not item.names or is_named(path, item.names))
        )
        return found or "no test file is left in it"

    def has(self, path: str, test: str) -> bool:
        """Whether a file has a test, as far as its text tells."""
        names = self._tests[path]
        first, _, rest = test.partition("[")[0].partition("::")
        plain = test.partition("[")[0]
        open_class = f"{first}::*" in names or rest.count("::") > 0
        return "*" in names or plain in names or (bool(rest) and first in names and open_class)

    def marked(self, files: Iterable[str], expression: str) -> tuple[str, ...]:
        """Those of the files that may have tests with such marks. Raises ValueError."""
        fits = compiled(expression)
        known = ((path, self._marks.get(path, ((),))) for path in files)
        return tuple(path for path, sets in known if any(fits(one) is not False for one in sets))

    def _of(self, target: str) -> set[str]:
        return self._ends.get(target, set())

    def _at(self, target: str, base: str) -> tuple[str, ...] | str:
        plain = posixpath.normpath(target).removeprefix(".") if target else ""
        for end in suffixes(plain) if plain.startswith("/") else (plain,):
            if "*" in end or "?" in end:
                if found := self._globbed(end, base):
                    return found
                continue
            here = f"{base}/{end}".strip("/")
            if not end or here in self._of(here):
                return (here,)
            if places := self._of(end):
                if len(places) == 1:
                    return tuple(places)
                return f"it may be {' or '.join(sorted(places)[:3])}"
        bare = target.strip("/")
        if any(path == bare or path.endswith(f"/{bare}") for path in self._others):
            return "pytest's settings do not take this file for a test, or no test is in it"
        return "there is no such test file, nor a folder with one"

    def _globbed(self, glob: str, base: str) -> tuple[str, ...]:
        for wanted in (f"./{base}/{glob}".replace("//", "/")[2:], f"**/{glob}"):
            if found := tuple(path for path in self._tests if matches(path, (wanted,))):
                return found
        return ()

    def _without(self, target: str, base: str) -> tuple[str, ...]:
        found = self._at(target, base)
        return () if isinstance(found, str) else found


def _literal(target: str) -> str:
    """What of a target can tell where it lies: nothing where it is a glob."""
    return "" if set(target) & set("*?[") else target.strip("/").removeprefix("./")


@dataclass(slots=True)
class _Taken:
    """What lists of one suite come to."""

    whole: set[str]
    tests: dict[str, set[str]]
    marked: dict[str, set[str]]
    sources: list[str]

    def what(self) -> tuple[object, ...]:
        """The tests, without where they are from."""
        grouped = (
            {key: frozenset(group) for key, group in d.items()} for d in (self.tests, self.marked)
        )
        return (frozenset(self.whole), *(frozenset(one.items()) for one in grouped))


class _Key(NamedTuple):
    """What lists of one suite have in common."""

    name: str
    backend: Backend
    gpus: int
    label: Label
    labels: tuple[str, ...]
    kind: Kind
    by: str


def convert(
    lists: Sequence[ListOfTests], places: Places, guessed: Mapping[str, Backend]
) -> tuple[tuple[Listed, ...], tuple[Left, ...]]:
    """Suites for lists, and what of these could not be taken. `guessed`: each file's own backend.

    Lists of one name, machine and time are one suite.
    """
    left: list[Left] = []
    others: set[str] = set()  # lists of something else
    found: dict[_Key, _Taken] = {}
    bases: dict[str, str] = {}
    for one in lists:
        if one.path not in bases:
            items = [item for other in lists if other.path == one.path for item in other.items]
            bases[one.path] = places.base(items)
            there = sum(not isinstance(places.files(i, bases[one.path]), str) for i in items)
            if there * 2 < len(items):
                why = f"{there} of its {len(items)} entries name tests here: it is left out"
                left.append(Left(one.path, one.line, one.name, why))
                others.add(one.path)
        if one.path in others:
            continue
        taken = _Taken(set(), {}, {}, [f"{one.path}:{one.line}"])
        for item in one.items:
            left += _take(item, one, places, bases[one.path], taken)
        files = {*taken.whole, *taken.tests, *(p for group in taken.marked.values() for p in group)}
        if not files:
            continue
        backend = backend_of(one.words) or _usual(guessed[path] for path in sorted(files))
        gpus = 0 if backend is Backend.CPU else max(one.gpus or 1, 1)
        key = _Key(one.name, backend, gpus, one.label, one.labels, one.kind, one.by)
        _merge(found.setdefault(key, _Taken(set(), {}, {}, [])), taken)
    return tuple(_named(_together(found))), tuple(left)


def _together(found: Mapping[_Key, _Taken]) -> dict[_Key, _Taken]:
    """The same tests on the same machine, run by several services, as one suite of them all."""
    same: dict[tuple[object, ...], list[_Key]] = {}
    for key, taken in found.items():
        own = key if key.by not in _SERVICES else key._replace(name="", by="")
        same.setdefault((own, *taken.what()), []).append(key)
    made: dict[_Key, _Taken] = {}
    for first, *others in same.values():
        service, _, rest = first.name.partition("-")
        named = (service, *(one.name.partition("-")[0] for one in others), rest)
        name = "-".join(filter(None, named)) if others else first.name
        by = " and ".join(one.by for one in (first, *others))
        taken = found[first]
        for one in others:
            taken.sources += found[one].sources
        made[first._replace(name=name, by=by)] = taken
    return made


def _usual(backends: Iterable[Backend]) -> Backend:
    return Counter(backends).most_common(1)[0][0]


def _take(item: Item, one: ListOfTests, places: Places, base: str, taken: _Taken) -> Iterator[Left]:
    """Take an entry; what is left of it."""
    path = item.path or one.path
    files = item.refused or places.files(item, base)
    if isinstance(files, str):
        yield Left(path, item.line, item.text, files)
        return
    if item.narrowed:
        yield Left(path, item.line, item.text, f"taken, but all of it: {item.narrowed} is left out")
    try:
        wanted = places.marked(files, item.marked) if item.marked else files
        if item.test:
            read_target(f"{files[0]}::{item.test}")
    except (RunciError, ValueError) as error:
        yield Left(path, item.line, item.text, str(error))
        return
    if item.test and not places.has(files[0], item.test):
        yield Left(path, item.line, item.text, f"{files[0]} has no such test")
    elif not wanted:
        yield Left(path, item.line, item.text, f"no test of it is marked {item.marked}")
    elif item.test:
        taken.tests.setdefault(files[0], set()).add(item.test)
    elif item.marked:
        taken.marked.setdefault(item.marked, set()).update(wanted)
    else:
        taken.whole.update(files)


def _merge(into: _Taken, other: _Taken) -> None:
    into.whole |= other.whole
    into.sources += other.sources
    for mine, theirs in ((into.tests, other.tests), (into.marked, other.marked)):
        for key, values in theirs.items():
            mine.setdefault(key, set()).update(values)


def _named(found: Mapping[_Key, _Taken]) -> Iterator[Listed]:
    """The suites, each with a name of its own."""
    shared = Counter(key.name for key in found)
    used: set[str] = set()
    for (name, backend, gpus, label, labels, kind, by), taken in found.items():
        more = [f"{gpus}gpu"] if gpus > 1 and f"{gpus}gpu" not in name else []
        more += [kind.value] if kind is not Kind.PER_COMMIT else []
        full = slug("-".join([name, *(more if shared[name] > 1 else [])]))
        full = f"{full}-list" if full in _RESERVED else full
        while full in used:
            stem, _, count = full.rpartition("-")
            full = f"{stem}-{int(count) + 1}" if count.isdigit() and stem else f"{full}-2"
        used.add(full)
        tests = {path: names for path, names in taken.tests.items() if path not in taken.whole}
        yield Listed(
            full,
            backend,
            gpus,
            label,
            kind,
            by,
            tuple(sorted(taken.whole)),
            tuple((path, name) for path in sorted(tests) for name in sorted(tests[path])),
            tuple((text, tuple(sorted(paths))) for text, paths in sorted(taken.marked.items())),
            tuple(taken.sources),
            labels,
        )


_RESERVED = frozenset(backend.value for backend in Backend)  # what suites without a list are called


def slug(text: str, empty: str = "list") -> str:
    """A name for a suite or runner; `empty` where nothing of the text can stand in one."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or empty
