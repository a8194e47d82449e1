"""A repository with a small benchmark, for tests of `runci perf measure`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from perf_records import git

from runci.cli import main
from runci.nightly.record import Record, decode

# Prints what its package says, in the documented form. EXTRA may change it; `number` counts the
# processes of a night from 1.
BENCH = """\
import glob, json, os, sys
import level
a = {"metric": "a", "unit": "us", "direction": "lower", "values": [level.VALUE, level.VALUE + 0.25]}
b = {**a, "metric": "b", "values": [8.0]}
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
data = {"schema": 1, "samples": [{**a, "reference": "b"}, b], "checks": []}
data["versions"] = {"file": level.__file__, "gpu": gpu}
number = len(glob.glob(os.environ["TMPDIR"] + "/*/*.err"))
print("measuring", file=sys.stderr)
exec(os.environ.get("EXTRA", ""))
text = json.dumps(data)
open(sys.argv[1], "w").write(text) if sys.argv[1:] else print(text)
"""


class Repository:
    """Two commits of a package whose figure differs; the first is the baseline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder.parent / "record.json"
        (folder / "packages" / "level").mkdir(parents=True)
        (folder / "test").mkdir()
        git(folder, "init", "-q", "-b", "main")
        git(folder, "config", "user.email", "ada@example.org")
        git(folder, "config", "user.name", "Ada")
        (folder / ".git" / "info" / "exclude").write_text("test/perf.yml\n")
        (folder / "bench.py").write_text(BENCH)
        self.baseline = self.commit(4.0)
        self.head = self.commit(6.0)
        self.configure(f"baseline: {self.baseline}")

    def commit(self, level: float) -> str:
        module = self.folder / "packages" / "level" / "__init__.py"
        module.write_text(f"VALUE = {level}\n")
        # Python knows bytecode by its second and size, which may be those of the commit before.
        shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", f"level {level}")
        return git(self.folder, "rev-parse", "HEAD")

    def configure(self, *lines: str, command: str = "python, bench.py, '{output}'") -> None:
        known = ['version: "1"', f"command: [{command}]", *lines]
        text = "version: 1\nfirst_night: 2026-01-01\nbenchmarks:\n  gemm:\n"
        (self.folder / "test" / "perf.yml").write_text(text + "".join(f"    {k}\n" for k in known))

    def measure(self, *arguments: str) -> int:
        where = ("--root", str(self.folder), "--output", str(self.output))
        return main(["perf", "measure", "gemm", *where, *arguments])

    def record(self) -> Record:
        return decode(self.output.read_bytes(), Record, "record.json")

    def log(self) -> str:
        return self.output.with_suffix(".log").read_text()

    def is_clean(self) -> bool:
        """No worktree, and no temporary folder, is left."""
        listed = git(self.folder, "worktree", "list", "--porcelain").count("worktree ")
        return listed == 1 and not list(self.folder.parent.joinpath("tmp").iterdir())


def made_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Its package is on the search path as an environment would put it there."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("RUNCI_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "work" / "packages"))
    monkeypatch.delenv("GITHUB_RUN_ID", raising=False)
    made = Repository(tmp_path / "work")
    yield made
    assert made.is_clean()


def stubborn(folder: Path) -> str:
    """Python whose child writes its number to `pid`, and which only SIGKILL ends."""
    child = (
        f"signal.signal(15, signal.SIG_IGN), open('{folder}/pid', 'w').write(f'{{os.getpid()}}.')"
    )
    return f"import os, signal, time; os.fork() or ({child}); time.sleep(60)"


def gone(pid: int) -> bool:
    """Whether a process ended, within a few seconds."""
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False
