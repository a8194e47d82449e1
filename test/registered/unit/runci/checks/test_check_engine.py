"""The engine behind check, lint, audit and whitespace: what is chosen, counted and accepted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import ROOT
from planning import git
from trees import CLEAN, FAULTY, TESTS, make_tree
from trees import runci as run
from trees import runci_process

from runci import register_cpu_ci
from runci.core.errors import Exit

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
WORKFLOW = ".github/workflows/w.yml"
# pull_request_target with the code of the pull request: WF findings without any suite.
UNSAFE = """\
on: pull_request_target
jobs:
  a:
    runs-on: [self-hosted, gpu]
    steps:
      - run: make
"""
COMMANDS = ("lint", "audit", "whitespace", "check")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with one finding of each family, at least."""
    return make_tree(tmp_path, {FILE: FAULTY, WORKFLOW: UNSAFE, "a.py": b"x = 1 \n"})


def runci(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Without a cache, which would stand among the files whose whitespace is checked."""
    return run(*arguments, cwd=cwd, XDG_CACHE_HOME=os.devnull)


def report(root: Path, *arguments: str, code: int | None = None) -> dict:
    done = runci(*arguments, "--format", "json", cwd=root)
    assert code in (None, done.returncode), done.stderr
    return json.loads(done.stdout)


def rules(root: Path, *arguments: str) -> list[str]:
    return [finding["rule"] for finding in report(root, *arguments)["findings"]]


def families(root: Path, *arguments: str) -> set[str]:
    return {rule[:2] for rule in rules(root, *arguments)}


def test_check_finds_what_the_three_find(root: Path) -> None:
    apart = [rule for command in COMMANDS[:3] for rule in rules(root, command)]
    assert sorted(rules(root, "check")) == sorted(apart)
    assert {rule[:2] for rule in apart} == {"RT", "WF", "WS"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["text", "concise", "github", "json", "sarif", "junit"])
def test_every_command_has_every_format(root: Path, command: str, form: str) -> None:
    done = runci(command, "--format", form, cwd=root)
    assert done.returncode == Exit.FINDINGS
    wanted = {"lint": "RT105", "audit": "WF1", "whitespace": "WS101", "check": "WS101"}[command]
    assert wanted in done.stdout
    assert (form == "sarif" and "yaml" in done.stdout) == (
        form == "sarif" and command in ("audit", "check")
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_no_rule_left_is_wrong_use(root: Path, command: str) -> None:
    family = {"lint": "RT1", "audit": "WF1", "whitespace": "WS1", "check": "RT1"}[command]
    done = runci(command, "--select", family, "--ignore", family, cwd=root)
    assert done.returncode == Exit.USAGE
    assert family in done.stderr


@pytest.mark.parametrize(
    ("command", "rule"),
    [("lint", "WS101"), ("lint", "WF"), ("audit", "RT1"), ("whitespace", "WF101")],
)
@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_rules_of_another_family_are_refused(
    root: Path, command: str, rule: str, option: str
) -> None:
    done = runci(command, option, rule, cwd=root)
    assert done.returncode == Exit.USAGE
    assert rule in done.stderr
    assert "runci check" in done.stderr, "where they are"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_rules_about_comments_belong_to_every_command(root: Path, command: str) -> None:
    assert runci(command, "--ignore", "RT901", cwd=root).returncode == Exit.FINDINGS
    assert runci(command, "--select", "RT901", cwd=root).returncode == Exit.OK


def test_what_no_rule_asks_for_is_not_read(root: Path) -> None:
    (root / "test/suites.yml").unlink()
    assert rules(root, "check", "--select", "WS1") == ["WS101"]
    assert families(root, "check", "--select", "WS,WF") == {"WS", "WF"}
    assert runci("check", cwd=root).returncode == Exit.USAGE, "no suites.yml"


def test_comments_alone_are_asked_of_every_family(root: Path) -> None:
    (root / "a.py").write_text("x = 1  # runci: ignore[WS101]\n")
    (root / WORKFLOW).write_text(f"# runci: ignore[WF101]\n{UNSAFE}")
    assert rules(root, "check", "--select", "RT901") == ["RT901", "RT901"]


@pytest.mark.parametrize(
    ("path", "family", "files"), [(FILE, "RT", 1), (WORKFLOW, "WF", 1), ("a.py", "WS", 1)]
)
def test_a_path_of_one_family_is_enough(root: Path, path: str, family: str, files: int) -> None:
    found = report(root, "check", path)
    assert {finding["rule"][:2] for finding in found["findings"]} == {family}
    assert found["summary"]["files"] == files


def test_audit_takes_paths(root: Path) -> None:
    (root / ".github/workflows/safe.yml").write_text("on: push\njobs: {}\n")
    assert rules(root, "audit", ".github/workflows/safe.yml") == []
    assert report(root, "audit", ".github/workflows/safe.yml")["summary"]["files"] == 1
    assert runci("audit", "a.py", cwd=root).returncode == Exit.NOTHING


def test_files_are_counted_once(root: Path) -> None:
    apart = {name: report(root, name)["summary"]["files"] for name in COMMANDS}
    assert apart == {"lint": 1, "audit": 1, "whitespace": 4, "check": 4}
    (root / "test/registered/helper.py").write_text("x = 1\n")
    assert report(root, "lint")["summary"]["files"] == 1, "it is no test"
    done = runci("lint", "test/registered/helper.py", cwd=root)
    assert (done.returncode, "nothing was checked" in done.stdout) == (Exit.NOTHING, True)


@pytest.mark.parametrize(("path", "code"), [("none", 2), ("..", 2), ("empty", 3)])
@pytest.mark.parametrize("command", COMMANDS)
def test_paths_without_a_file(root: Path, command: str, path: str, code: int) -> None:
    (root / "empty").mkdir()
    done = runci(command, path, cwd=root)
    assert done.returncode == code
    assert path in done.stderr


def test_a_tree_without_workflows_says_so(root: Path) -> None:
    (root / WORKFLOW).unlink()
    done = runci("check", cwd=root)
    assert done.returncode == Exit.FINDINGS
    assert ".github/workflows" in done.stderr
    assert runci("audit", cwd=root).returncode == Exit.NOTHING


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_stand_in_one_order(command: str) -> None:
    done = runci(command, "--help", cwd=ROOT)
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  -")]
    order = "--root --config --select --ignore --diff-base --baseline --no-baseline --fix --format"
    assert [o for o in order.split() if o in shown] == [o for o in shown if o in order.split()]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_lint_imports_no_other_family(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: CLEAN})
    code = (
        "import sys; from runci.cli import main; main(['lint']);"
        "print([m for m in sys.modules if m.startswith(('runci.checks.wf', 'runci.checks.ws'))])"
    )
    done = runci_process("lint", cwd=root)  # what is cached, too
    assert done.returncode == Exit.OK
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "first", "last", "count"),
    [
        (("wf101",), "WF101", "WF101", 1),
        (("WS",), "WS100", "WS113", 14),
        (("RT9", "RT901"), "RT901", "RT902", 2),
        (("WS101", "RT104"), "WS101", "RT104", 2),
    ],
)
def test_rules_are_named_as_they_are_selected(
    words: tuple[str, ...], first: str, last: str, count: int
) -> None:
    done = runci("rule", *words, cwd=ROOT)
    heads = re.findall(r"^([A-Z]{2}\d{3})  \S+$", done.stdout, re.MULTILINE)
    assert (heads[0], heads[-1], len(heads)) == (first, last, count)
    for wrong in ("WS999", "", "X"):
        assert runci("rule", wrong, cwd=ROOT).returncode == Exit.USAGE


# Baselines ---------------------------------------------------------------------------------------


def entries(root: Path) -> set[str]:
    listed = json.loads((root / "runci-baseline.json").read_bytes())["findings"]
    return {entry["rule"][:2] for entry in listed}


def test_one_baseline_serves_all(root: Path) -> None:
    assert runci("check", "--write-baseline", cwd=root).returncode == Exit.OK
    assert entries(root) == {"RT", "WF", "WS"}
    for command in COMMANDS:
        done = runci(command, cwd=root)
        assert (done.returncode, done.stderr) == (Exit.OK, ""), command
        assert runci(command, "--no-baseline", cwd=root).returncode == Exit.FINDINGS


@pytest.mark.parametrize("command", COMMANDS[:3])
def test_each_family_renews_its_own_entries(root: Path, command: str) -> None:
    runci("check", "--write-baseline", cwd=root)
    before = (root / "runci-baseline.json").read_bytes()
    assert runci(command, "--write-baseline", cwd=root).returncode == Exit.OK
    assert (root / "runci-baseline.json").read_bytes() == before


def test_gone_is_counted_for_what_ran(root: Path) -> None:
    runci("check", "--write-baseline", cwd=root)
    (root / "a.py").write_text("x = 1\n")
    assert "1 finding" in runci("whitespace", cwd=root).stderr
    assert "1 finding" in runci("check", cwd=root).stderr
    assert runci("lint", cwd=root).stderr == ""
    assert runci("audit", cwd=root).stderr == ""


def test_what_the_lint_says_of_comments_stays_listed(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}x = 1  # runci: ignore[RT109]\n", "a.py": "x = 1\n"})
    assert rules(root, "lint") == ["RT901"]
    runci("lint", "--write-baseline", cwd=root)
    assert runci("whitespace", cwd=root).stderr == "", "it looked at no such comment"
    runci("whitespace", "--write-baseline", cwd=root)
    assert runci("lint", cwd=root).returncode == Exit.OK


def test_what_two_commands_find_is_listed_once(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: f"{CLEAN}x = 1  # runci: ignore[WS101]\n"})
    for command in ("lint", "whitespace", "whitespace"):
        runci(command, "--select", "RT901", "--write-baseline", cwd=root)
        (entry,) = json.loads((root / "runci-baseline.json").read_bytes())["findings"]
        assert (entry["rule"], entry["count"]) == ("RT901", 1)


def test_added_lines_alone_say_nothing_of_old_ones(tmp_path: Path) -> None:
    lines = "x = 1  # runci: ignore[WS101] wanted \n"
    root = make_tree(tmp_path, {FILE: CLEAN + lines, "a.py": f"{lines}y = 2 \n"})
    git(root, "init", "-q")
    assert runci("check", "--write-baseline", cwd=root).returncode == Exit.OK
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    for command in ("check", "whitespace"):
        done = runci(command, "--diff-base", "HEAD", cwd=root)
        assert done.returncode == Exit.OK, done.stdout
        assert "no longer found" not in done.stderr


@pytest.mark.parametrize("command", (*COMMANDS, "plan"))
def test_a_broken_baseline_is_never_passed_over(root: Path, command: str) -> None:
    arguments = (command, "--all") if command == "plan" else (command,)
    baseline = root / "runci-baseline.json"
    baseline.write_text("kept")
    assert runci(*arguments, cwd=root).returncode == Exit.USAGE
    assert str(baseline) in runci(*arguments, cwd=root).stderr
    assert "delete it" in runci(*arguments, cwd=root).stderr, "--write-baseline reads it first"
    baseline.unlink()
    baseline.mkdir()
    assert runci(*arguments, cwd=root).returncode == Exit.USAGE
    baseline.rmdir()
    baseline.symlink_to("nowhere")
    assert runci(*arguments, cwd=root).returncode == Exit.USAGE
    assert runci(*arguments, "--no-baseline", cwd=root).returncode != Exit.USAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_a_baseline_of_no_name_is_refused(root: Path, command: str) -> None:
    assert runci(command, "--baseline", "", cwd=root).returncode == Exit.USAGE
    assert runci(command, "--baseline", "b", "--no-baseline", cwd=root).returncode == Exit.USAGE


def test_a_baseline_is_named_from_where_one_stands(root: Path) -> None:
    (root / "sub").mkdir()
    done = runci("check", "--baseline", "b.json", "--write-baseline", cwd=root / "sub")
    assert (done.returncode, (root / "sub/b.json").is_file()) == (Exit.OK, True)
    assert runci("check", "--baseline", "b.json", cwd=root / "sub").returncode == Exit.OK
    assert runci("check", "--baseline", "sub/b.json", cwd=root).returncode == Exit.OK


@pytest.mark.parametrize(
    ("arguments", "folder", "shown"),
    [
        ((), "", "runci-baseline.json"),
        (("--root", "{root}"), "", "runci-baseline.json"),
        (("--root", "{root}"), "..", "{name}/runci-baseline.json"),
        (("--baseline", "{root}/sub/b.json"), "", "sub/b.json"),
        (("--baseline", "{root}/b.json"), "sub", "{root}/b.json"),
    ],
)
def test_where_a_baseline_was_written(
    root: Path, arguments: tuple[str, ...], folder: str, shown: str
) -> None:
    (root / "sub").mkdir()
    given = [word.format(root=root) for word in arguments]
    done = runci("check", *given, "--write-baseline", cwd=root / folder)
    assert done.stdout.partition(": ")[0] == shown.format(root=root, name=root.name), done.stderr


@pytest.mark.parametrize("option", [("--diff-base", "HEAD"), ("--fix",), ("--diff",), ("a.py",)])
def test_a_part_is_never_written_over_the_whole(root: Path, option: tuple[str, ...]) -> None:
    done = runci("check", "--write-baseline", *option, cwd=root)
    assert done.returncode == Exit.USAGE
    assert not (root / "runci-baseline.json").exists()


def test_a_message_that_names_a_line_may_move(tmp_path: Path) -> None:
    call = 'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n'
    main = 'if __name__ == "__main__":\n    unittest.main()\n'
    case = "class TestA(unittest.TestCase):\n    def test_a(self): ...\n"
    text = f"import unittest\nfrom runci import register_cuda_ci\n\n{call}{main}\n\n{case}"
    root = make_tree(tmp_path, {FILE: text})
    done = runci("lint", "--select", "RT3", cwd=root)
    assert "RT302" in done.stdout
    assert "(line " in done.stdout
    runci("lint", "--write-baseline", cwd=root)
    (root / FILE).write_text(f"# above\n{text}")
    done = runci("lint", cwd=root)
    assert (done.returncode, done.stderr) == (Exit.OK, "")


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        (b"x = 1\r\ny = 2\r\n", b"x = 1\r\ny = 2\r\nz = 3\r\n", False),
        (b"x = 1\r\ny = 2\n", b"w = 0\nx = 1\r\ny = 2\nz = 3\r\n", False),
        (b"x = 1\n\n", b"x = 1\n\n\n", False),
        (b"x = 1\r\n", b"x = 1\r\ny = 1\rz = 2\r\n", True),  # a lone CR beside it
        (b"x = 1 \n", b"y = 0\nx = 1 \n", False),
        (b"x = 1 \n", b"x = 1 \nx = 1 \n", True),
        (b"x = 1 \n", b"x = 2 \n", True),
        (b" \n" * 1010 + b"x\n", b" \n" * 1010 + b"x\n", False),
        (b" \n" * 1010 + b"x\n", b" \n" * 1020 + b"x\n", True),  # beyond what is listed one by one
    ],
)
def test_what_a_baseline_accepts_of_whitespace(
    tmp_path: Path, before: bytes, after: bytes, new: bool
) -> None:
    root = make_tree(tmp_path, {"a.py": before})
    runci("whitespace", "--write-baseline", cwd=root)
    assert runci("whitespace", cwd=root).returncode == Exit.OK
    (root / "a.py").write_bytes(after)
    assert runci("whitespace", cwd=root).returncode == (Exit.FINDINGS if new else Exit.OK)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
