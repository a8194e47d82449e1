"""What git says and does when it is asked about a working tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, TESTS, make_tree, runci, track

from runci import register_cpu_ci
from runci.core.errors import Exit, RunciError
from runci.core.git import ask_git

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

REMEDY = "git config --global --add safe.directory "
# git's own switch for its tests of a repository that belongs to somebody else.
SOMEBODY_ELSES = {
    "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


@pytest.mark.parametrize(
    "command",
    [
        "lint",
        "check",
        "whitespace",
        "whitespace --diff-base HEAD",
        f"whitespace {TESTS}",
        "plan --all",
        "plan --base HEAD",
        "collect",
        "run --suite base-a-test-cpu",
        f"run {TESTS}/test_x.py",
    ],
)
def test_a_repository_of_somebody_else_is_named_with_the_remedy(
    tmp_path: Path, command: str
) -> None:
    root = track(make_tree(tmp_path / "its", {f"{TESTS}/test_x.py": CLEAN}))
    done = runci(*command.split(), cwd=root, **SOMEBODY_ELSES)
    assert done.returncode == Exit.USAGE, done.stdout
    assert f"{REMEDY}{root}" in done.stderr


def test_no_question_takes_distrust_for_an_answer(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for question in ("rev-parse --verify HEAD", "status", "ls-files", "rev-parse --show-toplevel"):
        with pytest.raises(RunciError, match=REMEDY):
            ask_git(tmp_path, *question.split(), environment=SOMEBODY_ELSES)
    assert ask_git(tmp_path, "rev-parse", "--verify", "HEAD").status  # no commit is an answer


def test_tests_leave_alone_the_repository_in_which_git_runs_them(tmp_path: Path) -> None:
    """As by `git bisect run`: `git init` would be of the one that GIT_DIR names."""
    given = tmp_path / "given"
    subprocess.run(["git", "init", "-q", given], check=True)
    before = (given / ".git/config").read_bytes()
    init = f"{__file__}::{test_no_question_takes_distrust_for_an_answer.__name__}"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", init],
        env={**os.environ, "GIT_DIR": str(given / ".git"), "GIT_WORK_TREE": str(given)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert (given / ".git/config").read_bytes() == before


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
