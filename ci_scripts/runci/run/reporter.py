"""Counts tests where they run, and runs only those asked for: plugins of pytest."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runci.core.marks import mark_text
from runci.core.targets import selects, unmatched
from runci.run.events import Sink, short
from runci.run.narrow import NOT_ASKED
from runci.run.raised import chain
from runci.text.wording import nearest, some

NO_SKIP: Mapping[str, Any] = {}


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
        there: dict[str, dict[str, list[str]]] = {path: {} for path in self._only}
        for item in items:
            path, test = self._split(item.nodeid)
            marks = [mark_text(m.name, m.args, m.kwargs) for m in item.iter_markers()]
            if path in there:
                there[path][test] = marks
            wanted = self._only.get(path)
            hit = wanted is None or any(selects(one, test, marks) for one in wanted)
            (kept if hit else dropped).append(item)
        items[:] = kept
        for item in dropped:
            item.stash[NOT_ASKED] = True
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        for path, tests in there.items():
            tell_absent(self._sink, path, self._absent(path, tests), [*tests])

    def _absent(self, path: str, tests: Mapping[str, Sequence[str]]) -> list[str]:
        skipped = [test for of, test in self._skipped if of == path]
        return [
            one
            for one in unmatched(self._only[path], tests)
            if not any(not whole or selects(whole, one) for whole in skipped)
        ]

    def _split(self, nodeid: str) -> tuple[str, str]:
        path, _, test = nodeid.partition("::")
        return self._file or path, test


def tell_absent(sink: Sink, path: str, absent: Sequence[str], there: Sequence[str]) -> None:
    """Say that tests that were asked for are none of a file's, and which those are."""
    if not absent:
        return
    names = list(dict.fromkeys(test.partition("[")[0] for test in there))
    hint = nearest(absent[0], there) or nearest(absent[0], names)
    said = f"{path} has no test {', '.join(absent)}{hint} (it has {some(names) or 'none'})"
    sink.send({"event": "absent", "test": path, "message": short(said)})


class PytestReporter:
    """A pytest plugin that tells the parent of each test as it starts and ends.

    `file` replaces the path in the ids of tests, for scripts that call pytest on themselves. Tests
    of other files are then none of the script's.
    """

    def __init__(self, sink: Sink, file: str | None = None) -> None:
        self._sink, self._file = sink, file
        self._script = Path(file).resolve() if file is not None else None
        self._root = self._top = Path.cwd()
        self._paths: dict[str, Path] = {}
        self._stdout = sys.stdout
        self._phases: dict[str, list[Any]] = {}
        self._finished: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self) -> None:
        """Give pytest's own report, made while it configures, a stream that no test can close."""
        with contextlib.suppress(OSError, AttributeError):
            # Unbuffered, so that its lines and those of the tests keep their order.
            raw = os.fdopen(os.dup(1), "wb", buffering=0)
            sys.stdout = io.TextIOWrapper(
                raw, sys.stdout.encoding, errors="backslashreplace", write_through=True
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: Any) -> None:
        """Tests get the plain one."""
        sys.stdout = self._stdout
        self._root = session.config.rootpath

    def pytest_itemcollected(self, item: Any) -> None:
        """Note where tests stand: an id may be relative to any folder."""
        if self._script is not None:
            self._paths[item.nodeid.partition("::")[0]] = item.path

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        if self._is_own(nodeid):
            self._sink.send({"event": "start", "test": self._id(nodeid)})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A phase of a test, or one of its subtests, ended."""
        self._phases.setdefault(report.nodeid, []).append(report)

    def pytest_exception_interact(self, call: Any, report: Any) -> None:
        """A phase or a file failed: note the exception itself while it is there."""
        report.runci_raised = chain(call.excinfo.value)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """All phases of a test ended."""
        if _runs_again(self._phases.get(nodeid, [])):
            return
        phases = self._phases.pop(nodeid, [])
        self._finished.add(nodeid)
        name = self._id(nodeid)
        outcome, message, line = verdict([p for p in phases if not _skipped_subtest(p)])
        raised = [getattr(phase, "runci_raised", []) for phase in phases if phase.failed]
        if not self._is_own(nodeid):
            tell_foreign(self._sink, nodeid, outcome, message)
            return
        seconds = sum(float(getattr(p, "duration", 0.0)) for p in phases)
        skip = _skip([p for p in phases if not _skipped_subtest(p)], outcome, self._top)
        tell_end(self._sink, name, outcome, seconds, message, line, raised=raised, skip=skip)
        for part in filter(_skipped_subtest, phases):
            part_name = f"{name} ({_subtest(part)})"
            skip = _skip([part], "skipped", self._top)
            tell_end(self._sink, part_name, "skipped", 0.0, _reason(part), part_of=name, skip=skip)

    def pytest_sessionfinish(self, session: Any) -> None:
        """Tell of the files whose tests were not all run: `pytest.exit` gives any status."""
        if session.config.option.collectonly:
            return
        left: dict[str, list[str]] = {}
        for item in getattr(session, "items", ()):
            file = item.nodeid.partition("::")[0]
            if item.nodeid not in self._finished and self._is_own(file):
                left.setdefault(file, []).append(self._id(item.nodeid))
        for tests in left.values():
            self._sink.send({"event": "left", "test": tests[0], "count": len(tests)})

    def pytest_deselected(self, items: Sequence[Any]) -> None:
        """Tests that a conftest, a plugin or an option left out; not those nobody asked for."""
        left_out = [i.nodeid for i in items if NOT_ASKED not in i.stash and self._is_own(i.nodeid)]
        counts = Counter(self._id(nodeid.partition("::")[0]) for nodeid in left_out)
        for path, count in counts.items():
            self._sink.send({"event": "deselected", "test": path, "count": count})

    def pytest_collectreport(self, report: Any) -> None:
        """A file or class could not be collected, or was skipped whole."""
        name = self._id(report.nodeid)
        if not self._is_own(report.nodeid):
            if report.failed:
                tell_foreign(self._sink, report.nodeid, "failed", _crash(report)[0])
        elif report.failed:
            message, line = _crash(report)
            event = {"event": "error", "test": name, "message": short(message), "line": line}
            self._sink.send({**event, "raised": [getattr(report, "runci_raised", [])]})
        elif report.skipped:
            skip = _skip([report], "skipped", self._top)
            tell_end(self._sink, name, "skipped", 0.0, _reason(report), skip=skip)

    def _is_own(self, nodeid: str) -> bool:
        path = nodeid.partition("::")[0]
        if self._script is None or not path:
            return True
        where: Path = self._paths.get(path, self._root / path)
        return where.is_dir() or where.resolve() == self._script

    def _id(self, nodeid: str) -> str:
        if self._file is None:
            return nodeid
        _, mark, rest = nodeid.partition("::")
        return self._file + mark + rest


def tell_foreign(sink: Sink, test: str, outcome: str, message: str) -> None:
    """A script ran a test of another file: it says nothing of its own, but may not fail unseen."""
    sink.send({"event": "foreign", "test": test, "outcome": outcome, "message": short(message)})


def tell_end(
    sink: Sink,
    test: str,
    outcome: str,
    seconds: float,
    message: str,
    line: int | None = None,
    part_of: str = "",
    raised: Sequence[list[dict[str, Any]]] = (),
    skip: Mapping[str, Any] = NO_SKIP,
) -> None:
    """Say how a test ended, after `seconds`; `part_of` is the test that it is a subtest of, and
    `raised` what ended each phase of it that failed, `skip` more of one that was skipped."""
    event = {"event": "test", "test": test, "outcome": outcome, "seconds": seconds}
    more: dict[str, Any] = {"part_of": part_of, **skip} if part_of else {**skip}
    if raised:
        more["raised"] = raised
    sink.send({**event, "message": short(message), "line": line, **more})


def verdict(phases: Sequence[Any]) -> tuple[str, str, int | None]:
    """Outcome, message and line of a test from the reports of its phases.

    An expected failure was executed; one that pytest was told not to run was not, nor one whose
    set-up failed.
    """
    for phase in phases:
        if phase.failed:
            message, line = _crash(phase)
            where = "" if phase.when == "call" else f"in {phase.when}: "
            return "failed", where + message, line
    again = any(phase.outcome == "rerun" for phase in phases)  # as by pytest-rerunfailures
    if again and any(p.skipped and getattr(p, "wasxfail", None) is None for p in phases):
        return "failed", "failed, and was skipped when a pytest plugin ran it again", None
    for phase in phases:
        expected = getattr(phase, "wasxfail", None)
        if phase.skipped and expected is not None and phase.when == "setup":
            return "skipped", f"xfail in set-up: {expected}", None
        if phase.skipped and expected is None:
            return "skipped", _reason(phase), None
    if not any(phase.when == "call" for phase in phases):
        return "failed", "its setup ended and it was never called", None
    if again:
        return "flaky", "failed, and passed when a pytest plugin ran it again", None
    return "passed", "", None


def _runs_again(phases: Sequence[Any]) -> bool:
    """Whether the newest attempt at a test is one that a plugin follows up with another."""
    setups = [number for number, phase in enumerate(phases) if phase.when == "setup"]
    return any(phase.outcome == "rerun" for phase in phases[setups[-1] if setups else 0 :])


def _skipped_subtest(report: Any) -> bool:
    return getattr(report, "context", None) is not None and bool(report.skipped)


def _subtest(report: Any) -> str:
    context = report.context
    values = ", ".join(f"{k}={v}" for k, v in getattr(context, "kwargs", {}).items())
    return " ".join(filter(None, [getattr(context, "msg", None) or "", values])) or "subtest"


def _skip(phases: Sequence[Any], outcome: str, top: Path) -> Mapping[str, Any]:
    """Where a test was skipped, as pytest says it, below `top`; whether it was as `xfail`."""
    skipped = [phase for phase in phases if phase.skipped]
    if outcome != "skipped" or not skipped:
        return NO_SKIP
    if getattr(skipped[0], "wasxfail", None) is not None:
        return {"xfail": True}
    detail = skipped[0].longrepr
    return {"place": place(detail[0], detail[1], top)} if isinstance(detail, tuple) else NO_SKIP


def place(path: str, line: int, top: Path) -> str:
    """«PATH:LINE» below `top`; elsewhere, as in what is installed, it says nothing of the test."""
    where = Path(path)
    inside = where.is_relative_to(top)
    return f"{where.relative_to(top).as_posix()}:{line}" if inside else ""


def _reason(report: Any) -> str:
    detail = report.longrepr
    text = str(detail[2]) if isinstance(detail, tuple) else str(detail or "")
    return text.removeprefix("Skipped: ")


def _crash(report: Any) -> tuple[str, int | None]:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message), int(crash.lineno)
    lines = [line for line in str(report.longrepr or "").splitlines() if line.strip()]
    return (lines[-1].removeprefix("E").strip() if lines else "failed"), None
