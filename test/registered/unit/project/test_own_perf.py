"""What this repository's own nightly measures: test/perf.yml and the repository agree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.config.perf import read_config
from runci.config.repository import load_taxonomy_file
from runci.core.errors import RunciError
from runci.core.git import run_git

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
CONFIG = read_config(ROOT / "test/perf.yml")


def is_commit(name: str) -> bool:
    try:
        return run_git(ROOT, "cat-file", "-t", name).strip() == b"commit"
    except RunciError:
        return False


@pytest.mark.parametrize("name", CONFIG.benchmarks)
def test_each_benchmark_has_its_command_and_the_gpu_of_the_nightly_runner(name: str) -> None:
    benchmark = CONFIG.benchmarks[name]
    runner = load_taxonomy_file(ROOT, ROOT / "test/suites.yml").runners["1-gpu-small"]
    assert benchmark.gpu == runner.gpu
    assert (ROOT / benchmark.command[1]).is_file()
    assert any("{output}" in word for word in benchmark.command)


@pytest.mark.parametrize("name", CONFIG.benchmarks)
def test_the_pinned_baseline_is_a_commit_that_has_the_benchmark(name: str) -> None:
    benchmark = CONFIG.benchmarks[name]
    assert benchmark.baseline is not None
    if run_git(ROOT, "rev-parse", "--is-shallow-repository").strip() == b"false":
        assert is_commit(benchmark.baseline)
        listed = run_git(ROOT, "ls-tree", "-r", "--name-only", benchmark.baseline)
        assert benchmark.command[1].encode() in listed.splitlines()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
