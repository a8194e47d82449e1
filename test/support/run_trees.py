"""Small repositories whose tests misbehave, and `runci run` as a real process over them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runci.core.result import FileResult, from_json
from runci.core.unfit import Unfit
from runci.results.read import read_results

SUITE = "base-a-test-cpu"
FOLDER = "test/registered/unit"
TAXONOMY = """\
version: 1
roots: [test/registered]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
suites:
  cpu:
    - {stage: base-a, runner_configs: [cpu], kind: per-commit, timeout_minutes: 15}
    - {stage: base-b, runner_configs: [cpu], kind: per-commit, timeout_minutes: 15}
taxonomy:
  - {folder: "test/registered/**", allow: {cpu: ["*"]}, because: all may}
skips:
  - {test: "test/registered/**::*may_skip*", runners: [cpu], reason: needs a second GPU}
"""
HEAD = """\
import ctypes, os, signal, socket, sys, time, unittest
import pytest
from runci import register_cpu_ci
register_cpu_ci(est_time={seconds}, stage="base-a", runner_config="cpu"{more})
"""
MAIN = """
if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
"""
UNITTEST = """
if __name__ == "__main__":
    unittest.main()
"""
PASS = "def test_passes(): pass\n"


def registered(body: str, *, seconds: float = 5, more: str = "", main: str = MAIN) -> str:
    """A registered test file around a body."""
    return HEAD.format(seconds=seconds, more=more) + textwrap.dedent(body) + main


def make(root: Path, files: Mapping[str, str]) -> Path:
    """Write a repository; names without a folder stand in the folder of unit tests."""
    (root / "test").mkdir(parents=True, exist_ok=True)
    (root / "test" / "suites.yml").write_text(TAXONOMY, encoding="utf-8")
    for name, text in files.items():
        path = root / (name if "/" in name else f"{FOLDER}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@dataclass(frozen=True)
class Ran:
    """A run that ended."""

    status: int
    output: str
    error: str
    root: Path

    @property
    def last(self) -> str:
        return self.output.rstrip("\n").rpartition("\n")[2]

    def results(self, folder: str = ".runci/results") -> dict[str, list[FileResult]]:
        """Results by file name, each by attempt."""
        found: dict[str, list[FileResult]] = {}
        for path in (self.root / folder).glob("*.json"):
            if not path.name.startswith("machine."):
                result = from_json(path.read_bytes(), str(path))
                found.setdefault(result.path.rpartition("/")[2], []).append(result)
        return {name: sorted(some, key=lambda r: r.attempt) for name, some in found.items()}

    def unfit(self, folder: str = ".runci/results") -> tuple[Unfit, ...]:
        """What the results say of the machine."""
        return read_results([str(self.root / folder)]).unfit

    def result(self, name: str) -> FileResult:
        return self.results()[name][-1]


def environment(root: Path, **more: str) -> dict[str, str]:
    """Variables without those of a CI job or of a hook around this test."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT", "RUNCI", "PYTEST"))}
    own = {
        "XDG_CACHE_HOME": str(root / ".cache"),
        "COLUMNS": "80",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take a second to import, each time
    }
    return {**kept, **own, **more}


def start(
    root: Path, *arguments: str, limits: Callable[[], None] | None = None, **more: str
) -> subprocess.Popen[str]:
    """Start `runci run` in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "runci", "run", *arguments],
        cwd=root,
        env=environment(root, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        preexec_fn=limits,  # noqa: PLW1509  no threads here
        start_new_session=True,
    )


def run(root: Path, *arguments: str, limits: Callable[[], None] | None = None, **more: str) -> Ran:
    """Run it to its end."""
    with start(root, *arguments, limits=limits, **more) as process:
        return ended(process, root)


def runci(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command in such a tree, as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "runci", *arguments],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        check=False,
    )


def ended(process: subprocess.Popen[str], root: Path) -> Ran:
    """Wait for the end of a run that was started in `root`."""
    try:
        output, error = process.communicate(timeout=180)
    except BaseException:
        process.kill()
        raise
    return Ran(process.returncode, output, error, root)


def alive(pid: int) -> bool:
    """Whether a process runs; one that was only not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pids(folder: Path) -> Iterator[int]:
    """Processes that tests noted as files `NAME.pid`."""
    for path in folder.glob("*.pid"):
        yield int(path.read_text(encoding="utf-8"))
