"""Counts what a script runs itself, and runs only what was asked for: `pytest.main`, `unittest`."""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
import time
import unittest
import unittest.case
import unittest.suite
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runci.core.marks import mark_text
from runci.core.selected import EVERYTHING, Selected
from runci.core.targets import selects, unmatched
from runci.run.events import Sink
from runci.run.narrow import PytestNarrow, chooser
from runci.run.raised import chain
from runci.run.reporter import (
    NO_SKIP,
    PytestReporter,
    PytestSelection,
    place,
    tell_absent,
    tell_end,
    tell_foreign,
)

# How unittest names what is set up or torn down around the tests of a class or module.
_AROUND = re.compile(r"(?P<what>(?:setUp|tearDown)(?:Class|Module)) \((?P<where>.+)\)")


def watch_scripts(
    sink: Sink, file: str, only: Sequence[str] = (), selected: Selected = EVERYTHING
) -> None:
    """Count what a script runs, whether it calls `pytest.main` or `unittest`; run only these."""
    main = pytest.main

    def counted(args: Any = None, plugins: Any = None) -> Any:
        added: list[Any] = [PytestReporter(sink, file=file)]
        if selected:
            added.append(PytestNarrow(sink, selected, (), file))
        if only:
            added.append(PytestSelection(sink, {file: only}, file))
        return main(args, plugins=[*(plugins or ()), *added])

    pytest.main = counted
    reporter = UnittestReporter(sink, file)
    reporter.install()
    if only or selected:
        select_in_unittest(sink, file, only, selected, reporter.has_begun)


@dataclass(frozen=True, slots=True)
class _Test:
    """What is told of a test; not the test itself, which may hold a GPU's memory."""

    kind: type
    id: str
    part_of: str = ""

    @classmethod
    def of(cls, test: Any) -> _Test:
        if isinstance(test, unittest.case._SubTest):  # type: ignore[attr-defined]
            return cls(type(test.test_case), str(test.id()), str(test.test_case.id()))
        return cls(type(test), str(test.id()))


class UnittestReporter:
    """Tells the parent of each test of `unittest` as it starts and ends.

    It listens to the result object that a test is given, of whatever class: one that does not call
    `unittest.TestResult`, as reporters of others, is heard as well.
    """

    def __init__(self, sink: Sink, file: str) -> None:
        self._sink, self._file = sink, file
        self._began: dict[str, float] = {}
        self._ended: set[str] = set()
        self._tests: dict[_Test, None] = {}
        # A result may hand on to another one: what happens is told once.
        self._inside = threading.local()

    def install(self) -> None:
        """Hear of every result from now on."""
        suite_run, case_run = unittest.suite.TestSuite.run, unittest.TestCase.run
        default = unittest.TestCase.defaultTestResult

        def of_suite(suite: Any, result: Any, debug: bool = False) -> Any:
            self._tests |= dict.fromkeys(map(_Test.of, _cases(suite)))
            self._listen(result)
            return suite_run(suite, result, debug)

        def of_case(case: Any, result: Any = None) -> Any:
            if result is not None:
                self._listen(result)
            return case_run(case, result)

        def made(case: Any) -> Any:
            result = default(case)
            self._listen(result)
            return result

        unittest.suite.TestSuite.run = of_suite  # type: ignore[method-assign, assignment]
        unittest.TestCase.run = of_case  # type: ignore[method-assign, assignment]
        unittest.TestCase.defaultTestResult = made  # type: ignore[method-assign, assignment]

    def has_begun(self, case: Any) -> bool:
        """Whether a test was begun, or is told of without that."""
        return case.id() in self._began or case.id() in self._ended

    def _listen(self, result: Any) -> None:
        if vars(result).get("runci_listens"):
            return
        result.runci_listens = True
        for method, told in self._listeners().items():
            if hasattr(result, method):
                setattr(result, method, self._telling(getattr(result, method), told))

    def _listeners(self) -> dict[str, Callable[..., None]]:
        return {
            "startTest": self._start,
            "addSuccess": lambda test: self._end(test, "passed"),
            "addFailure": lambda test, error: self._end(test, "failed", _said(error), error),
            "addError": lambda test, error: self._end(test, "failed", _said(error), error),
            "addSkip": lambda test, reason: self._end(
                test, "skipped", str(reason), skip=_where(test)
            ),
            "addExpectedFailure": lambda test, _: self._end(test, "passed"),
            "addUnexpectedSuccess": lambda test: self._end(test, "failed", "passed unexpectedly"),
            "addSubTest": self._part,
            "stopTest": self._stop,
        }

    def _telling(self, original: Callable[..., Any], told: Callable[..., None]) -> Any:
        def replaced(*arguments: Any) -> Any:
            if getattr(self._inside, "on", False):
                return original(*arguments)
            self._inside.on = True
            try:
                told(*arguments)
                return original(*arguments)
            finally:
                self._inside.on = False

        return replaced

    def _start(self, case: Any) -> None:
        test = _Test.of(case)
        if _stands_in(test.kind, self._file):
            self._began[test.id] = time.monotonic()
            self._ended.discard(test.id)
            self._sink.send({"event": "start", "test": self._name(test.id)})

    def _end(
        self,
        case: Any,
        outcome: str,
        message: str = "",
        error: Any = None,
        skip: Mapping[str, Any] = NO_SKIP,
    ) -> None:
        for test, said in self._around(_Test.of(case), message):
            if not _stands_in(test.kind, self._file):
                tell_foreign(self._sink, test.id, outcome, said)
                continue
            seconds = time.monotonic() - self._began.get(test.id, time.monotonic())
            self._ended.add(test.part_of or test.id)
            whole = self._name(test.part_of) if test.part_of else ""
            raised = [chain(error[1])] if error is not None else []
            name = self._name(test.id)
            tell_end(
                self._sink, name, outcome, seconds, said, part_of=whole, raised=raised, skip=skip
            )

    def _part(self, _: Any, subtest: Any, error: Any) -> None:
        if error is not None:
            self._end(subtest, "failed", _said(error), error)

    def _stop(self, case: Any) -> None:
        # Also called where an interrupt leaves a test without a verdict: that one never ended.
        if case.id() in self._ended:
            self._sink.send({"event": "end", "test": self._name(str(case.id()))})

    def _around(self, test: _Test, message: str) -> list[tuple[_Test, str]]:
        """The test; of what is set up around tests, those that did not run, as pytest does.

        Of what is torn down, the last of them.
        """
        around = issubclass(test.kind, unittest.suite._ErrorHolder)  # type: ignore[attr-defined]
        found = _AROUND.fullmatch(test.id) if around else None
        if found is None:
            return [(test, message)]
        what, where = found["what"], found["where"]
        within = [t for t in self._tests if where in (_class(t.kind), t.kind.__module__)]
        if what.startswith("setUp"):
            hit = [(one, message) for one in within if one.id not in self._ended]
        else:
            ended = [one for one in within if one.id in self._ended]
            hit = [(one, f"in {what}: {message}") for one in ended[-1:]]
        return hit or [(test, message)]

    def _name(self, test: str) -> str:
        return f"{self._file}::{plain_name(test)}"


def _where(case: Any) -> Mapping[str, Any]:
    """Where a skipped test stands; `unittest` says no more, of a class that it skips nothing."""
    case = getattr(case, "test_case", case)  # of a subtest
    method = getattr(case, getattr(case, "_testMethodName", ""), None)
    code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
    if code is None:
        return NO_SKIP
    path = os.path.abspath(code.co_filename)  # noqa: PTH100
    return {"place": place(path, code.co_firstlineno, Path.cwd())}


def _class(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _said(error: Any) -> str:
    return f"{error[0].__name__}: {error[1]}"


def select_in_unittest(
    sink: Sink,
    file: str,
    only: Sequence[str],
    selected: Selected,
    has_begun: Callable[[Any], bool],
) -> None:
    """Let each runner of `unittest` run only these tests of a script."""
    original = unittest.TextTestRunner.run
    chosen = chooser(selected) if selected.chooses else None

    def run(self: Any, test: Any) -> Any:
        cases = list(_cases(test))
        there = {plain_name(c.id()): _marks(c) for c in cases if not _is_failed_import(c)}
        asked = [c for c in cases if _is_failed_import(c) or _is_asked(c, there, only)]
        tell_absent(sink, file, unmatched(only, there), [*there])
        kept = [c for c in asked if chosen is None or _is_chosen(c, file, chosen)]
        if chosen is not None:
            count = len(asked) - len(kept)
            sink.send({"event": "unselected", "test": file, "count": count})
        self.failfast = self.failfast or selected.first
        result = original(self, unittest.TestSuite(kept))
        left = [f"{file}::{plain_name(case.id())}" for case in kept if not has_begun(case)]
        if selected.first and left:
            sink.send({"event": "left", "test": left[0], "count": len(left)})
        return result

    unittest.TextTestRunner.run = run  # type: ignore[method-assign]


def _is_asked(case: Any, there: Mapping[str, Sequence[str]], only: Sequence[str]) -> bool:
    name = plain_name(case.id())
    return not only or any(selects(one, name, there[name]) for one in only)


def _is_chosen(
    case: Any, file: str, chosen: Callable[[Sequence[str], Sequence[Any]], bool]
) -> bool:
    names = [*Path(file).parts, *plain_name(case.id()).split("::")]
    return _is_failed_import(case) or chosen(names, _mark_objects(case))


def _marks(case: Any) -> list[str]:
    return [mark_text(mark.name, mark.args, mark.kwargs) for mark in _mark_objects(case)]


def _mark_objects(case: Any) -> list[Any]:
    """The marks of pytest that a test bears, where `unittest` runs it."""
    method = getattr(case, getattr(case, "_testMethodName", ""), None)
    module = sys.modules.get(type(case).__module__)
    found: list[Any] = []
    for bearer in (method, *type(case).__mro__, module):
        marks = vars(bearer).get("pytestmark", ()) if hasattr(bearer, "__dict__") else ()
        found += marks if isinstance(marks, (list, tuple)) else [marks]
    return [getattr(mark, "mark", mark) for mark in found]  # a decorator that was not called


def plain_name(test: str) -> str:
    """What `unittest` calls a test as pytest would call it, after its path."""
    return "::".join(test.removeprefix("__main__.").split("."))


def _cases(test: Any) -> Iterator[Any]:
    if isinstance(test, unittest.suite.BaseTestSuite):
        for one in test:
            yield from _cases(one)
    else:
        yield test


def _is_failed_import(case: Any) -> bool:
    """What stands for tests that could not be loaded; it fails when it runs."""
    return type(case).__module__ == "unittest.loader"


def _stands_in(kind: type, file: str) -> bool:
    """Whether a class of tests is a script's own: it stands there, or is imported there."""
    module = sys.modules.get(kind.__module__)
    main = sys.modules.get("__main__")
    # Those of unittest and doctest stand for what is no class: a function, an import that failed.
    known = kind.__module__.partition(".")[0] in ("__main__", "unittest", "doctest")
    if known or getattr(main, kind.__name__, None) is kind:
        return True
    where = getattr(module, "__file__", None)
    return where is None or Path(where).resolve() == Path(file).resolve()
