"""Small plans, results and repositories for the tests of planning and verifying."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Taxonomy
from runci.core.machine import Gpu, Machine
from runci.core.registration import Backend, Registration
from runci.core.result import FileResult, Outcome
from runci.core.source import at
from runci.plan.build import Settings, make_plan
from runci.plan.model import Plan, PlannedSuite
from runci.plan.selection import Selection, select

SUITES = """\
version: 1
roots: [test/registered]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
  1-gpu-small: {label: 1-gpu-5090, gpu: RTX 5090, compute_capability: "12.0", gpus: 1}
suites:
  cpu:
    - {stage: base-a, runner_configs: [cpu], kind: per-commit, timeout_minutes: 10,
       default_est_time: 30}
  cuda:
    - {stage: base-b, runner_configs: [1-gpu-small], kind: per-commit, timeout_minutes: 30}
    - {name: nightly-1-gpu, runner: 1-gpu-small, kind: nightly}
    - {name: elsewhere, runner: 1-gpu-small, kind: per-commit, run_by: another CI}
    - {name: manual, runner: 1-gpu-small, kind: stress, run_by: by hand}
components:
  kernel: {paths: ["kernel/**"], suites: [base-b-test-1-gpu-small]}
ignore: ["*.md", "docs/**", "kernel/notes/**", "test/**", ".github/**", "*.toml", "conf*.py",
  "src/*"]
"""
CPU = "base-a-test-cpu"
GPU = "base-b-test-1-gpu-small"
TESTS = "test/registered"
COMMIT = "c" * 40


def taxonomy(text: str = SUITES) -> Taxonomy:
    return load_taxonomy(text.encode(), "test/suites.yml")


def registered(
    suite: str = CPU,
    backend: Backend = Backend.CPU,
    est_time: float | None = 60.0,
    group: str | None = None,
    disabled: str | None = None,
) -> Registration:
    return Registration(backend, est_time, suite, None, None, False, disabled, group, at(1))


def cpu_tests(count: int, est_time: float = 60.0) -> dict[str, tuple[Registration, ...]]:
    return {f"{TESTS}/test_{n}.py": (registered(est_time=est_time),) for n in range(count)}


def everything(of: Taxonomy) -> Selection:
    return select(None, of, {})


def plan_of(
    registrations: Mapping[str, Sequence[Registration]], settings: Settings | None = None
) -> Plan:
    known = taxonomy()
    return make_plan(COMMIT, everything(known), known, registrations, settings or Settings())


def machine_of(suite: PlannedSuite) -> Machine | None:
    """The machine that its runner declares."""
    gpus = (
        Gpu(
            index,
            f"GPU-{index}",
            f"NVIDIA GeForce {suite.gpu}",
            suite.compute_capability,
            (suite.memory_gb or 0) * 1024,
        )
        for index in range(suite.gpus)
    )
    return Machine(tuple(gpus), "580.159.04") if suite.gpus else None


def results_of(plan: Plan) -> list[FileResult]:
    """What a run would give in which every file passes three tests."""
    return [
        FileResult(
            suite=suite.name,
            backend=suite.backend,
            shard=shard.id,
            path=file.path,
            outcome=Outcome.PASSED,
            tests=3,
            failed=0,
            skipped=(),
            seconds=file.seconds,
            started=1_780_000_000.0,
            exit_status=0,
            commit=plan.commit,
            plan=plan.digest,
            machine=machine_of(suite),
            under=shard.under,
        )
        for suite in plan.suites
        for shard in suite.shards
        for file in shard.files
    ]


def write_results(folder: Path, results: Sequence[FileResult]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, result in enumerate(results):
        (folder / f"{number}.json").write_text(result.to_json())
    return folder


def result(path: str = f"{TESTS}/test_0.py", **changed: Any) -> FileResult:
    known = results_of(plan_of(cpu_tests(1)))[0]
    return dataclasses.replace(known, path=path, **changed)


def git(root: Path, *args: str) -> str:
    names = {
        f"GIT_{who}_{what}": "t@example.invalid"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *args],
        cwd=root,
        env=keep | names | {"GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(root: Path, message: str, **files: str | None) -> str:
    """Write, or with None delete, files and commit them; double underscores stand for slashes."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")
