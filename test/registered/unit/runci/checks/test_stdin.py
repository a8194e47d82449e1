"""Standard input stands for one file, which need not be there; the rest of the tree is as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, FAULTY, TESTS, make_tree, runci, track

from runci import register_cpu_ci

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
OTHER = f"{TESTS}/a/test_other.py"
WORKFLOW = "on: push\njobs:\n  a:\n    steps:\n      - run: runci run --suite {}\n"


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    files = {
        FILE: CLEAN,
        OTHER: FAULTY,
        ".github/workflows/a.yml": WORKFLOW.format("base-a-test-cpu"),
    }
    root = make_tree(tmp_path / "root", files)
    return track(root) if request.param == "git" else root


def ask(root: Path, command: str, text: str, *options: str) -> tuple[int, str, str]:
    done = runci(command, *options, cwd=root, stdin=text.encode())
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["lint", "check"])
@pytest.mark.parametrize(
    "path", [FILE, f"{TESTS}/test_new.py", f"./{TESTS}/../registered/test_x.py"]
)
def test_the_text_is_checked_in_place_of_the_file(command: str, path: str, root: Path) -> None:
    for _ in range(2):  # the second time with what the cache knows
        status, out, _ = ask(root, command, FAULTY, "-", "--stdin-filename", path)
        assert (status, out.count("  RT105  "), OTHER in out) == (1, 1, False), out
        status, out, _ = ask(root, command, CLEAN, "-", "--stdin-filename", path)
        assert (status, "RT" in out.replace("RT3", "")) == (0, False), out
    assert (root / FILE).read_text() == CLEAN
    assert not (root / TESTS / "test_new.py").exists()
    assert ask(root, command, "", FILE)[0] == 0  # nothing of it was kept


def test_the_rest_of_the_tree_is_seen(root: Path) -> None:
    """A module of a name that there is already."""
    path = f"{TESTS}/b/test_other.py"
    (root / TESTS / "b").mkdir()
    status, out, _ = ask(root, "lint", CLEAN, "-", "--stdin-filename", path)
    assert (status, "RT307" in out) == (1, True), out


def test_of_a_workflow_too(root: Path) -> None:
    text = WORKFLOW.format("base-a-test-cup")
    for path in (".github/workflows/a.yml", ".github/workflows/new.yml"):
        status, out, _ = ask(root, "check", text, "-", "--stdin-filename", path)
        assert (status, "RT206" in out) == (1, True), out


@pytest.mark.parametrize(
    ("command", "before", "after", "status"),
    [
        ("lint", "\ufeff" + CLEAN, CLEAN, 0),
        ("whitespace", "X = 1  \n", "X = 1\n", 0),
        ("check", "\ufeff" + FAULTY + "  \n", FAULTY, 1),
        ("check", CLEAN, CLEAN, 0),
    ],
)
def test_fix_writes_the_mended_text_and_touches_nothing(
    command: str, before: str, after: str, status: int, root: Path
) -> None:
    options = ("--fix", "-", "--stdin-filename", FILE)
    assert ask(root, command, before, *options)[:2] == (status, after)
    assert (root / FILE).read_text() == CLEAN


@pytest.mark.parametrize(
    "options",
    [
        ("-",),
        ("--stdin-filename", FILE),
        ("-", FILE, "--stdin-filename", FILE),
        ("-", "--stdin-filename", "nowhere/test_x.py"),
        ("-", "--stdin-filename", "../test_x.py"),
        ("-", "--stdin-filename", FILE, "--write-baseline"),
    ],
)
def test_wrong_use_is_said(options: tuple[str, ...], root: Path) -> None:
    status, out, error = ask(root, "lint", CLEAN, *options)
    assert (status, out, error.startswith("runci: ")) == (2, "", True), error


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
