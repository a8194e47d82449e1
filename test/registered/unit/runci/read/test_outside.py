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


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("test/other/check_a.py", True),  # named as the taxonomy says
        ("tools/check_a.py", True),
        ("test/registered/__init__.py", True),
        ("test/registered/deep/helpers.py", True),
        ("test/registered_too/helpers.py", False),
        ("tools/__init__.py", False),
        ("test/data/check_a.py", False),  # left out by path
    ],
)
def test_names_that_may_hold_one(tmp_path, path, found):
    for name in (READ, path):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from runci import register_cpu_ci as r\nr(est_time=5)\n")
    layout = dataclasses.replace(
        LAYOUT, test_files=("test_*.py", "**/check_*.py"), exclude=(*LAYOUT.exclude, "helpers.py")
    )
    assert find_outside(tmp_path, layout, [READ]).candidates == ((path,) if found else ())


def test_a_glob_for_all_files_names_no_test(tmp_path):
    (tmp_path / "program.py").write_text(CALL)
    for globs in (("*.py",), ("test/registered/**",), ("test/registered/**/*.py",)):
        layout = dataclasses.replace(LAYOUT, test_files=globs)
        assert find_outside(tmp_path, layout, []).candidates == ()


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
