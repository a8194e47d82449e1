"""Tests that suites have without a call in them: real processes from the lint to the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import environment

from runci import register_cpu_ci

register_cpu_ci(est_time=15, stage="base-a", runner_config="cpu")

SUITES = """\
version: 1
roots: [tests]
runners:
  cpu: {label: ubuntu-latest, execution: EXECUTION}
  big: {label: big, execution: EXECUTION}
suites:
  cpu:
    - name: small
      runner: cpu
      kind: per-commit
      run_by: another CI
      tests: [{files: "**", marked: not big}]
    - name: large
      runner: big
      kind: per-commit
      run_by: another CI
      tests: [{files: "**", marked: big}]
    - name: two
      runner: big
      kind: per-commit
      run_by: another CI
      tests: ["tests/test_mixed.py::test_many[1]"]
"""
MIXED = """\
import os, pathlib, sys, unittest
import pytest
SEEN = pathlib.Path(os.environ["SEEN"])

@pytest.mark.big
def test_big(): (SEEN / "big").touch()

@pytest.mark.parametrize("n", [0, 1, pytest.param(2, marks=pytest.mark.big)])
def test_many(n): (SEEN / f"many{n}").touch()

class TestCase(unittest.TestCase):
    def test_small(self): (SEEN / "small").touch()
    @pytest.mark.big
    def test_large(self): (SEEN / "large").touch()

if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
"""
CASES = """\
import os, pathlib, unittest
import pytest
SEEN = pathlib.Path(os.environ["SEEN"])

class TestOne(unittest.TestCase):
    def test_one(self): (SEEN / "one").touch()
    @pytest.mark.big
    def test_other(self): (SEEN / "other").touch()

if __name__ == "__main__":
    unittest.main()
"""
WHOLE = {
    "small": {"many0", "many1", "small", "one"},
    "large": {"big", "many2", "large", "other"},
    "two": {"many1"},
}


def tree(root: Path, execution: str) -> Path:
    files = {
        "runci.yml": SUITES.replace("EXECUTION", execution),
        "tests/test_mixed.py": MIXED,
        "tests/test_cases.py": CASES,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def runci(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (root / "seen").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "runci", *words],
        cwd=root,
        env=environment(root, SEEN=str(root / "seen")),
        capture_output=True,
        text=True,
        check=False,
    )


def taken(root: Path) -> set[str]:
    """What ran since this was asked last."""
    seen = {path.name for path in (root / "seen").iterdir()}
    for name in seen:
        (root / "seen" / name).unlink()
    return seen


@pytest.mark.parametrize("execution", ["pytest", "script"])
def test_each_suite_runs_its_tests_alone(tmp_path: Path, execution: str) -> None:
    root = tree(tmp_path, execution)
    lint = runci(root, "lint")
    assert lint.returncode == 0, lint.stdout
    planned = runci(root, "plan", "--all", "--output", "plan.json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((root / "plan.json").read_text())
    shards = {suite["name"]: suite["shards"][0]["id"] for suite in plan["suites"]}
    assert set(shards) == set(WHOLE)
    for suite, tests in WHOLE.items():
        ran = runci(root, "run", "--plan", "plan.json", "--shard", shards[suite])
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert taken(root) == tests
        ran = runci(root, "run", "--suite", suite, "--results", "other")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert taken(root) == tests
    verified = runci(root, "verify", "plan.json", ".runci/results")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_part_is_not_the_whole(tmp_path: Path) -> None:
    root = tree(tmp_path, "pytest")
    runci(root, "plan", "--all", "--suite", "large", "--output", "plan.json")
    shard = json.loads((root / "plan.json").read_text())["suites"][0]["shards"][0]["id"]
    ran = runci(root, "run", "--plan", "plan.json", "--shard", shard, "tests/test_cases.py")
    assert (ran.returncode, taken(root)) == (0, {"other"})
    assert runci(root, "verify", "plan.json", ".runci/results").returncode == 1
    ran = runci(root, "run", "--suite", "small", "tests/test_mixed.py::@not big")
    assert (ran.returncode, taken(root)) == (0, {"many0", "many1", "small"})


def test_tests_that_nobody_takes_are_found_and_marks_that_none_has_are_no_success(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path, "pytest")
    text = (root / "runci.yml").read_text().replace("marked: big", "marked: biggest")
    (root / "runci.yml").write_text(text)
    lint = runci(root, "lint")
    assert lint.returncode == 1
    assert {"RT111", "RT210"} <= set(lint.stdout.split())
    assert runci(root, "run", "--suite", "large").returncode == 3
    ran = runci(root, "run", "--suite", "small", "tests/test_mixed.py::@biggest")
    assert (ran.returncode, taken(root)) == (1, set())
    assert "biggest" in ran.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
