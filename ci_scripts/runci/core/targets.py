"""What is asked for: a path, or PATH::Class::test[parameters] for a part of a file, as in pytest,
or PATH::@MARKS for the tests of a file that have some marks.

Pure but for `wanted`, which looks whether paths exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runci.core.errors import RunciError
from runci.core.marks import SIGN, compiled
from runci.core.paths import is_below, relative
from runci.core.selected import EVERYTHING, Selected

# Names as Python writes them; then, for one set of parameters, its brackets. Or tests by marks.
_TEST = re.compile(r"[^\W\d]\w*(?:::[^\W\d]\w*)*(?:\[.*\])?")


@dataclass(frozen=True, slots=True)
class Target:
    """A file or folder; `test` is what stands after the first `::`, None for all of it."""

    path: str
    test: str | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """Paths relative to the root, and of files that are not wanted whole, the tests."""

    paths: tuple[str, ...] = ()
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_target(text: str) -> Target:
    """Raises RunciError where something else than a test stands after `::`."""
    path, mark, test = text.partition("::")
    if not mark:
        return Target(text)
    if test.startswith(SIGN):
        try:
            compiled(test.removeprefix(SIGN))
        except ValueError as error:
            raise RunciError(
                f"{text!r}: {error}: write PATH::@gpu, or PATH::@'gpu and not slow'"
            ) from error
    elif not path or not _TEST.fullmatch(test) or not test.isprintable():
        raise RunciError(
            f"{text!r}: write PATH::test or PATH::Class::test, for one set of parameters with its "
            "brackets, as pytest prints it"
        )
    return Target(path, test)


def wanted(root: Path, given: Sequence[str], cwd: Path) -> Targets:
    """The arguments of a command line. Raises RunciError for what does not exist.

    Who names a file, or its folder, beside one of its tests wants all of it.
    """
    targets = [read_target(text) for text in given]
    found = [(relative(root, target.path, cwd), target.test) for target in targets]
    paths = tuple(dict.fromkeys(path for path, _ in found))
    whole = tuple(path for path, test in found if test is None)
    only: dict[str, tuple[str, ...]] = {}
    for path, test in found:
        if test is not None and not is_below(path, whole):
            only[path] = tuple(sorted({*only.get(path, ()), test}))
    return Targets(paths, only)


def targets(path: str, only: Iterable[str]) -> list[str]:
    """How a file, or these tests of it, are given to `runci run`."""
    return [f"{path}::{test}" for test in only] or [path]


def title(path: str, only: Iterable[str], selected: Selected = EVERYTHING) -> str:
    """How a file, or these tests of it, are shown, and told apart from others."""
    return " ".join([*targets(path, only), *([selected.shown] if selected else [])])


def selects(wanted_test: str, test: str, marks: Collection[str] | None = None) -> bool:
    """Whether a test, as it is called after its path, is the wanted one or a part of it.

    A class wants its tests, a test without brackets all its parameters. Whether one has the marks
    that are wanted is known only where its `marks` are; elsewhere it may.
    """
    if wanted_test.startswith(SIGN):
        return marks is None or compiled(wanted_test.removeprefix(SIGN))(marks) is True
    if test == wanted_test or test.startswith(f"{wanted_test}::"):
        return True
    return "[" not in wanted_test and test.startswith(f"{wanted_test}[")


def unmatched(only: Iterable[str], tests: Mapping[str, Collection[str]]) -> list[str]:
    """What is wanted, but is none of these tests, each with its marks."""
    there = tests.items()
    return [one for one in only if not any(selects(one, *test) for test in there)]


def beyond(only: Sequence[str], tests: Iterable[str]) -> list[str]:
    """Those of the tests that nobody asked for; a subtest stands in round brackets after its test.

    What holds a wanted test, such as a class that is skipped whole, is none.
    """

    def fits(one: str, test: str) -> bool:
        return selects(one, test) or test.startswith(f"{one} (") or not test or selects(test, one)

    return [test for test in tests if not any(fits(one, test) for one in only)]
