"""Ends of `runci run` itself, and limits: whatever happens, no process of a test survives."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, PASS, SUITE, Ran, alive, ended, make, registered, run, start

from runci import register_cpu_ci
from runci.core.result import Outcome

register_cpu_ci(est_time=27, stage="base-a", runner_config="cpu")

# Ignores what can be ignored, and so does its double-forked child.
STUBBORN = """
    def note(name):
        with open(name + ".part", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename(name + ".part", name + ".pid")

    def test_stubborn():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note("daemon")
                while True: time.sleep(60)
            os._exit(0)
        print("loading weights", flush=True)
        note("test")
        while True: time.sleep(60)
"""
NOTES = ("daemon.pid", "test.pid")
FILES = {"test_a.py": registered(PASS), "test_stubborn.py": registered(STUBBORN)}


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path, FILES)


def noted(root: Path) -> list[int]:
    return [int((root / name).read_text(encoding="utf-8")) for name in NOTES]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_children_and_keeps_results(
    root: Path, number: signal.Signals, status: int
) -> None:
    with start(root, "--suite", SUITE, "--grace", "0.3") as process:
        until(lambda: all((root / name).exists() for name in NOTES))
        until(lambda: bool(list((root / ".runci/results").glob("test_a.*.json"))))
        process.send_signal(number)
        output, error = process.communicate(timeout=60)
    assert process.returncode == status, error
    assert not [pid for pid in noted(root) if alive(pid)]
    assert not list((root / ".runci/results").glob("test_stubborn.*.json"))
    # What it had printed is shown, with the test that it was in, and kept.
    assert re.search(r"^INTERRUPTED .*, in \S+::test_stubborn$", output, re.MULTILINE), output
    assert "loading weights" in output
    (log,) = (root / ".runci/results/logs").glob("test_stubborn.*.log")
    assert b"loading weights" in log.read_bytes()
    assert "1 file not run (interrupted)" in output
    assert output.endswith("1 passed, 0 failed, 0 skipped\n")
    assert not error


def test_a_runner_that_is_killed_leaves_nothing(root: Path) -> None:
    with start(root, "--suite", SUITE) as process:
        until(lambda: all((root / name).exists() for name in NOTES))
        process.kill()
        process.wait(60)
        until(lambda: not any(alive(pid) for pid in noted(root)))


SLEEPS = registered("def test_sleeps():\n    time.sleep(600)\n")
KILLED = ("--timeout-per-file", "15", "--grace", "0.3", "--isolate")
LIMITED: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "fork": (FILES, (*KILLED, "fork")),
    "spawn": (FILES, (*KILLED, "spawn")),
    "polite": ({**FILES, "test_stubborn.py": SLEEPS}, ("--timeout-per-file", "8")),
    "suite": (
        {**FILES, "test_z.py": registered(PASS)},
        ("--suite-timeout", "15", "--grace", "0.3", "--jobs", "1", "--order", "path"),
    ),
}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Runs that wait for their limits, all at once."""
    roots = {name: make(tmp_path_factory.mktemp(name), LIMITED[name][0]) for name in LIMITED}
    with contextlib.ExitStack() as stack:
        started = {
            name: stack.enter_context(start(root, "--suite", SUITE, *LIMITED[name][1]))
            for name, root in roots.items()
        }
        return {name: ended(started[name], root) for name, root in roots.items()}


@pytest.mark.parametrize("isolate", ["fork", "spawn"])
def test_a_timeout_ends_everything_that_the_file_started(
    limited: dict[str, Ran], isolate: str
) -> None:
    # sglang#21180
    ran = limited[isolate]
    assert ran.status == 1
    assert ran.result("test_stubborn.py").outcome is Outcome.TIMEOUT
    assert ran.result("test_a.py").outcome is Outcome.PASSED
    assert not [pid for pid in noted(ran.root) if alive(pid)]


def test_a_polite_child_shows_where_it_was_at_the_timeout(limited: dict[str, Ran]) -> None:
    ran = limited["polite"]
    assert re.search(r"^ +test_sleeps  \S+:\d+$", ran.output, re.MULTILINE)
    command = f"runci run --suite {SUITE} --timeout-per-file 8 {FOLDER}/test_stubborn.py\n"
    assert f"repeat: {command}" in ran.output
    assert ran.result("test_stubborn.py").signal == "SIGTERM"


def test_the_time_of_the_suite_ends_it_and_names_what_did_not_run(
    limited: dict[str, Ran],
) -> None:
    ran = limited["suite"]
    assert ran.status == 1
    stubborn, never = ran.result("test_stubborn.py"), ran.result("test_z.py")
    assert (stubborn.outcome, never.outcome) == (Outcome.TIMEOUT, Outcome.TIMEOUT)
    assert re.match(r"not started: .*\b15 s\b", never.message)
    assert not [pid for pid in noted(ran.root) if alive(pid)]


def test_children_do_not_share_what_a_fork_shares(root: Path) -> None:
    """Random numbers differ, the environment and sys.modules of one do not reach the next."""
    body = """
    def test_state():
        import json, random
        import numpy
        assert "LEFT" not in os.environ
        os.environ["LEFT"] = "1"
        numbers = [random.random(), float(numpy.random.rand())]
        with open(os.path.basename(__file__) + ".json", "w") as stream:
            json.dump(numbers, stream)
        import torch
        assert not torch.cuda.is_initialized()
    """
    make(root, {name: registered(body) for name in ("test_a.py", "test_stubborn.py")})
    ran = run(root, "--suite", SUITE, "--jobs", "1")
    assert ran.status == 0, ran.output
    one, two = (
        json.loads((root / f"{name}.py.json").read_text(encoding="utf-8"))
        for name in ("test_a", "test_stubborn")
    )
    assert one[0] != two[0]
    assert one[1] != two[1]


def test_missing_libraries_are_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "hide").mkdir()
    hide = "import sys\nsys.modules['psutil'] = None\n"
    (tmp_path / "hide" / "sitecustomize.py").write_text(hide, encoding="utf-8")
    found = f"{tmp_path / 'hide'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ran = run(root, "--suite", SUITE, PYTHONPATH=found)
    assert ran.status == 2
    assert 'needs psutil: pip install ".[run]"' in ran.error


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
