"""Which files the whitespace lint reads, in which lines, and what it writes: in real folders."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.checks import engine, fix
from runci.checks.registry import rules
from runci.checks.rule import Options
from runci.checks.ws import files
from runci.core.errors import Exit, RunciError
from runci.core.git import list_files, list_untracked, run_git

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="names and links as on POSIX")


def git(root: Path, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgSign=false"]
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


def write(root: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def commit(root: Path, contents: dict[str, bytes]) -> None:
    write(root, contents)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, the current folder, whatever the user's own settings are."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    monkeypatch.chdir(folder)
    return folder


def found(result: engine.Result) -> list[tuple[str, int, str]]:
    return [(f.path, f.line, f.rule) for f in result.findings]


def options(root: Path, *paths: str, base: str | None = None) -> Options:
    config, cwd = root / "test" / "suites.yml", Path.cwd()
    return Options(root, config, cwd, frozenset(rules(("WS",))), paths, diff_base=base)


def check(root: Path, *paths: str, base: str | None = None) -> engine.Result:
    return engine.check(options(root, *paths, base=base), ("WS",))


def mend(root: Path, *paths: str, base: str | None = None) -> tuple[int, list[str]]:
    """Mend what can be: how many findings, in which files."""
    wanted = options(root, *paths, base=base)
    changes = engine.changes(wanted, engine.check(wanted, ("WS",)))
    count, refused = fix.write(root, changes)
    assert not refused
    return count, [one.path for one in changes]


def run(
    root: Path, *paths: str, fix: bool = False, base: str | None = None
) -> list[tuple[str, int, str]]:
    if fix:
        mend(root, *paths, base=base)
    return found(check(root, *paths, base=base))


# Which files


def test_tracked_and_untracked_but_not_ignored(root: Path) -> None:
    commit(root, {".gitignore": b"out/\n", "b/tracked.py": b"x \n", "gone.py": b"x \n"})
    write(root, {"a b.py": b"y \n", "out/ignored.py": b"z \n", "bin": b" \n\0"})
    (root / "gone.py").unlink()
    result = check(root)
    assert found(result) == [("a b.py", 1, "WS101"), ("b/tracked.py", 1, "WS101")]
    assert set(result.found["WS"].paths) == {".gitignore", "a b.py", "b/tracked.py", "bin"}


def test_paths_restrict(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root, {".gitignore": b"out\n", "a/x.py": b"x \n", "ab/x.py": b"x \n", "[a]*": b"x \n"})
    write(root, {"out": b"z \n"})
    assert run(root, "a") == [("a/x.py", 1, "WS101")]
    assert run(root, "[a]*", str(root / "a")) == [("[a]*", 1, "WS101"), ("a/x.py", 1, "WS101")]
    assert run(root, "out") == [("out", 1, "WS101")]  # named outright
    monkeypatch.chdir(root / "a")
    assert run(root, "x.py") == [("a/x.py", 1, "WS101")]
    assert len(run(root, "..")) == 3


def test_a_root_below_the_top(root: Path) -> None:
    commit(root, {"a/b/x.py": b"x\n", "y.py": b"y\n"})
    write(root, {"a/b/x.py": b"x \n", "y.py": b"y \n", "a/b/é.py": b"z \n"})
    expected = [("b/x.py", 1, "WS101"), ("b/é.py", 1, "WS101")]
    assert run(root / "a") == expected
    assert run(root / "a", base="HEAD") == expected


@POSIX
def test_odd_names(root: Path) -> None:
    names = [b"sp ace", b"new\nline", b'quo"te\\', b"tab\t", b"-dash", b"\xff\xfe", "é".encode()]
    for name in names:
        (root / os.fsdecode(name)).write_bytes(b"x\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    for name in names:
        (root / os.fsdecode(name)).write_bytes(b"x\ny \n")
    expected = sorted((os.fsdecode(name), 2, "WS101") for name in names)
    assert run(root) == expected
    assert run(root, base="HEAD") == expected
    assert [os.fsencode(name) for name in list_files(root) or ()] == sorted(names)


@POSIX
def test_a_root_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    write(root, {"a/x.py": b"x \n"})
    (tmp_path / "link").symlink_to(root)
    expected = [("a/x.py", 1, "WS101")]
    assert run(tmp_path / "link", "a") == expected
    assert run(root, str(tmp_path / "link" / "a" / "x.py")) == expected
    assert run(root, str(tmp_path / "link")) == expected


@POSIX
def test_links_and_special_files_are_left_alone(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"x.py": b"x \n"})
    (root / "file").symlink_to(outside / "x.py")
    (root / "folder").symlink_to(outside)
    (root / "broken").symlink_to("nowhere")
    git(root, "add", "-A")
    os.mkfifo(root / "pipe")
    assert run(root) == []
    assert run(root, "file", "pipe", fix=True) == []
    assert (outside / "x.py").read_bytes() == b"x \n"


def test_nested_repositories_are_left_alone(root: Path) -> None:
    write(root, {"nested/x.py": b"x \n", "y.py": b"y \n"})
    git(root / "nested", "init", "-q")
    commit(root / "nested", {"x.py": b"x \n"})
    assert run(root) == [("y.py", 1, "WS101")]
    git(root, "add", "-A")  # now a submodule
    assert run(root) == [("y.py", 1, "WS101")]


def test_without_git_folders_are_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a/x.py": b"x \n", "a.py": b"x \n", ".venv/x.py": b"x \n", "b/y": b"y \n"})
    monkeypatch.chdir(tmp_path)
    everything = [("a.py", 1, "WS101"), ("a/x.py", 1, "WS101"), ("b/y", 1, "WS101")]
    assert run(tmp_path) == everything
    assert run(tmp_path, "a", "b/y") == everything[1:]
    assert run(tmp_path, "a", ".", "a") == everything
    assert run(tmp_path, ".venv") == [(".venv/x.py", 1, "WS101")]  # named outright
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("PATH", str(tmp_path / "b"))
    assert run(tmp_path, "a") == everything[1:2]


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root every folder can be listed, so the system call is played."""
    write(tmp_path, {"a.py": b"x \n", "closed/b.py": b"x \n"})
    real = os.scandir

    def scandir(path: str | Path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    result = check(tmp_path)
    assert found(result) == [("a.py", 1, "WS101"), ("closed", 1, "WS100")]
    assert "Permission denied" in result.findings[1].message


def test_nothing_to_check_is_counted_as_nothing(root: Path) -> None:
    with pytest.raises(RunciError, match="no file to check") as caught:
        check(root)
    assert caught.value.code is Exit.NOTHING
    commit(root, {"a": b"a\n"})
    assert found(check(root, base="HEAD")) == []


# Wrong use


@pytest.mark.parametrize(
    ("paths", "base", "message"),
    [
        (["missing.py"], None, "missing.py: no such file or folder"),
        ([""], None, "no such file"),
        ([".."], None, "outside the root"),
        ([], "--output=x", "not a revision"),
        ([], "", "not a revision"),
        ([], "nowhere", "--diff-base nowhere: no such commit"),
        ([], "HEAD..HEAD", "no such commit"),
    ],
)
def test_wrong_use(root: Path, paths: Sequence[str], base: str | None, message: str) -> None:
    commit(root, {"a.py": b"a \n"})
    with pytest.raises(RunciError, match=message) as caught:
        mend(root, *paths, base=base)
    assert caught.value.code is Exit.USAGE
    assert (root / "a.py").read_bytes() == b"a \n"
    assert not (root / "x").exists()


def test_broken_git_says_so(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": b"nonsense\n", "a.py": b"a\n"})
    with pytest.raises(RunciError, match=r"git ls-files failed in .*: fatal: not a git repository"):
        check(tmp_path)


def test_a_base_needs_git(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": b"a\n"})
    with pytest.raises(RunciError, match="--diff-base needs git"):
        check(tmp_path, base="HEAD")


def test_a_missing_root(tmp_path: Path) -> None:
    with pytest.raises(RunciError, match="no such folder"):
        check(tmp_path / "missing")
    with pytest.raises(RunciError, match="no such folder"):
        run_git(tmp_path / "missing", "status")


def test_a_hook_of_another_repository_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"a.py": b"a \n"})
    monkeypatch.setenv("GIT_DIR", str(root / "elsewhere"))
    assert run(root) == [("a.py", 1, "WS101")]
    assert list_untracked(root) == ["a.py"]


def test_what_cannot_be_read_is_a_finding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, {"a.py": b"a \n", "b.py": b"b \n"})
    read = files.read

    def refuse(base: Path, path: str) -> files.Contents | str | None:
        return "cannot be read: Permission denied" if path == "a.py" else read(base, path)

    monkeypatch.setattr(files, "read", refuse)
    assert run(root) == [("a.py", 1, "WS100"), ("b.py", 1, "WS101")]


def test_a_name_that_the_system_refuses(tmp_path: Path) -> None:
    assert str(files.read(tmp_path, "x" * 5000)).startswith("cannot be read: ")


def test_a_file_that_vanished_is_told_from_a_special_one(tmp_path: Path) -> None:
    assert str(files.read(tmp_path, "x")).startswith("cannot be read: ")
    assert files.read(tmp_path, ".") is None


# Attributes and settings


def test_attributes(root: Path) -> None:
    lines = b"*.bat eol=crlf\n*.raw -text\n*.bin binary\n*.off -whitespace\n*.c whitespace=tab-in\n"
    write(root, {".gitattributes": lines})
    write(root, dict.fromkeys(("a.bat", "a.raw", "a.bin", "a.off", "a.c"), b"\tx \r\n"))
    assert sorted(run(root)) == [
        ("a.bat", 1, "WS101"),
        ("a.c", 1, "WS101"),
        ("a.c", 1, "WS104"),
        ("a.c", 1, "WS107"),
        ("a.raw", 1, "WS101"),
    ]
    git(root, "config", "core.whitespace", "-trailing-space")
    assert run(root, "a.raw") == []


@pytest.mark.parametrize("how", ["autocrlf", "attribute", "none"])
def test_a_converted_checkout_lints_the_same(root: Path, how: str) -> None:
    commit(root, {"lf.py": b"x\ny \n", "crlf.py": b"x\r\n", "old.py": b"a\n"})
    if how == "autocrlf":
        git(root, "config", "core.autocrlf", "true")
    elif how == "attribute":
        write(root, {".gitattributes": b"* text=auto eol=crlf\n"})
    plain = [("crlf.py", 1, "WS104"), ("lf.py", 2, "WS101")]
    assert run(root) == plain
    (root / "lf.py").write_bytes(b"x\r\ny \r\n")  # as git checks it out
    write(root, {"new.py": b"x\r\n"})
    converted = (
        [*plain]
        if how != "none"
        else sorted([*plain, ("lf.py", 1, "WS104"), ("new.py", 1, "WS104")])
    )
    assert sorted(run(root)) == sorted(converted)


# Changed lines


def test_added_lines_alone(root: Path) -> None:
    commit(root, {"a.py": b"one \ntwo\nthree \n", "same.py": b"x \n", "moved.py": b"y \nz\n" * 20})
    (root / "moved.py").rename(root / "there.py")
    write(root, {"a.py": b"one \nnew \ntwo\nthree \n", "untracked.py": b"u \n"})
    git(root, "add", "there.py", "moved.py")
    assert run(root, base="HEAD") == [("a.py", 2, "WS101"), ("untracked.py", 1, "WS101")]
    assert run(root, "a.py", base="HEAD") == [("a.py", 2, "WS101")]
    assert run(root, "a.py", base="HEAD", fix=True) == []
    assert (root / "a.py").read_bytes() == b"one \nnew\ntwo\nthree \n"


def test_the_end_counts_where_the_change_touches_it(root: Path) -> None:
    commit(root, {"a": b"1\n2\n\n\n", "b": b"1\n\n2\n", "c": b"1\n2"})
    write(root, {"a": b"0\n1\n2\n\n\n", "b": b"1\n\n", "c": b"0\n1\n2"})
    assert run(root, base="HEAD") == [("b", 2, "WS103")]


def test_user_settings_of_diff_change_nothing(root: Path) -> None:
    commit(root, {"a": b"1\n\n2\n", "é b": b"1\n"})
    write(root, {"a": b"1\n\n2\n3 \n", "é b": b"1\n2 \n"})
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.suppressBlankEmpty": "true",
        "diff.external": "false",
        "diff.interHunkContext": "9",
        "diff.context": "0",
        "color.ui": "always",
        "core.quotePath": "false",
    }.items():
        git(root, "config", key, value)
    assert run(root, base="HEAD") == [("a", 4, "WS101"), ("é b", 2, "WS101")]


def test_markers_of_a_merge_in_progress(root: Path) -> None:
    commit(root, {"a": b"base\n"})
    git(root, "checkout", "-q", "-b", "other")
    commit(root, {"a": b"theirs\n"})
    git(root, "checkout", "-q", "main")
    commit(root, {"a": b"ours\n"})
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "-q", "other")
    expected = [("a", line, "WS113") for line in (1, 3, 5)]
    assert run(root) == expected
    assert run(root, base="HEAD") == expected


# Mending


def test_mending_keeps_mode_and_what_is_not_mended(root: Path) -> None:
    write(root, {"a.py": b"#!/bin/python \r\n<<<<<<< a\r\n", "ok.py": b"x\n"})
    (root / "a.py").chmod(0o755)
    before = (root / "ok.py").stat()
    assert mend(root) == (2, ["a.py"])
    assert found(check(root)) == [("a.py", 2, "WS113")]
    assert (root / "a.py").read_bytes() == b"#!/bin/python\n<<<<<<< a\n"
    assert (root / "a.py").stat().st_mode & 0o777 in (0o755, 0o666)  # Windows has no such modes
    assert (root / "ok.py").stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(path.name for path in root.iterdir()) == [".git", "a.py", "ok.py"]
    assert mend(root) == (0, [])


def blob(seed: int) -> bytes:
    """Bytes without NUL, which git and the lint take for text."""
    return bytes(byte or 9 for byte in random.Random(seed).randbytes(300)) + b"\r\n \t\n"


BLOBS = {f"{seed}.bin": blob(seed) for seed in range(20)}
VALUES = {
    "blob.py": blob(20),
    "data.pkl": pickle.dumps(["a \n", "b\t\n"], protocol=0) + b" \n\n",
    "data.py": pickle.dumps(["a \n", "b\t\n"], protocol=0) + b" \n\n",
    "t.tsv": b"name\tvalue\tnote\na\t1\t\n",
    "some.patch": b"--- a\n+++ b\n@@ -1,2 +1,2 @@\n \n-x\n+x \n",
    "block.yml": b"a: |\n  x  \n\n\n",
    "run.sh": b"cat <<END  \na  \nEND\r\n",
    "README.md": b"three   \n",
    "Makefile": b"all: \n\techo a \n",
    "no-suffix": b"x \n",
}


def test_what_may_be_a_value_is_not_mended(root: Path) -> None:
    write(root, VALUES | BLOBS)
    assert mend(root) == (0, [])
    assert {name: (root / name).read_bytes() for name in VALUES | BLOBS} == VALUES | BLOBS
    result = check(root)
    assert {f.path for f in result.findings} == set(VALUES)  # a blob is no text
    assert not any(f.fixable for f in result.findings)


@pytest.mark.parametrize("suffix", ["py", "pyi", "pyw"])
def test_values_of_strings_stay(root: Path, suffix: str) -> None:
    text = b"X = '''a  \n\t\xe2\x80\x8b \n'''  \nY = 1\t\n"
    write(root, {f"a.{suffix}": text})
    count, _ = mend(root)
    result = check(root)
    after = (root / f"a.{suffix}").read_bytes()
    assert after == text.replace(b"'''  \n", b"'''\n").replace(b"1\t", b"1")
    assert count == 2
    assert {(f.line, f.rule, f.fixable) for f in result.findings} == {
        (1, "WS101", False),
        (2, "WS101", False),
        (2, "WS107", False),
        (2, "WS111", False),
    }


def test_a_file_that_changes_meanwhile_is_not_written(root: Path) -> None:
    write(root, {"a.py": b"x \n"})
    wanted = options(root)
    changes = engine.changes(wanted, engine.check(wanted, ("WS",)))
    write(root, {"a.py": b"somebody's work \n"})
    count, refused = fix.write(root, changes)
    assert (count, len(refused)) == (0, 1)
    assert "a.py" in refused[0]
    assert (root / "a.py").read_bytes() == b"somebody's work \n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
