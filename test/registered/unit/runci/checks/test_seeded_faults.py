"""A tree of real size with a fault of most rules: one run finds each on its line, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.checks.registry import rules

register_cpu_ci(est_time=9, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))

GENERATOR = Path(__file__).parents[5] / "ci_scripts" / "benchmark" / "tree.py"


def run(*command: str | Path, expected: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == expected, done.stderr
    return done.stdout


def test_one_run_finds_every_fault_and_nothing_else(tmp_path: Path) -> None:
    expected = json.loads(run(GENERATOR, tmp_path, "--faults"))
    seeded = [rule for _, _, rule in expected]
    assert len(seeded) == len(set(seeded))
    assert set(seeded) <= set(ALL)  # a newer rule has its fixtures only

    out = run("-m", "runci", "lint", "--root", tmp_path, "--no-cache", "--format=json", expected=1)

    report = json.loads(out)
    found = [[f["path"], f["line"], f["rule"]] for f in report["findings"]]
    assert sorted(found) == expected
    assert report["summary"]["files"] == 1549  # and one that no runner collects
    assert report["summary"]["registrations"] == 2022


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
