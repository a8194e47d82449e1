"""The command line as people use it: bad input, exit codes, formats, encodings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import (
    CALL,
    CLEAN,
    FAULTY,
    IMPORT,
    TAXONOMY,
    TEST,
    TESTS,
    make_tree,
    runci,
    runci_process,
)

from runci import __version__, register_cpu_ci
from runci.core.errors import Exit

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
FORMATS = ("text", "concise", "github", "json", "sarif", "junit")

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals, pipes or files")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root", {FILE: CLEAN})


def lint(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    done = runci("lint", "--no-cache", *arguments, cwd=root, **more)
    assert "Traceback" not in done.stderr
    return done


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_exit_codes(root: Path) -> None:
    assert lint(root).returncode == Exit.OK
    (root / FILE).write_text(FAULTY)
    done = lint(root)
    assert (done.returncode, done.stderr) == (Exit.FINDINGS, "")
    assert "RT105" in done.stdout
    assert lint(root, "--ignore", "RT105").returncode == Exit.OK
    assert lint(root, "--select", "rt2,RT501").returncode == Exit.OK
    assert lint(root, "--select", "RT1").returncode == Exit.FINDINGS


def test_annotations_are_relative_to_the_checkout(root: Path) -> None:
    """Whatever the working folder of the step is, and where the root is a part of the checkout."""
    (root / FILE).write_text(FAULTY)
    arguments = ("lint", "--no-cache", "--format", "github")
    for cwd in (root, root / "test"):
        done = runci(*arguments, cwd=cwd, GITHUB_WORKSPACE=str(root.parent))
        assert f"::error file={root.name}/{FILE},line=" in done.stdout
        done = runci(*arguments, cwd=cwd, GITHUB_WORKSPACE=str(root))
        assert f"::error file={FILE},line=" in done.stdout
    done = runci(*arguments, cwd=root, GITHUB_WORKSPACE=str(root / "test"))  # of another checkout
    assert f"::error file={FILE},line=" in done.stdout


# Arguments, the exit status, and what the message names.
WRONG = [
    (["--root", "nowhere"], Exit.USAGE, "nowhere: no such folder"),
    (["--root", FILE], Exit.USAGE, "no such folder"),
    (["--config", "nowhere.yml"], Exit.USAGE, "nowhere.yml: no such file"),
    (["--config", "test"], Exit.USAGE, "test: cannot read: Is a directory"),
    (["nowhere.py"], Exit.USAGE, "nowhere.py: no such file or folder"),
    ([".."], Exit.USAGE, "..: outside the root"),
    (["/"], Exit.USAGE, "/: outside the root"),
    (["test/suites.yml"], Exit.NOTHING, "test/suites.yml: no test file there"),
    (["--select", "RT999"], Exit.USAGE, "no rule 'RT999'; did you mean"),
    (["--ignore", "nonsense"], Exit.USAGE, "no rule 'NONSENSE'"),
    (["--select", ""], Exit.USAGE, "name at least one rule"),
    (["--select", ","], Exit.USAGE, "name at least one rule"),
    (["--jobs", "0"], Exit.USAGE, "'0' is not a whole number from 1"),
    (["--jobs", "-1"], Exit.USAGE, "--jobs"),
    (["--format", "xml"], Exit.USAGE, "invalid choice: 'xml'"),
    (["--color", "pink"], Exit.USAGE, "invalid choice: 'pink'"),
    (["--baseline", "nowhere.json"], Exit.USAGE, "nowhere.json: no such baseline"),
    (["--write-baseline", "--fix"], Exit.USAGE, "the whole tree"),
    (["--baseline", "no/b.json", "--write-baseline"], Exit.USAGE, "no/b.json: cannot write"),
    (["--nonsense"], Exit.USAGE, "unrecognized arguments: --nonsense"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_use(arguments: list[str], code: Exit, words: str, root: Path) -> None:
    before = snapshot(root)
    done = lint(root, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stdout == ""
    assert snapshot(root) == before


def test_without_a_command_it_helps(root: Path) -> None:
    for arguments, code in (([], Exit.USAGE), (["--help"], Exit.OK), (["lint", "-h"], Exit.OK)):
        done = runci(*arguments, cwd=root)
        assert (done.returncode, done.stderr) == (code, "")
        assert "usage: runci" in done.stdout
    assert runci("nonsense", cwd=root).returncode == Exit.USAGE
    assert runci("--version", cwd=root).stdout == f"runci {__version__}\n"


def test_as_a_process_of_its_own(root: Path) -> None:
    """What the other tests see of `main` in this process is what a shell sees."""
    make_tree(root, {FILE: FAULTY, f"{TESTS}/test_\u4e2d.py": "x = ("})
    for arguments in ([], ["--version"], ["lint", "-h"], ["lint"], ["lint", "--root", "no"]):
        here, alone = (start(*arguments, cwd=root) for start in (runci, runci_process))
        assert (here.returncode, here.stderr) == (alone.returncode, alone.stderr)
        assert without_seconds(here.stdout) == without_seconds(alone.stdout)


def without_seconds(text: str) -> str:
    return re.sub(r"\d+\.\d\d s$", "", text, flags=re.MULTILINE)


def test_an_empty_input_is_no_success(root: Path) -> None:
    (root / FILE).unlink()
    done = lint(root)
    assert done.returncode == Exit.NOTHING
    assert "no test file" in done.stderr
    (root / "test" / "registered").rmdir()
    done = lint(root)
    assert done.returncode == Exit.USAGE
    assert "roots: no such folder" in done.stderr
    empty = root / "empty"
    empty.mkdir()
    assert lint(empty, "--root", ".").returncode == Exit.USAGE


# What stands in suites.yml, and the line, column and words of the message.
CONFIGS = {
    "version: 1\nroots: [a\n": "suites.yml:3:1: ",
    "version: 1\nversion: 1\n": "suites.yml:2:1: ",
    "version: 2\n": "suites.yml:1:10: version: this runci does not read version 2",
    "version: 1\n": "key 'roots' is missing",
    "": "suites.yml:1:1: ",
    "- 1\n": "suites.yml:1:1: ",
    "a: &a [*a]\n": "suites.yml:1:",
    "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(
        f"b{n}: &{'abcdefghij'[n + 1]} [{('*' + 'abcdefghij'[n] + ',') * 10}]\n" for n in range(8)
    ): ("suites.yml:"),
    "!!python/object/apply:os.system [touch x]\n": "suites.yml:1:1: ",
    "version: 1\x00\n": "suites.yml:1:",
    "[" * 100_000: "suites.yml:1:",
    TAXONOMY.read_text().replace("kind: nightly", "kind: nightyl"): "did you mean nightly?",
    TAXONOMY.read_text().replace("roots: [test/registered]", "roots: [../x]"): "roots[0]",
}


@pytest.mark.parametrize("text", CONFIGS, ids=lambda text: repr(text)[:30])
def test_a_wrong_taxonomy(text: str, root: Path) -> None:
    (root / "test" / "suites.yml").write_text(text)
    before = snapshot(root)
    done = lint(root)
    assert done.returncode == Exit.USAGE
    assert CONFIGS[text] in done.stderr
    assert "test/suites.yml" in done.stderr
    assert len(done.stderr) < 5_000
    assert snapshot(root) == before


def test_one_bad_file_hides_nothing(root: Path) -> None:
    files = {
        "test_big.py": b"x" * 50_000_000,
        "test_deep.py": b"(" * 100_000,
        "test_faulty.py": FAULTY.encode(),
        "test_nul.py": b"\0",
        "test_syntax.py": b"x = (",
    }
    make_tree(root, {f"{TESTS}/{name}": data for name, data in files.items()})
    (root / TESTS / "test_link.py").symlink_to("nowhere")
    started = time.monotonic()
    done = lint(root, "--format", "json")
    assert time.monotonic() - started < 20
    assert done.returncode == Exit.FINDINGS
    found = [(f["path"].rpartition("/")[2], f["rule"]) for f in json.loads(done.stdout)["findings"]]
    assert found == [
        ("test_big.py", "RT403"),
        ("test_deep.py", "RT401"),
        ("test_faulty.py", "RT105"),
        ("test_link.py", "RT403"),
        ("test_nul.py", "RT402"),
        ("test_syntax.py", "RT401"),
    ]


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file(root: Path) -> None:
    (root / FILE).chmod(0)
    done = lint(root, "--format", "concise")
    assert done.returncode == Exit.FINDINGS
    assert "RT403 Permission denied" in done.stdout


def test_paths_restrict_the_report_only(root: Path) -> None:
    other = f"{TESTS}/deep/test_x.py"
    make_tree(root, {FILE: FAULTY, other: FAULTY})
    here, below = [(FILE, "RT105"), (FILE, "RT307")], [(other, "RT105")]
    for path, wanted in ((FILE, here), (f"{TESTS}/deep", below), (".", below + here)):
        done = lint(root, path, "--format", "json")
        found = [(f["path"], f["rule"]) for f in json.loads(done.stdout)["findings"]]
        assert sorted(found) == sorted(wanted)


def test_a_broken_git_is_said_and_a_missing_one_walks(root: Path) -> None:
    assert lint(root, PATH=str(root)).returncode == Exit.OK
    (root / ".git").write_text("gitdir: nowhere\n")
    done = lint(root)
    assert done.returncode == Exit.USAGE
    assert "git ls-files failed" in done.stderr
    assert lint(root, PATH=str(root)).returncode == Exit.OK


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_parses(form: str, root: Path) -> None:
    make_tree(root, {FILE: FAULTY, f"{TESTS}/test_\u00e9.py": "x = ('\u2028', \n"})
    done = lint(root, "--format", form)
    assert (done.returncode, done.stderr) == (Exit.FINDINGS, "")
    if form in ("json", "sarif"):
        json.loads(done.stdout)
    elif form == "junit":
        ElementTree.fromstring(done.stdout)
    elif form == "github":
        lines = done.stdout.splitlines()
        assert [line.split(",")[0] for line in lines if line.startswith("::")] == [
            f"::error file={FILE}",
            f"::error file={TESTS}/test_\u00e9.py",
        ]
    assert "RT105" in done.stdout
    clean = make_tree(root.parent / "clean", {FILE: CLEAN})
    assert lint(clean, "--format", form).returncode == Exit.OK


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_output_that_lacks_characters(encoding: str, root: Path) -> None:
    make_tree(root, {f"{TESTS}/test_\u4e2d.py": "x = '\U0001f40d"})
    done = runci_process("lint", "--no-cache", cwd=root, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (Exit.FINDINGS, "")
    assert "\\u4e2d" in done.stdout


def test_fix_and_diff(root: Path) -> None:
    (root / FILE).write_text(CALL + TEST)
    done = lint(root, "--diff")
    assert done.returncode == Exit.FINDINGS
    assert "+from runci import register_cpu_ci\n" in done.stdout
    assert (root / FILE).read_text() == CALL + TEST
    assert lint(root, "--fix").returncode == Exit.OK
    assert (root / FILE).read_text() == IMPORT.rstrip("\n") + "\n" + CALL + TEST
    assert (lint(root, "--diff").returncode, lint(root, "--diff").stdout) == (Exit.OK, "")


@pytest.mark.parametrize("command", ["lint", "check", "whitespace", "audit"])
def test_quiet_statistics_and_exit_zero(root: Path, command: str) -> None:
    faulty = "on: push\njobs:\n  a:\n    runs-on: [self-hosted]\n    steps: [{run: make}] \n"
    files = {FILE: FAULTY.replace("1 + 1", "1 + 1 "), ".github/workflows/a.yml": faulty}
    make_tree(root, files)
    ours = {"lint": "RT105", "check": "RT105", "whitespace": "WS101", "audit": "WF109"}[command]

    def says(*arguments: str, code: Exit = Exit.FINDINGS) -> str:
        done = runci(command, *arguments, cwd=root)
        assert done.returncode == code, done.stderr
        assert "-q" not in arguments or done.stderr == ""
        return done.stdout

    whole, zero = (
        says("--format", "concise"),
        says("--format", "concise", "--exit-zero", code=Exit(0)),
    )
    assert ours in whole
    assert without_seconds(whole) == without_seconds(zero)
    quiet = says("-q", "--format", "concise").splitlines()
    assert quiet == whole.splitlines()[:-1]
    assert all(" " + ours[:2] in line or command == "check" for line in quiet)
    assert "finding" not in says("--quiet").splitlines()[-1]
    counted = json.loads(says("--statistics", "--format", "json"))
    assert [one["count"] for one in counted] == sorted((o["count"] for o in counted), reverse=True)
    every = json.loads(says("--format", "json"))["findings"]
    assert {(o["rule"], o["level"]): (o["count"], o["fixable"]) for o in counted} == {
        (rule, level): (len(same), sum(f["fixable"] for f in same))
        for rule, level in {(f["rule"], f["level"]) for f in every}
        if (same := [f for f in every if (f["rule"], f["level"]) == (rule, level)])
    }
    assert f"1  {ours}  " in says("--statistics")
    assert len(says("--statistics", "-q").splitlines()) == len(counted)
    assert says("--statistics", "--format", "sarif", code=Exit.USAGE) == ""


def test_quiet_says_nothing_where_nothing_is_wrong(root: Path) -> None:
    (root / FILE).write_text(FAULTY)
    assert lint(root, "--write-baseline", "-q").stdout == ""
    (root / FILE).write_text(CLEAN)
    assert "no longer found" in lint(root).stderr
    for form in ("text", "concise", "github"):
        done = lint(root, "-q", "--format", form)
        assert (done.returncode, done.stdout, done.stderr) == (Exit.OK, "", "")
    done = runci("lint", "--no-baseline", "--select", "NO", "--exit-zero", cwd=root)
    assert done.returncode == Exit.USAGE  # only findings are forgiven


def test_new_options_are_no_part_of_a_kept_answer(root: Path) -> None:
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    (root / FILE).write_text(FAULTY)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    time.sleep(2.2)  # what is younger is asked again
    for _ in range(2):
        assert runci("lint", cwd=root).returncode == Exit.FINDINGS
        assert runci("lint", "--exit-zero", cwd=root).returncode == Exit.OK
        assert "finding" not in runci("lint", "-q", cwd=root).stdout.splitlines()[-1]
        assert runci("lint", "--statistics", cwd=root).stdout.startswith("  1  RT105")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
