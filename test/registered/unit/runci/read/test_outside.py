"""What readers of the roots do not see: other files, submodules, sparse checkouts."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Taxonomy
from runci.read.outside import NOTHING, Outside, find_outside

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

LAYOUT = Taxonomy("test/suites.yml", ("test/registered",), exclude=("conftest.py", "test/data/**"))
CALL = "from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5)\n"
READ = "test/registered/test_one.py"


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=root, check=True, capture_output=True)


@pytest.fixture(name="plain")
def made(tmp_path):
    for path in (
        READ,
        "test/registered/conftest.py",
        "test/other/test_two.py",
        "test/data/test_example.py",
        "program.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(CALL)
    (tmp_path / "test_plain.py").write_text("def test_a():\n    pass\n")
    return tmp_path


@pytest.fixture(name="root")
def in_git(plain):
    git(plain, "init", "-q")
    git(plain, "add", ".")
    return plain


@pytest.mark.parametrize("where", ["plain", "root"])
def test_registrations_that_nobody_reads(where, request):
    root = request.getfixturevalue(where)
    found = find_outside(root, LAYOUT, [READ])
    assert found == Outside(("test/other/test_two.py", "test/registered/conftest.py"))
    assert find_outside(root, LAYOUT, [READ, *found.candidates]) == NOTHING


def test_submodules_and_sparse_checkouts(root):
    for path in ("test/registered/sub", "elsewhere", "test"):
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}/module")
    git(root, "update-index", "--skip-worktree", READ, "test/registered/conftest.py")
    (root / READ).unlink()
    found = find_outside(root, LAYOUT, [])
    assert found.left_out == (READ,)
    assert found.submodules == ("test/registered/sub/module",)
    whole = find_outside(root, dataclasses.replace(LAYOUT, roots=(".",)), [])
    assert whole.left_out == (READ,)
    assert len(whole.submodules) == 3


def test_a_root_in_a_submodule(root):
    git(root, "rm", "-r", "-q", "--cached", "test")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},test")
    assert find_outside(root, LAYOUT, []).submodules == ("test",)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
