"""What a look at a hang decides: which processes, how each is asked, what is told when."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runci.core.result import FileResult, Outcome
from runci.run.dumps import due
from runci.run.events import current_test
from runci.run.hang import Target, Way, look, members, remedy, runs_python, to_continue, way
from runci.run.model import FileReport, RunFile, Selection
from runci.run.processes import ASK, MARKER
from runci.run.progress import Ended, GitHub, Plain, State
from runci.run.summary import Finished, Summary, step_summary

from runci import register_cpu_ci  # isort: skip
from runci.core.registration import Backend  # isort: skip

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"
PARENTS = {1: 0, 10: 1, 20: 10, 21: 20, 22: 21, 30: 10, 31: 30, 40: 1, 41: 40}


@pytest.mark.parametrize(
    ("marked", "keeper", "found"),
    [
        ([], 20, [21, 22]),
        ([], 30, [31]),
        ([40], 20, [21, 22, 40, 41]),  # another parent adopted it
        ([22], 20, [21, 22]),
        ([21], 99, [21, 22]),  # the keeper is gone
        ([], 22, []),
    ],
)
def test_the_processes_of_a_job(marked: list[int], keeper: int, found: list[int]) -> None:
    assert members(PARENTS, marked, keeper) == found


HANG = """
import time
def hang_elsewhere():
    print(flush=True)
    time.sleep(60)
hang_elsewhere()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_descends_from_nobody_is_found_by_its_marker() -> None:
    """As one is that a server had started before, when it was asked to."""
    with (
        subprocess.Popen(
            [sys.executable, "-c", HANG],
            env={**os.environ, MARKER: "4711-0"},
            stdout=subprocess.PIPE,
        ) as process,
        Path(os.devnull).open("rb") as answers,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        nobody = (1 << 31) - 1
        lines, _ = look(Target(nobody, "4711-0", answers.fileno(), "/"), "why", 8.0)
        others, _ = look(Target(nobody, "4711-1", answers.fileno(), "/"), "why", 8.0)
        process.kill()
    assert lines[0] == "why"
    assert any(line.startswith(f"pid {process.pid} ") for line in lines), lines
    assert any(line.startswith("    hang_elsewhere  ") for line in lines), lines
    assert not [line for line in others if line.startswith("pid ")]


BIT = 1 << (ASK - 1)
ASLEEP, READ = Way(True, True, True), Way(False, True, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("S", True, BIT, 0, True, True), ASLEEP),
        (("R", True, BIT | 1, 1, True, True), ASLEEP),
        (("S", True, BIT, 0, True, False), Way(signal=True)),  # no py-spy
        (("S", True, 0, 0, True, True), Way(False, True, True)),  # another program was started
        (("S", True, BIT >> 1 | BIT << 1, 0, True, True), Way(False, True, True)),
        (("S", True, BIT, 0, False, True), Way(False, True, True)),  # a handler of somebody else
        (("S", True, BIT, BIT, True, True), Way(False, True, True)),  # it would answer later
        (("T", True, BIT, 0, True, True), READ),
        (("t", True, BIT, 0, True, True), READ),
        (("D", True, BIT, 0, True, True), READ),
        (("", True, BIT, 0, True, True), READ),  # gone meanwhile
        (("S", False, BIT, 0, False, True), Way()),  # a program in Go handles this signal
    ],
)
def test_how_a_process_is_asked(
    given: tuple[str, bool, int, int, bool, bool], expected: Way
) -> None:
    assert way(*given) == expected


def test_the_signal_ends_and_stops_nobody_who_does_not_handle_it() -> None:
    assert ASK in (signal.SIGURG, signal.SIGCHLD, signal.SIGWINCH)


@pytest.mark.parametrize(
    ("program", "maps", "python"),
    [
        ("/usr/bin/python3.11", b"", True),
        ("/venv/bin/python", b"", True),
        ("/opt/bin/python3.13t", b"", True),
        ("/usr/bin/python3.12 (deleted)", b"", True),
        ("python3", b"", True),
        ("/usr/sbin/uwsgi", b"7f00-7f01 r-xp 0 0 1 /usr/lib/libpython3.11.so.1.0\n", True),
        ("/usr/bin/python-config", b"", False),
        ("/usr/bin/pythonista", b"", False),
        ("/usr/bin/sleep", b"7f00-7f01 r-xp 0 0 1 /usr/lib/libc.so.6\n", False),
        ("/python3/bin/sh", b"", False),
        ("", b"", False),
    ],
)
def test_what_runs_python(program: str, maps: bytes, python: bool) -> None:
    assert runs_python(program, maps) is python


@pytest.mark.parametrize(
    ("before", "now", "continued"),
    [
        ({1: "S", 2: "R", 3: "T", 4: "t"}, {1: "T", 2: "S", 3: "T", 4: "T"}, [1]),
        ({1: "S"}, {1: "t"}, []),  # a debugger holds it
        ({1: "S"}, {1: ""}, []),
    ],
)
def test_who_is_continued(
    before: Mapping[int, str], now: Mapping[int, str], continued: list[int]
) -> None:
    assert to_continue(before, now) == continued


DENIED = (
    "Permission Denied: Try running again with elevated permissions by going "
    "'sudo env \"PATH=$PATH\" !!'\n"
)
NO_PYTHON = "Error: Failed to find python version from target process\n"
GONE = (
    "Error: Failed to get process executable name.\n    0: No such file or directory (os error 2)"
)


@pytest.mark.parametrize(
    ("said", "scope", "spy", "lacking", "words"),
    [
        ([], "", False, True, ["pip install py-spy"]),
        ([], "1\n", False, False, []),
        ([], "1\n", True, True, []),
        ([NO_PYTHON, GONE], "1\n", True, True, []),
        ([NO_PYTHON, DENIED], "1\n", True, True, ["ptrace_scope is 1", "sysctl", "SYS_PTRACE"]),
        (
            ["EPERM: Operation not permitted (os error 1)"],
            "2\n",
            True,
            False,
            ["ptrace_scope is 2"],
        ),
        ([DENIED], "0\n", True, True, ["SYS_PTRACE"]),
        ([DENIED], "", True, True, ["SYS_PTRACE"]),
    ],
)
def test_the_remedy(
    said: list[str], scope: str, spy: bool, lacking: bool, words: list[str]
) -> None:
    found = remedy(said, scope, spy, lacking)
    assert [word for word in words if word not in found] == []
    assert bool(found) == bool(words)
    assert ("sysctl" in found) == (scope in ("1\n", "2\n") and bool(words))


@pytest.mark.parametrize(
    ("soft", "took", "looked", "now"),
    [(None, 9, False, False), (5, 4.9, False, False), (5, 5, False, True), (5, 9, True, False)],
)
def test_when_a_soft_limit_is_over(soft: float, took: float, looked: bool, now: bool) -> None:
    assert due(soft, took, looked) is now


def said(*pairs: str) -> list[dict[str, str]]:
    return [dict(zip(("event", "test"), pair.split(), strict=True)) for pair in pairs]


@pytest.mark.parametrize(
    ("events", "test"),
    [
        (said(), None),
        (said("start a"), "a"),
        (said("start a", "test a"), None),
        (said("start a", "end a", "start b"), "b"),
        (said("start a", "test a(1)"), "a"),  # a subtest
        (said("start a", "test a", "deselected b", "error c"), None),
        ([*said("start a"), {"event": "done", "code": "1"}], "a"),
    ],
)
def test_the_test_that_runs(events: list[dict[str, str]], test: str | None) -> None:
    assert current_test(events) == test


def state(elapsed: float, *running: str) -> State:
    return State(3, 10, running, elapsed, 60.0)


def test_a_log_says_each_minute_what_runs() -> None:
    stream = io.StringIO()
    display = Plain(stream, color=False, width=80, guard=True)
    beats = []
    for quarters in range(4 * 200):
        before = len(stream.getvalue())
        display.tick(state(quarters / 4, "1:00  ::t/test_x.py::test_a, since 11:05:00"))
        beats += [quarters / 4] if len(stream.getvalue()) > before else []
    assert beats == [60.0, 120.0, 180.0]
    lines = stream.getvalue().splitlines()
    assert "3 of 10" in lines[0]
    assert "test_a, since 11:05:00" in lines[1]


STACKS = ["where it is:", "pid 1: sleeping", "    f  t/x.py:1", "##[error]no", "::error::%0Ano"]


def result(outcome: Outcome = Outcome.TIMEOUT) -> FileResult:
    return FileResult("s", "cpu", "s-1", PATH, outcome, 1, 1, (), 1.0, 0.0)


@pytest.mark.parametrize("display", [Plain, GitHub])
def test_stacks_are_shown_and_give_no_command(display: type[Plain]) -> None:
    stream = io.StringIO()
    display(stream, False, 80, guard=True).stacks([*STACKS, "::error::one"], Path("logs/x"))
    lines = stream.getvalue().splitlines()
    assert any("f  t/x.py:1" in line for line in lines)
    commands = [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    assert [line for line in commands if not line.startswith(("::group::", "::endgroup::"))] == []


def test_a_log_shows_the_first_stacks_and_names_the_file() -> None:
    stream = io.StringIO()
    Plain(stream, False, 80).stacks([f"line {n}" for n in range(500)], Path("logs/x.stacks.log"))
    lines = stream.getvalue().splitlines()
    assert len(lines) < 100
    assert "logs/x.stacks.log" in lines[-1]


def test_an_annotation_has_the_first_stacks_escaped() -> None:
    stream = io.StringIO()
    ended = Ended(result(), FileReport(PATH), b"", True, "runci run", stacks=(*STACKS,) * 9)
    GitHub(stream, False, 80).ended(ended)
    (line,) = [one for one in stream.getvalue().splitlines() if one.startswith("::error ")]
    assert "%0Apid 1: sleeping%0A" in line
    assert "%250Ano" in line
    assert "##[" not in line
    assert line.count("pid 1: sleeping") < 4


def test_the_page_of_the_job_has_the_first_stacks() -> None:
    finished = Finished(result(), FileReport(PATH), 1.0, ("```", "<b>", *STACKS, *["x"] * 99))
    selection = Selection(Backend.CPU, "s", "s-1", (RunFile(PATH, 1.0),))
    page = step_summary(Summary(selection, (finished,), 1.0))
    assert "````\n```\n<b>\nwhere it is:\n" in page
    assert page.count("\nx") < 60
    assert "<details>" not in step_summary(
        Summary(selection, (Finished(result(), FileReport(PATH), 1.0),), 1.0)
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
