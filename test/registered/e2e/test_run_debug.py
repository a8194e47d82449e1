"""`runci run --pdb` at a terminal, as a real process: what is typed reaches the test."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from played_nvml import CARD, OTHER, nvml
from run_trees import FOLDER, SUITE, environment, make, registered, run

from runci import register_cpu_ci

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

PATH = f"{FOLDER}/test_a.py"
BODY = """\
    def test_good(): print("good ran")
    def test_bad():
        secret = 6 * 7
        assert secret == 0
    def test_waits():
        print("waits now", flush=True)
        time.sleep(60)
"""
GPU_SUITES = """\
version: 1
roots: [test/t]
runners:
  gpu: {label: gpu-h100, gpu: H100, compute_capability: '9.0', gpus: 1, memory_gb: 80}
suites:
  cuda:
    - {stage: a, runner_configs: [gpu], kind: per-commit, timeout_minutes: 5}
"""
GPU_TEST = """\
import os
from runci import register_cuda_ci
register_cuda_ci(est_time=2, stage="a", runner_config="gpu")
def test_a(): breakpoint()
"""


class Terminal:
    """A pseudo terminal with `runci run` in its foreground."""

    def __init__(self, root: Path, *arguments: str, **more: str) -> None:
        self._ours, theirs = os.openpty()
        self.process = subprocess.Popen(
            [
                sys.executable, "-c",
                "import fcntl, os, sys, termios\n"
                "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
                "os.execv(sys.executable, [sys.executable, '-m', 'runci', 'run', *sys.argv[1:]])",
                *arguments,
            ],
            cwd=root,
            env=environment(root, TERM="dumb", **more),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read until a text was shown."""
        deadline = time.monotonic() + 60
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._ours], [], [], 1)[0]:
                self.shown += self._read()
        self.shown = self.shown.partition(text)[2]

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Read to the end; the exit status."""
        while data := self._read():
            self.shown += data
        os.close(self._ours)
        return self.process.wait(30)

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # nobody holds the other end any more
            return ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make(
        tmp_path,
        {
            "test_a.py": registered(BODY),
            "test_b.py": registered("def test_b(): pass\n"),
        },
    )
    (made / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--word', default='')\n"
    )
    return made


def test_a_failed_test_is_at_the_debugger_and_is_no_result(root: Path) -> None:
    terminal = Terminal(root, "--pdb", PATH, "-k", "not waits", "--", "--word=said")
    terminal.wait_for("good ran")
    terminal.wait_for("(Pdb) ")
    terminal.type("p 'secret', secret\n")
    terminal.wait_for("('secret', 42)")
    terminal.type("p request.config if 0 else __import__('sys').stdin.isatty()\n")
    terminal.wait_for("True")
    terminal.type("c\n")
    assert terminal.end() == 1, terminal.shown
    assert "1 failed, 1 passed, 1 deselected" in terminal.shown
    assert not (root / ".runci").exists()


@pytest.mark.parametrize(("test", "status"), [("test_good", 0), ("test_nope", 5)])
def test_the_status_of_the_tests_that_are_named_is_kept(root: Path, test: str, status: int) -> None:
    terminal = Terminal(root, "--pdb", f"{PATH}::{test}")
    assert terminal.end() == status, terminal.shown
    said = "has no test test_nope; did you mean" in terminal.shown
    assert (said, "good ran" in terminal.shown) == (status == 5, status == 0)


def test_an_interrupt_is_the_debuggers(root: Path) -> None:
    terminal = Terminal(root, "--pdb", f"{PATH}::test_waits")
    terminal.wait_for("waits now")
    terminal.type("\x03")
    terminal.wait_for("(Pdb) ")
    terminal.type("q\n")
    assert terminal.end() == 2, terminal.shown  # as pytest ends when it is interrupted


def test_what_failed_last_is_debugged(root: Path) -> None:
    assert run(root, PATH, "-k", "not waits").status == 1
    before = {path: path.read_bytes() for path in (root / ".runci").rglob("*.json")}
    terminal = Terminal(root, "--pdb", "--last-failed", PATH, "-k", "not waits")
    terminal.wait_for("(Pdb) ")
    terminal.type("c\n")
    assert terminal.end() == 1
    assert "1 failed, 2 deselected" in terminal.shown
    assert {path: path.read_bytes() for path in (root / ".runci").rglob("*.json")} == before


def test_a_gpu_is_leased_for_as_long_as_the_person_looks(tmp_path: Path) -> None:
    files = {
        "test/suites.yml": GPU_SUITES,
        "test/t/test_a.py": GPU_TEST,
        "fake/pynvml.py": nvml(OTHER, CARD),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    more = {"PYTHONPATH": "fake", "RUNCI_LOCKS": str(tmp_path / "locks")}
    first = Terminal(tmp_path, "--pdb", "test/t/test_a.py", "--", "--tb=short", **more)
    first.wait_for("runs as a script in a-test-gpu; here it is pytest's")
    first.wait_for("(Pdb) ")
    first.type("p 'it has', os.environ['CUDA_VISIBLE_DEVICES']\n")
    first.wait_for("('it has', 'GPU-1')")
    second = Terminal(tmp_path, "--pdb", "test/t/test_a.py", **more)
    second.wait_for("wait")
    second.type("\x03")
    assert second.end() == 130, second.shown
    assert "(Pdb)" not in second.shown
    first.type("c\n")
    assert first.end() == 0, first.shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((PATH,), "needs a terminal"),
        (("--suite", SUITE), "for one file, and here are 2"),
        ((PATH, "--as-script"), f"python -m pdb {PATH}"),
        ((PATH, "--repeat", "2"), "no results"),
        ((PATH, "--junit", "x.xml"), "no results"),
    ],
)
def test_what_has_no_debugger_is_refused(root: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = run(root, "--pdb", *arguments)
    assert (ran.status, ran.results()) == (2, {})
    assert said in ran.error


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
