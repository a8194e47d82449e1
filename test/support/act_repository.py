"""The scratch repository in which this repository's own workflow files run under act.

It gets the real `.github`, the real suites without their GPUs, and in each suite one small test.
Its default branch and a pull request's merge commit are real commits, so that what a job checks out
is what it runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fake_github import BASE, HEAD
from places import ROOT

EVENTS = ROOT / "test" / "fixtures" / "events"
MERGE = "f" * 40  # as saved events write it
BROKEN = "ACT_BROKEN"  # the stage whose tests fail
# What a GPU needs; without it a runner is a CPU machine, which every test here runs on.
_GPU_KEYS = re.compile(r"^ +(gpu|compute_capability|gpus|memory_gb):.*\n", re.MULTILINE)
# Of the tests that may be skipped none is there, which RT211 would find.
_SKIPS = re.compile(r"^skips:\n(?: +.*\n)+", re.MULTILINE)
FASTER = {"kernel/gemm.py": "FASTER = True\n"}
_SUITES = {
    "unit/test_cpu.py": (("base-a", "cpu"),),
    "unit/kernel/test_longer.py": (("base-b", "cpu"),),
    "gpu/test_gpu.py": (("base-b", "1-gpu-small"), ("extra-a", "1-gpu-small")),
    "kernel/gemm/test_sm120_ba_gemm.py": (  # what a saved dispatch asks for
        ("base-b-kernel-unit", "1-gpu-small"),
        ("base-b-kernel-unit", "1-gpu-large"),
        ("base-b-kernel-benchmark", "1-gpu-small"),
    ),
    "nightly/test_night.py": (("nightly-kernel-1-gpu-small", ""),),
}


_TEST = """\
import os
import sys

import pytest
from runci import register_cpu_ci, register_cuda_ci

{calls}

def test_it_runs() -> None:
    assert os.environ.get("{broken}") != "{stage}"


def test_it_runs_too() -> None:
    pass  # beside the other, so that one of them can be asked for


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
"""


def without_gpus(suites: str) -> str:
    """suites.yml without what only a machine with GPUs has, and without skips."""
    return _SKIPS.sub("", _GPU_KEYS.sub("", suites))


def _test(suites: tuple[tuple[str, str], ...]) -> str:
    """A test that is registered in these suites, each a stage and a runner config, or a name."""
    calls = [
        f"register_{'cpu' if runner == 'cpu' else 'cuda'}_ci(est_time=1, "
        + (
            f'stage="{stage}", runner_config="{runner}"'
            if runner
            else f'suite="{stage}", nightly=True'
        )
        + ")\n"
        for stage, runner in suites
    ]
    return _TEST.format(calls="".join(calls), broken=BROKEN, stage=suites[0][0])


class Repository:
    """The scratch repository, at `folder`/repository, and what its pull request changes."""

    def __init__(self, folder: Path, changes: Mapping[str, str] = MappingProxyType(FASTER)) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.bin = folder / "bin"
        self._programs()
        self._files()
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", "https://github.com/octo/kernels")
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.base = self._commit("main")
        self.git("checkout", "-q", "-b", "faster-gemm")
        self._write(changes)
        self.head = self._commit("faster")
        self.git("checkout", "-q", "--detach", "main")
        self.git("merge", "-q", "--no-ff", "-m", "merge", "faster-gemm")
        self.merge = self.git("rev-parse", "HEAD")

    def _programs(self) -> None:
        """runci as it is here; the installers that the workflows call do nothing."""
        self.bin.mkdir(parents=True)
        (self.bin / "runci").write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m runci "$@"\n', encoding="utf-8"
        )
        # Otava pins numpy, so that the extra `perf` is an environment of its own.
        perf = self.folder / "bin-perf"
        perf.mkdir()
        (perf / "runci").write_text(
            f'#!/bin/sh\nexec "{ROOT}/.venv-perf/bin/python" -m runci "$@"\n', encoding="utf-8"
        )
        asked = f'case "$*" in *.?perf?) echo "{perf}" >> "$GITHUB_PATH" ;; esac\n'
        (self.bin / "pip").write_text(f"#!/bin/sh\n{asked}", encoding="utf-8")
        (self.bin / "npm").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        for program in (*self.bin.iterdir(), *perf.iterdir()):
            program.chmod(0o755)

    def _files(self) -> None:
        shutil.copytree(ROOT / ".github", self.root / ".github")
        suites = (ROOT / "test" / "suites.yml").read_text(encoding="utf-8")
        files = {f"test/registered/{path}": _test(suites) for path, suites in _SUITES.items()}
        files |= {
            "test/suites.yml": without_gpus(suites),
            "kernel/gemm.py": "FASTER = False\n",
            ".gitignore": (ROOT / ".gitignore").read_text(encoding="utf-8"),
            # What `make lint` checks is not what these tests are about.
            "Makefile": "lint:\n\trunci lint\n.venv-perf/stamp:\n",
        }
        self._write(files)

    def _write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            env=plain_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def _commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def saved(self, name: str) -> dict[str, Any]:
        """A saved event, about the commits of this repository."""
        text = (EVENTS / f"{name}.json").read_text(encoding="utf-8")
        for saved, here in ((HEAD, self.head), (MERGE, self.merge), (BASE, self.base)):
            text = text.replace(saved, here)
        found: dict[str, Any] = json.loads(text)
        found["world"].setdefault("pull", {}).setdefault("head", self.head)
        return found


def plain_environment() -> dict[str, str]:
    """The environment without what a job of GitHub's, or a git hook, would have set."""
    return {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("ACTIONS_", "GITHUB_", "GIT_", "RUNNER_"))
    }
