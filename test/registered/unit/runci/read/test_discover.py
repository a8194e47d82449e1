"""Which files are tests: with git and without, whatever their names and kinds are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, TESTS, make_tree, run, runci, runci_process

from runci import register_cpu_ci
from runci.config.repository import load_taxonomy_file
from runci.config.taxonomy import Taxonomy
from runci.core.errors import Exit, RunciError
from runci.core.git import GitMissingError
from runci.core.paths import relative
from runci.read import discover
from runci.read.decode import read

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX file names and kinds")


def git(root: Path, *arguments: str) -> None:
    identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=False, capture_output=True
    )
    assert done.returncode == 0 or arguments[0] == "merge", done.stderr


def repository(root: Path) -> Path:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")
    return root


def plain(root: Path) -> Path:
    return root


both = pytest.mark.parametrize("make", [plain, repository], ids=["walk", "git"])


def find(root: Path) -> discover.Discovered:
    return discover.discover(root, load_taxonomy_file(root, root / "test" / "suites.yml"))


def collected(root: Path) -> list[str]:
    return [path.removeprefix(f"{TESTS}/") for path in find(root).tests]


def tree(root: Path, *names: str) -> Path:
    return make_tree(root, {f"{TESTS}/{name}": CLEAN for name in names})


@both
def test_finds_tests_others_and_packages(make: Callable[[Path], Path], tmp_path: Path) -> None:
    names = ["test_a.py", "b/test_b.py", "b/__init__.py", "b/helper.py", "b/bench_b.py", "b/x.txt"]
    names += ["conftest.py", "helpers/test_excluded.py", "test_a.pyi", "Test_c.py", "test_d.PY"]
    found = find(make(tree(tmp_path, *names)))
    assert found.tests == tuple(
        f"{TESTS}/{n}" for n in ("b/bench_b.py", "b/test_b.py", "test_a.py")
    )
    assert found.others == (f"{TESTS}/Test_c.py", f"{TESTS}/b/helper.py")
    assert found.packages == {f"{TESTS}/b"}
    assert found.linked == ()


@both
@posix
def test_odd_names(make: Callable[[Path], Path], tmp_path: Path) -> None:
    odd = [
        "test_ a b.py",
        "test_\n.py",
        "test_é.py",
        "test_*.py",
        "test_[x].py",
        "test_'\".py",
        "test_\\.py",
        "test_$HOME.py",
        "test_\t.py",
        "-f/test_x.py",
        "a b/test_x.py",
        "test_\udcff.py",
        "test_\U0001f40d.py",
    ]
    root = make(tree(tmp_path, *odd))
    assert collected(root) == sorted(odd)
    # The same module name in two folders (RT307) is all that there is to say.
    assert {f.rule for f in run(root).findings} == {"RT307"}
    for form in ("text", "concise", "github", "json", "sarif", "junit"):
        done = runci("lint", "--no-cache", "--format", form, cwd=root)
        assert (done.returncode, done.stderr) == (Exit.FINDINGS, ""), form


@both
@posix
def test_links_and_fifos(make: Callable[[Path], Path], tmp_path: Path) -> None:
    root = make(tree(tmp_path, "test_real.py", "real/test_x.py", "helpers/y.txt"))
    base = root / TESTS
    targets = {
        "test_link.py": "test_real.py",
        "test_broken.py": "nowhere.py",
        "test_loop.py": "test_loop.py",
        "test_folder.py": "real",
        "link": "real",
        "v1.0": "real",
        "helpers/excluded": "../real",
        "loop": "loop",
        "up": "..",
    }
    for name, target in targets.items():
        (base / name).symlink_to(target)
    os.mkfifo(base / "test_fifo.py")
    wanted = ["real/test_x.py", "test_broken.py", "test_fifo.py", "test_folder.py"]
    found = find(root)
    listed = [path.removeprefix(f"{TESTS}/") for path in found.tests]
    # git lists no FIFO: for it, there is no such file.
    wanted = [name for name in wanted if make is plain or name != "test_fifo.py"]
    assert listed == [*wanted, "test_link.py", "test_loop.py", "test_real.py"]
    assert found.linked == tuple(f"{TESTS}/{name}" for name in ("link", "up", "v1.0"))
    unread = {f.path.removeprefix(f"{TESTS}/"): f.message for f in run(root, ["RT403"]).findings}
    unread.pop("test_fifo.py", None)
    assert unread == {
        "link": "a symbolic link to a folder",
        "up": "a symbolic link to a folder",
        "v1.0": "a symbolic link to a folder",
        "test_broken.py": "a broken symbolic link",
        "test_folder.py": "not a regular file",
        "test_loop.py": os.strerror(40),
    }


@posix
def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    root = tree(tmp_path, "test_a.py")
    os.mkfifo(root / TESTS / "test_x.py")
    done = runci_process("lint", "--no-cache", "--format", "concise", cwd=root, timeout=20)
    assert done.returncode == Exit.FINDINGS
    assert f"{TESTS}/test_x.py:1:1: RT403 not a regular file" in done.stdout


def test_git_decides(tmp_path: Path) -> None:
    root = tree(tmp_path, "test_deleted.py", "test_kept.py", "test_tracked_but_ignored.py")
    repository(root)
    (root / TESTS / "test_deleted.py").unlink()
    (root / ".gitignore").write_text("*ignored*\n")
    tree(root, "test_ignored.py", "test_new.py")
    assert collected(root) == ["test_kept.py", "test_new.py", "test_tracked_but_ignored.py"]


def test_submodules_and_nested_repositories_are_other_repositories(tmp_path: Path) -> None:
    other = repository(tree(tmp_path / "other", "test_inner.py"))
    root = repository(tree(tmp_path / "root", "test_outer.py"))
    allow = ("-c", "protocol.file.allow=always")
    git(root, *allow, "submodule", "add", "-q", str(other), f"{TESTS}/sub")
    git(root, "clone", "-q", str(other), f"{TESTS}/nested")
    assert collected(root) == ["test_outer.py"]


def test_a_conflict_lists_a_file_once(tmp_path: Path) -> None:
    root = repository(tree(tmp_path, "test_a.py"))
    git(root, "checkout", "-qb", "side")
    for branch, text in (("side", "x = 1\n"), ("main", "x = 2\n")):
        git(root, "checkout", "-q", branch)
        (root / TESTS / "test_a.py").write_text(text)
        git(root, "commit", "-qam", branch)
    git(root, "merge", "side")
    assert collected(root) == ["test_a.py"]
    assert [f.rule for f in run(root, ["RT401"]).findings] == ["RT401"]


def test_a_root_below_the_top_of_the_repository(tmp_path: Path) -> None:
    tree(tmp_path / "sub", "test_a.py")
    repository(tmp_path)
    assert collected(tmp_path / "sub") == ["test_a.py"]


def test_an_environment_of_a_hook_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tree(tmp_path / "a", "test_a.py"))
    monkeypatch.setenv("GIT_DIR", str(repository(tree(tmp_path / "b", "test_b.py")) / ".git"))
    assert collected(root) == ["test_a.py"]


SUITES = """version: 1
roots: ROOTS
runners: {cpu: {label: l, execution: pytest}}
suites: {cpu: [{name: base, runner: cpu, kind: per-commit}]}
"""
OLD = CLEAN.replace('stage="base-a", runner_config="cpu"', 'suite="base"')


def with_roots(root: Path, roots: str, *paths: str) -> Path:
    """A tree whose files all hold a registered test."""
    make_tree(
        root, {**dict.fromkeys(paths, OLD), "test/suites.yml": SUITES.replace("ROOTS", roots)}
    )
    return root


@both
def test_the_whole_repository_is_a_root(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    paths = ("test_top.py", "a/test_a.py", "a/b/test_b.py", "a/helper.py", "conftest.py")
    root = make(with_roots(tmp_path, '["."]', *paths))
    found = find(root)
    assert found.tests == ("a/b/test_b.py", "a/test_a.py", "test_top.py")
    assert found.others == ("a/helper.py",)
    shown = runci("lint", "--no-cache", "--format", "concise", cwd=root).stdout.splitlines()[:-1]
    assert [line.split(": ")[1].split()[0] for line in shown] == ["RT306", "RT110"]
    (root / "a/helper.py").unlink()
    (root / "conftest.py").unlink()
    assert runci("plan", "--all", "-o", "plan.json", cwd=root).returncode == Exit.OK
    planned = (root / "plan.json").read_text()
    assert all(f'"{path}"' in planned for path in found.tests)
    assert runci("collect", cwd=root).returncode == Exit.OK


@both
def test_roots_with_globs_of_their_own(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    roots = (
        "[tests, {path: py, test_files: ['*_spec.py']}, {path: py/in, exclude: ['**/old/**']}, "
        "{path: '.', test_files: [check_*.py], exclude: [py/not_here.py]}]"
    )
    tests = (
        *("check_top.py", "other/check_a.py", "py/a_spec.py", "py/deep/b_spec.py"),
        *("py/in/test_c.py", "py/in/old_test/test_d.py", "tests/test_e.py"),
    )
    others = (
        "other/test_a.py",
        "py/test_a.py",
        "py/in/x_spec.py",
        "tests/a_spec.py",
        "tests/check_f.py",
    )
    left_out = ("py/in/old/test_g.py", "tests/conftest.py")
    root = make(with_roots(tmp_path, roots, *tests, *others, *left_out))
    found = find(root)
    assert found.tests == tuple(sorted(tests))
    assert found.others == tuple(sorted(others))
    shown = runci("lint", "--no-cache", "--select", "RT306,RT110", "--format", "json", cwd=root)
    said = {f["path"]: f for f in json.loads(shown.stdout)["findings"]}
    assert set(said) == {*others, "tests/conftest.py"}  # excluded by path is on purpose
    assert "*_spec.py" in said["py/test_a.py"]["message"]
    assert "check_*.py" in said["other/test_a.py"]["message"]
    assert "test_*.py" in said["tests/a_spec.py"]["message"]


def test_without_git_it_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tree(tmp_path, "test_a.py", ".venv/test_b.py", "__pycache__/test_c.py"))
    monkeypatch.setattr("runci.core.git.run_git", no_git)
    assert collected(root) == ["test_a.py"]


def no_git(*_: object, **__: object) -> bytes:
    raise GitMissingError("no git")


def test_a_broken_git_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path, "test_a.py")
    (root / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(RunciError, match=r"git ls-files .*: fatal") as caught:
        find(root)
    assert caught.value.code is Exit.USAGE


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root every folder can be listed, so the system call is played."""
    root = tree(tmp_path, "test_a.py", "closed/test_b.py")
    real = os.scandir

    def scandir(path: Path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    (found,) = run(root, ["RT403"]).findings
    assert found.path == f"{TESTS}/closed"
    assert found.message.endswith(": Permission denied")


def test_roots_in_each_other_list_a_file_once(tmp_path: Path) -> None:
    root = tree(tmp_path, "test_a.py")
    taxonomy = Taxonomy("s", roots=("test", TESTS))
    assert discover.discover(root, taxonomy).tests == (f"{TESTS}/test_a.py",)
    repository(root)
    assert discover.discover(root, taxonomy).tests == (f"{TESTS}/test_a.py",)


def test_nothing_to_check_is_no_success(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {f"{TESTS}/readme.txt": ""})
    with pytest.raises(RunciError, match="no test file") as caught:
        find(root)
    assert caught.value.code is Exit.NOTHING
    with pytest.raises(RunciError, match="folder: nowhere") as caught:
        discover.discover(root, Taxonomy("s", roots=("nowhere",)))
    assert caught.value.code is Exit.USAGE


def test_a_file_that_is_gone_between_listing_and_reading(tmp_path: Path) -> None:
    assert read(tmp_path, "gone.py") == "the file is gone"
    assert read(tmp_path, ".") == "not a regular file"
    (tmp_path / "x").write_bytes(b"\0\xff")
    assert read(tmp_path, "x") == b"\0\xff"


@posix
def test_paths_of_the_command_line(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "test_a.py")
    base = root / TESTS
    (base / "test_loop.py").symlink_to("test_loop.py")
    (base / "test_out.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "alias").symlink_to(root)
    (tmp_path / "outside.py").write_text("")
    for argument, cwd, wanted in (
        ("test_a.py", base, f"{TESTS}/test_a.py"),
        ("../registered/", base, TESTS),
        (".", root, ""),
        ("..", root / "test", ""),
        (str(base / "test_a.py"), tmp_path, f"{TESTS}/test_a.py"),
        ("alias/test", tmp_path, "test"),
        (str(tmp_path / "alias" / TESTS / "test_a.py"), root, f"{TESTS}/test_a.py"),
        ("test_loop.py", base, f"{TESTS}/test_loop.py"),
        ("test_out.py", base, f"{TESTS}/test_out.py"),
    ):
        assert relative(root, argument, cwd) == wanted
    for argument, words in (
        ("none.py", "no such file"),
        ("", "no such file"),
        ("../outside.py", "outside the root"),
    ):
        with pytest.raises(RunciError, match=words):
            relative(root, argument, root)
    assert relative(tmp_path / "alias", "test", root) == "test"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
