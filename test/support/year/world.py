"""The simulated year's repository, machine and GitHub: real git, real processes, a local server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .nights import FIRST, METRICS, Night

HERE = Path(__file__).parent
PERF = f"""\
version: 1
first_night: {FIRST.isoformat()}
benchmarks:
  kernels:
    version: "1"
    command: [awk, -f, bench.awk, levels]
    baseline: BASELINE
"""


# Packs here go from one folder to the next: what makes them small would take most of git's time.
GIT = """\
[pack]
    window = 0
    compression = 0
[core]
    fsync = none
"""


class Repository:
    """A clone with a bare remote beside it; `levels` says how fast each commit is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.machine = folder / "machine"
        self.levels = {name: metric[2] for name, metric in METRICS.items()}
        self.commits: dict[int, str] = {}  # that a night measures, of those that changed something
        self.culprits: dict[int, str] = {}
        self.settings = folder / "gitconfig"
        self.settings.write_text(GIT)
        self.machine.mkdir()
        (self.machine / "count").write_text("0")
        self._git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
        self._git(folder / "remote.git", "config", "receive.autogc", "false")
        self._git(folder, "clone", "-q", "remote.git", "work")
        self._git(self.folder, "checkout", "-q", "-B", "main")
        shutil.copy(HERE / "bench.awk", self.folder)
        self._write(True, "baseline")
        self.baseline = self._commit("Add the kernels")
        (self.folder / "test").mkdir()
        (self.folder / "test/perf.yml").write_text(PERF.replace("BASELINE", self.baseline))
        self._write(True, "candidate")
        self._commit("Measure every night")

    def prepare(self, night: Night) -> None:
        """Commit what the day brought, and set the machine up."""
        (self.machine / "host").write_text(str(night.host))
        (self.machine / "spike").write_text(night.spike)
        if night.commit:
            self._notes(night.earlier)
            for name, factor in night.factors.items():
                self.levels[name] *= factor
            self._write(night.bits, "candidate")
            self.culprits[night.number] = self._commit(night.commit)
            last = self._notes(night.later)
            self.commits[night.number] = last or self.culprits[night.number]

    def _notes(self, messages: Iterable[str]) -> str:
        """Commits that change nothing that is measured; gives the last one."""
        commit = ""
        for message in messages:
            (self.folder / "note").write_text(f"{message}\n")
            commit = self._commit(message)
        return commit

    def _write(self, bits: bool, role: str) -> None:
        lines = [f"role|{role}", f"exact|bits|{'true' if bits else 'false'}"]
        for name, (unit, direction, _, noise, mode) in METRICS.items():
            lines.append(f"{name}|{unit}|{direction}|{self.levels[name]:.9f}|{noise}|{mode}")
        (self.folder / "levels").write_text("\n".join(lines) + "\n")

    def _commit(self, message: str) -> str:
        self._git(self.folder, "add", "-A")
        self._git(self.folder, "commit", "-q", "-m", message)
        self._git(self.folder, "push", "-q", "origin", "main")
        return self._git(self.folder, "rev-parse", "HEAD")

    @staticmethod
    def _git(folder: Path, *arguments: str) -> str:
        who = ["-c", "user.name=Mona", "-c", "user.email=mona@example.invalid"]
        command = ["git", *who, *arguments]
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()


def with_driver(record: Path, night: Night) -> None:
    """Pretend that this machine has the night's driver, or that the night went wrong."""
    given: dict[str, Any] = json.loads(record.read_text())
    given["machine"] |= {"driver": night.driver}
    if night.unusable:
        given["unusable"] = [*given.get("unusable", []), night.unusable]
    record.write_text(json.dumps(given))


def environment(repository: Repository, api: str) -> Mapping[str, str]:
    """What GitHub Actions would set."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return {
        **kept,
        "CI": "true",
        "GIT_CONFIG_GLOBAL": str(repository.settings),
        "YEAR_WORLD": str(repository.machine),
        "GITHUB_API_URL": api,
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "octo/kernels",
        "GITHUB_TOKEN": "of-the-nightly",
    }
