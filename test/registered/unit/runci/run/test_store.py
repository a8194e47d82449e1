"""The folder of results: what stands beside the results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.run.store import Store

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_results_are_no_part_of_the_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    with Store(tmp_path / ".runci" / "results", "cpu-a-1of1"):
        pass
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True
    )
    assert status.stdout == b""


def test_another_folder_gets_nothing_beside_the_results(tmp_path: Path) -> None:
    with Store(tmp_path / "res", "cpu-a-1of1"):
        pass
    assert not (tmp_path / "res" / ".gitignore").exists()
    assert not (tmp_path / ".gitignore").exists()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
