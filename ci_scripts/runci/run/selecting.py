"""Runs only the tests that were asked for, where they are collected: pytest's, and `unittest`'s."""

from __future__ import annotations

import unittest
import unittest.suite
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from runci.rules.base import nearest
from runci.run.events import Sink, short
from runci.targets import selects, unmatched

_SHOWN = 3


class PytestSelection:
    """A pytest plugin that leaves out what was not asked for; `only` are the tests by file.

    pytest itself could be given the ids, but then it says of an id that names nothing only that it
    could not start, and a script that calls pytest would need to pass them on. `file` is such a
    script: whatever path its tests have, they are the script's.
    """

    def __init__(
        self, sink: Sink, only: Mapping[str, Sequence[str]], file: str | None = None
    ) -> None:
        self._sink, self._only, self._file = sink, only, file
        self._skipped: list[tuple[str, str]] = []

    def pytest_collectreport(self, report: Any) -> None:
        """A file or class that is skipped whole: what was asked for may be in it."""
        if report.skipped:
            self._skipped.append(self._split(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Keep what was asked for; say what of it is not there."""
        kept: list[Any] = []
        dropped: list[Any] = []
        there: dict[str, list[str]] = {path: [] for path in self._only}
        for item in items:
            path, test = self._split(item.nodeid)
            if path in there:
                there[path].append(test)
            wanted = self._only.get(path)
            hit = wanted is None or any(selects(one, test) for one in wanted)
            (kept if hit else dropped).append(item)
        items[:] = kept
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        for path, tests in there.items():
            _tell(self._sink, path, self._absent(path, tests), tests)

    def _absent(self, path: str, tests: Sequence[str]) -> list[str]:
        skipped = [test for of, test in self._skipped if of == path]
        return [
            one
            for one in unmatched(self._only[path], tests)
            if not any(not whole or selects(whole, one) for whole in skipped)
        ]

    def _split(self, nodeid: str) -> tuple[str, str]:
        path, _, test = nodeid.partition("::")
        return self._file or path, test


def select_in_unittest(sink: Sink, file: str, only: Sequence[str]) -> None:
    """Let each runner of `unittest` run only these tests of a script."""
    original = unittest.TextTestRunner.run

    def run(self: Any, test: Any) -> Any:
        cases = list(_cases(test))
        names = [unittest_name(case) for case in cases if not _is_failed_import(case)]
        kept = [
            case
            for case in cases
            if _is_failed_import(case) or any(selects(one, unittest_name(case)) for one in only)
        ]
        _tell(sink, file, unmatched(only, names), names)
        return original(self, unittest.TestSuite(kept))

    unittest.TextTestRunner.run = run  # type: ignore[method-assign]


def unittest_name(test: Any) -> str:
    """A test of `unittest` as pytest would call it, after its path."""
    return "::".join(str(test.id()).removeprefix("__main__.").split("."))


def _cases(test: Any) -> Iterator[Any]:
    if isinstance(test, unittest.suite.BaseTestSuite):
        for one in test:
            yield from _cases(one)
    else:
        yield test


def _is_failed_import(case: Any) -> bool:
    """What stands for tests that could not be loaded; it fails when it runs."""
    return type(case).__module__ == "unittest.loader"


def _tell(sink: Sink, path: str, absent: Sequence[str], there: Sequence[str]) -> None:
    if not absent:
        return
    names = list(dict.fromkeys(test.partition("[")[0] for test in there))
    has = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else "")
    hint = nearest(absent[0], there) or nearest(absent[0], names)
    said = f"{path} has no test {', '.join(absent)}{hint} (it has {has or 'none'})"
    sink.send({"event": "absent", "test": path, "message": short(said)})
