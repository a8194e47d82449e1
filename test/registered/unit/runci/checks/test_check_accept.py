"""Comments that accept, in every language and family; fixes leave alone what they accept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import git
from trees import CLEAN, TESTS, make_tree
from trees import runci as run

from runci import register_cpu_ci
from runci.checks.ws.rules import LIMIT
from runci.core.errors import Exit
from runci.read.comments import suppressions_of

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
WORKFLOW = ".github/workflows/w.yml"
SAFE = "on: push\njobs: {}\n"


def runci(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Without a cache, which would stand among the files whose whitespace is checked."""
    return run(*arguments, cwd=cwd, XDG_CACHE_HOME=os.devnull)


def found(root: Path, *arguments: str) -> list[str]:
    """Place and rule of each finding of a run."""
    lines = runci(*arguments, "--format", "concise", cwd=root).stdout.splitlines()
    return [" ".join((part[0], part[1], part[3].split()[0])) for line in lines[:-1]
            if (part := line.split(":"))]  # fmt: skip


# A line with trailing blanks after each comment, and whether it is accepted.
COMMENTS = [
    ("a.py", "x = 1  # runci: ignore[WS101] why \n", True),
    ("a.py", "# runci: ignore[WS101] why\nx = 1 \n", True),
    ("a.py", "s = '''\n# runci: ignore[WS101] why\nx \n'''\n", False),  # text, no comment
    ("a.yml", "a: 1  # runci: ignore[WS101] why \n", True),
    ("a.yml", "# runci: ignore[WS101] why\na: 1 \n", True),
    ("a.yml", "# runci: ignore[WS101] why\na: 1\nb: 2 \n", False),
    ("a.yml", "# runci: ignore[WS101] why\n# and more of it\na: 1 \n", True),
    ("a.yml", "b: 2\n# runci: ignore[WS101] why\n# runci: ignore[WS106] why\n \ta: 1 \n", True),
    ("a.sh", "#!/bin/sh\nls\n# runci: ignore[WS101] why\nls \n", True),
    ("a.sh", "# runci: ignore[WS101]\nls \n", False),
    ("a.sh", "# runci: ignore[WS101] .\nls \n", False),
    ("a.cu", "int x; // runci: ignore[WS101] why \n", True),
    ("a.cu", "int x; // # runci: ignore[WS101] why \n", True),
    ("a.cu", "int x; /* runci: ignore[WS101] why */ \n", True),
    ("a.cu", "int x; /* runci: ignore[WS101] */ \n", False),
    ("a.cu", 'char *s = "// runci: ignore[WS101] why"; \n', False),
    ("a.md", "<!-- runci: ignore[WS101] why -->\nfoo \n", True),
    ("a.md", "foo\n\n<!-- # runci: ignore[WS101] why -->\nfoo \n", True),
    ("a.md", "foo <!-- runci: ignore[WS101] why --> \n", True),
    ("a.md", "<!-- runci: ignore[WS101] -->\nfoo \n", False),
    ("a.md", "    # runci: ignore[WS101] why\n    foo \n", False),  # an example of one
    ("Makefile", "# runci: ignore[WS101] why\nall: \n", True),
]


@pytest.mark.parametrize(("path", "text", "accepted"), COMMENTS)
def test_whitespace_takes_comments(tmp_path: Path, path: str, text: str, accepted: bool) -> None:
    root = make_tree(tmp_path, {path: text})
    rules = [place.split()[-1] for place in found(root, "whitespace")]
    assert ("WS101" not in rules) == accepted
    assert not (accepted and "RT902" in rules)


@pytest.mark.parametrize("command", ["check", "whitespace"])
def test_where_a_file_has_no_comments_a_baseline_accepts(tmp_path: Path, command: str) -> None:
    root = make_tree(tmp_path, {"a.json": "{} \n", "a.py": CLEAN})
    assert found(root, command) == ["a.json 1 WS101"]
    runci("whitespace", "--write-baseline", cwd=root)
    assert found(root, command) == []


def test_comments_without_a_reason_count_for_nobody(tmp_path: Path) -> None:
    lines = "x = 1  # runci: ignore[WS101] \n"
    root = make_tree(tmp_path, {"a.py": lines, FILE: CLEAN + lines})
    end = CLEAN.count("\n") + 1
    for command in ("check", "whitespace"):
        assert found(root, command) == [
            "a.py 1 RT901",
            "a.py 1 WS101",
            f"{FILE} {end} RT901",
            f"{FILE} {end} WS101",
        ]
    assert found(root, "lint") == [f"{FILE} {end} RT901"]


def test_unused_comments_are_found_by_who_could_use_them(tmp_path: Path) -> None:
    both = "# runci: ignore[WS101] why\n"
    root = make_tree(
        tmp_path,
        {"a.py": both, "b.yml": both, WORKFLOW: f"{both}# runci: ignore[WF101] why\n{SAFE}"},
    )
    whitespace = ["a.py 1 RT902", "b.yml 1 RT902", f"{WORKFLOW} 1 RT902"]
    assert sorted(found(root, "whitespace")) == sorted(whitespace)
    assert found(root, "audit") == [f"{WORKFLOW} 2 RT902"]
    assert sorted(found(root, "check")) == sorted([*whitespace, f"{WORKFLOW} 2 RT902"])
    assert found(root, "lint") == []
    assert found(root, "check", "--ignore", "WS101") == [f"{WORKFLOW} 2 RT902"], "it did not run"


def test_half_a_comment_is_not_judged(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"a.py": "# runci: ignore[RT109, WS101] why\n", FILE: CLEAN})
    assert found(root, "check", "--ignore", "RT2") == [], "the lint did not read it"


def test_a_comment_in_a_workflow_names_a_rule(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {WORKFLOW: f"# runci: ignore why\n{SAFE}", FILE: CLEAN})
    for command in ("audit", "check"):
        assert found(root, command, "--ignore", "RT902")[:1] == [f"{WORKFLOW} 1 RT901"]


def test_a_test_file_is_asked_for_every_comment(tmp_path: Path) -> None:
    text = f"{CLEAN}\n# runci: ignore[WF101] why\n# runci: ignore[WS101] why\n"
    root = make_tree(tmp_path, {FILE: text, WORKFLOW: SAFE})
    assert found(root, "check", "--ignore", "RT2") == [
        f"{FILE} {text.count(chr(10)) - 1} RT902",
        f"{FILE} {text.count(chr(10))} RT902",
    ]
    assert found(root, "lint", "--ignore", "RT2") == []


def test_what_quotes_a_comment_of_another_family_is_left_alone(tmp_path: Path) -> None:
    quoted = "# runci: ignore[RT109]\n# runci: ignore[NO1] x\n# runci: ignore\n"
    root = make_tree(tmp_path, {"fixture.py": quoted, "a.yml": quoted, "a.md": quoted, FILE: CLEAN})
    for command in ("check", "whitespace"):
        assert found(root, command, "--ignore", "RT2") == []


def test_comments_of_a_file_that_cannot_be_decoded_are_the_same_for_all(tmp_path: Path) -> None:
    """Read line by line, since there are no tokens: this is where one accepts RT402 itself."""
    line = b'X = "\xe9"  # runci: ignore[%s] why \n'
    for accepted in (b"RT402, WS101", b"RT109"):
        root = make_tree(tmp_path / accepted.decode(), {FILE: CLEAN.encode() + line % accepted})
        for command, wanted in (("lint", "RT402"), ("check", "RT402"), ("whitespace", "WS101")):
            places = found(root, command, "--select", wanted)
            at = f"{FILE} {CLEAN.count(chr(10)) + 1} {wanted}"
            assert places == ([] if accepted != b"RT109" else [at]), command


def test_folder_rules_ignore_what_is_wrong_with_comments(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}x = 1  # runci: ignore[RT109]\n"})
    assert found(root, "lint")[0].endswith("RT901")
    with (root / "test/suites.yml").open("a") as stream:
        stream.write(f"folder_rules: [{{folder: {TESTS}/**, ignore: [RT9], because: x}}]\n")
    assert found(root, "lint") == []
    assert found(root, "check", "--ignore", "RT2") == []


@pytest.mark.parametrize("rule", ["WF999", "WS999", "RT999", "NO1"])
def test_an_unknown_rule_is_said(tmp_path: Path, rule: str) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}x = 1  # runci: ignore[{rule}] why\n"})
    assert [place.split()[-1] for place in found(root, "lint")] == ["RT901"]


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("a.yml", "# runci: ignore[WS104] why\na: 1\n", (1, 2)),  # of the whole file, too
        ("a.sh", "#!/bin/sh\n# runci: ignore[WS104] why\nls\n", (1, 3)),
        ("a.sh", "ls\n# runci: ignore[WS104] why\nls\n", (3, 3)),
        ("a.sh", "ls\nls  # runci: ignore[WS104] why", (2, 2)),
        ("a.md", "x\n<!-- runci: ignore[WS104] why -->", (2, 2)),
    ],
)
def test_lines_that_a_comment_speaks_for(path: str, text: str, wanted: tuple[int, int]) -> None:
    (item,) = suppressions_of(path, text.encode())
    assert (item.target, item.last, item.reason) == (*wanted, "why")


# Fixes -------------------------------------------------------------------------------------------

TWICE = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n'


def test_a_fix_leaves_what_a_comment_accepts(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"a.py": "x = 1  # runci: ignore[WS101] why \ny = 2 \n"})
    done = runci("whitespace", "--fix", cwd=root)
    assert (done.returncode, "1 fixed, 1 suppressed" in done.stdout) == (Exit.OK, True)
    assert (root / "a.py").read_text() == "x = 1  # runci: ignore[WS101] why \ny = 2\n"


def test_a_comment_counts_beyond_the_limit_of_a_report(tmp_path: Path) -> None:
    kept = "y = 1  # runci: ignore[WS101] why \n"
    root = make_tree(tmp_path, {"a.py": "x = 1 \n" * LIMIT + kept})
    assert {place.split()[-1] for place in found(root, "whitespace")} == {"WS101"}
    assert runci("whitespace", "--fix", cwd=root).returncode == Exit.OK
    assert (root / "a.py").read_text() == "x = 1\n" * LIMIT + kept


def test_a_fix_leaves_what_the_baseline_accepts(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"a.py": "x = 1 \n"})
    runci("whitespace", "--write-baseline", cwd=root)
    (root / "a.py").write_text("y = 2 \nx = 1 \n")
    assert runci("whitespace", "--fix", cwd=root).returncode == Exit.OK
    assert (root / "a.py").read_text() == "y = 2\nx = 1 \n"


def test_a_line_accepted_for_one_rule_is_mended_for_the_others(tmp_path: Path) -> None:
    text = "x = 1  # a\u00a0b\ny = 1  # c\u00a0d runci: ignore[WS110] x \n"
    text = text.replace("c\u00a0d runci", "c\u00a0d # runci")
    root = make_tree(
        tmp_path, {"a.py": text, "b.py": "x = 1\r\ny = 1  # runci: ignore[WS101] x \r\n"}
    )
    done = runci("whitespace", "--fix", cwd=root)
    assert done.returncode == Exit.OK, done.stdout
    assert (root / "a.py").read_text() == text.replace("a\u00a0b", "a b").replace("x \n", "x\n")
    assert (root / "b.py").read_bytes() == b"x = 1\ny = 1  # runci: ignore[WS101] x \n"


# A fault of the lint whose fix moves lines, above faults of whitespace.
MOVED = (CLEAN.replace(TWICE, 2 * TWICE) + "x = 1 \ny = 2  # runci: ignore[WS101] why \n").replace(
    "\n", "\r\n"
)
MENDED = CLEAN + "x = 1\ny = 2  # runci: ignore[WS101] why \n"


def test_fixes_of_two_families_meet_in_one_file(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: MOVED})
    diff = runci("check", "--diff", cwd=root)
    assert diff.returncode == Exit.FINDINGS
    assert diff.stdout.count("--- ") == 1, "one file, one diff"
    assert (root / FILE).read_bytes() == MOVED.encode(), "shown, not done"
    done = runci("check", "--fix", "--ignore", "RT2", cwd=root)
    assert (done.returncode, "3 fixed, 1 suppressed" in done.stdout) == (Exit.OK, True), done.stdout
    assert (root / FILE).read_bytes() == MENDED.encode()
    again = runci("check", "--diff", cwd=root)
    assert (again.returncode, again.stdout) == (Exit.OK, "")


def test_what_a_fix_of_the_lint_leaves_is_mended_too(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}\n\n{TWICE}"})
    assert runci("check", "--fix", "--ignore", "RT2", cwd=root).returncode == Exit.OK
    assert (root / FILE).read_text() == CLEAN


def test_only_added_lines_are_mended_where_lines_move(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}old = 1 \n"})
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    (root / FILE).write_text(CLEAN.replace(TWICE, 2 * TWICE) + "old = 1 \nnew = 2 \n")
    done = runci("check", "--fix", "--diff-base", "HEAD", "--ignore", "RT2", cwd=root)
    assert done.returncode == Exit.OK, done.stdout
    assert (root / FILE).read_text() == f"{CLEAN}old = 1 \nnew = 2\n"


def test_a_line_that_another_fix_changed_is_still_added(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: CLEAN})
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    alias = "import register_cpu_ci as r\n\nr"
    text = CLEAN.replace("import register_cpu_ci\n\nregister_cpu_ci", alias).replace(
        ")\n\n", ") \n\n"
    )
    (root / FILE).write_text(text)
    done = runci("check", "--fix", "--diff-base", "HEAD", "--ignore", "RT2", cwd=root)
    assert done.returncode == Exit.OK, done.stdout
    assert (root / FILE).read_text() == CLEAN


@pytest.mark.parametrize("folder", ["", "tree"])
def test_links_are_mended_where_they_lead(tmp_path: Path, folder: str) -> None:
    root = make_tree(tmp_path / folder, {})
    make_tree(tmp_path, {"real.py": CLEAN.replace(TWICE, 2 * TWICE) + "x = 1 \n"})
    for name in ("test_a.py",) if folder else ("test_a.py", "test_b.py"):
        (root / TESTS / name).symlink_to(tmp_path / "real.py")
    done = runci("check", "--fix", "--ignore", "RT2", cwd=root)
    assert (done.returncode, done.stderr.count("not mended")) == (Exit.OK, 0)
    assert (tmp_path / "real.py").read_text() == f"{CLEAN}x = 1{' ' if folder else ''}\n"
    assert (root / TESTS / "test_a.py").is_symlink()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
