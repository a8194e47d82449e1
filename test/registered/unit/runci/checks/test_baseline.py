"""A baseline lists today's findings; only new ones are reported, wherever lines move."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, IMPORT, TEST, TESTS, make_tree, runci

from runci import register_cpu_ci
from runci.checks import baseline
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding, Level
from runci.core.source import at

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"


def finding(path: str, line: int, key: str = "k", rule: str = "RT109", **more) -> Finding:
    return Finding(path, at(line), rule, "message", key=key, **more)


def round_trip(path: Path, *findings: Finding):
    baseline.write(path, findings, frozenset())
    return baseline.read(path)


def test_findings_may_move_but_not_multiply(tmp_path: Path) -> None:
    known = round_trip(tmp_path / "b", finding("a", 1), finding("a", 5, "other"))
    moved = [finding("a", 30), finding("a", 7, "other")]
    assert baseline.compare(moved, known) == baseline.Compared((), tuple(moved), 0)
    twice = [finding("a", 1), finding("a", 9)]
    assert baseline.compare(twice, known) == baseline.Compared((twice[1],), (twice[0],), 1)


@pytest.mark.parametrize(
    "new", [finding("b", 1), finding("a", 1, "new"), finding("a", 1, rule="RT501")]
)
def test_another_path_key_or_rule_is_new(new: Finding, tmp_path: Path) -> None:
    known = round_trip(tmp_path / "b", finding("a", 1))
    assert baseline.compare([new], known) == baseline.Compared((new,), (), 1)


def test_without_a_key_the_message_tells_findings_apart(tmp_path: Path) -> None:
    known = round_trip(tmp_path / "b", finding("a", 1, ""))
    assert baseline.compare([finding("a", 2, "")], known).new == ()


def test_comparing_leaves_the_baseline_as_it_was(tmp_path: Path) -> None:
    known = round_trip(tmp_path / "b", finding("a", 1))
    assert baseline.compare([finding("a", 1)], known).known == (finding("a", 1),)
    assert baseline.compare([finding("a", 1)], known).known == (finding("a", 1),)


def test_writes_findings_sorted_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    odd = "caf\u00e9 \udcff"
    found = [finding("b", 2), finding("b", 1), finding(odd, 1)]
    assert baseline.write(path, found, frozenset()) == 3
    assert json.loads(path.read_bytes()) == {
        "version": 1,
        "findings": [
            {"path": "b", "rule": "RT109", "key": "k", "count": 2},
            {"path": odd, "rule": "RT109", "key": "k", "count": 1},
        ],
    }
    assert baseline.compare([finding(odd, 1)], baseline.read(path)).new == ()


def test_a_note_is_known_as_a_note_and_new_as_an_error(tmp_path: Path) -> None:
    note, error = finding("a", 1, level=Level.NOTE), finding("a", 1)
    known = round_trip(tmp_path / "b", note)
    assert baseline.compare([note], known) == baseline.Compared((), (note,), 0)
    assert baseline.compare([error], known) == baseline.Compared((error,), (), 1)
    assert baseline.compare([note], round_trip(tmp_path / "c", error)).new == (note,)


ENTRY = '{"path": "a", "rule": "RT109", "key": "k", "count": %s}'


def test_equal_entries_add_up(tmp_path: Path) -> None:
    """As a merge of two branches leaves them, and the ones that differ only in a line's number."""
    entries = [ENTRY % 1, ENTRY % 2, ENTRY % 1]
    lines = [ENTRY.replace('"k"', f'"first on line {n}"') % 1 for n in (3, 40)]
    path = tmp_path / "baseline.json"
    path.write_text('{"version": 1, "findings": [' + ", ".join([*entries, *lines]) + "]}")
    known = baseline.read(path)
    assert sorted(known.values()) == [2, 4]
    compared = baseline.compare([finding("a", n) for n in range(1, 6)], known)
    assert (len(compared.known), len(compared.new)) == (4, 1)


BROKEN = [
    "",
    "{}",
    "[]",
    "7",
    "null",
    '"version"',
    "{",
    "\ufeff{}",
    "[" * 100_000,
    '{"version": 1}',
    '{"version": 1, "findings": 7}',
    '{"version": 1, "findings": [7]}',
    '{"version": 1, "findings": [{}]}',
    '{"version": 1, "findings": {"a": 1}}',
    '{"version": 1, "findings": [{"path": [], "rule": "R", "key": "k", "count": 1}]}',
    '{"version": 1, "findings": [{"path": 1, "rule": "R", "key": "k", "count": 1}]}',
    *(
        '{"version": 1, "findings": [' + ENTRY % count + "]}"
        for count in ("Infinity", "NaN", '"x"', "null", "-1", "1.5", "true", "9" * 5000)
    ),
]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[-40:])
def test_says_what_is_no_baseline(text: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(text.encode())
    with pytest.raises(RunciError, match="not a baseline") as caught:
        baseline.read(path)
    assert str(path) in str(caught.value)
    assert caught.value.code is Exit.USAGE


def test_says_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'{"version": 1, "findings": [], "x": "\xe9"}')
    (tmp_path / "two").write_text('{"version": 2, "findings": []}')
    for name, words in (
        ("none", "no such baseline"),
        (".", "cannot read"),
        ("latin", "not a baseline"),
        ("two", "version 2"),
    ):
        with pytest.raises(RunciError, match=words):
            baseline.read(tmp_path / name)
    with pytest.raises(RunciError, match="cannot write"):
        baseline.write(tmp_path / "no" / "folder", [], frozenset())


def test_adopting_the_lint(tmp_path: Path) -> None:
    call = 'register_cpu_ci(est_time=5, suite="by-hand", disabled="%s")\n'
    files = {FILE: IMPORT + call % "flaky" + TEST, f"{TESTS}/test_y.py": CLEAN}
    root = make_tree(tmp_path, files)
    assert runci("lint", "--no-cache", cwd=root).returncode == Exit.FINDINGS
    done = runci("lint", "--no-cache", "--write-baseline", "--baseline", "b.json", cwd=root)
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert runci("lint", "--no-cache", "--baseline", "b.json", cwd=root).returncode == Exit.OK
    (root / FILE).write_text("\n\n" + files[FILE] + "\n" + call.replace("by-hand", "x") % "new")
    done = runci("lint", "--no-cache", "--baseline", "b.json", "--format", "concise", cwd=root)
    assert done.returncode == Exit.FINDINGS
    rules = [line.split(": ")[1].split()[0] for line in done.stdout.splitlines()[:-1]]
    assert sorted(rules) == ["RT109", "RT201"], "the old finding moved, the call below it is new"
    (root / FILE).write_text(CLEAN)
    done = runci("lint", "--no-cache", "--baseline", "b.json", cwd=root)
    assert done.returncode == Exit.OK
    assert "1 finding no longer" in done.stderr
    done = runci("lint", "--no-cache", "--baseline", "b.json", "--select", "RT3", cwd=root)
    assert done.stderr == "", "RT109 was not looked for"
    done = runci("lint", "--no-cache", "--baseline", "b.json", f"{TESTS}/test_y.py", cwd=root)
    assert (done.returncode, done.stderr) == (Exit.OK, ""), "nor elsewhere"


def test_the_baseline_at_the_root_is_read_unless_it_is_not_wanted(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: CLEAN.replace("est_time=5", "est_time=0")})
    assert runci("lint", cwd=root).returncode == Exit.FINDINGS
    assert runci("lint", "--write-baseline", cwd=root).returncode == Exit.OK
    assert (root / "runci-baseline.json").is_file()
    assert runci("lint", cwd=root).returncode == Exit.OK
    assert runci("lint", "--no-baseline", cwd=root).returncode == Exit.FINDINGS


def test_writing_keeps_what_other_rules_had(tmp_path: Path) -> None:
    path = tmp_path / "b"
    other = Finding("a", at(1), "WF101", "x")
    baseline.write(path, [other, finding("a", 1)], frozenset(["WF101", finding("a", 1).rule]))
    baseline.write(path, [], frozenset([finding("a", 1).rule]))
    assert baseline.compare([other, finding("a", 1)], baseline.read(path)).known == (other,)


@pytest.mark.parametrize("argument", [FILE, "--fix", "--diff"])
def test_a_part_is_never_written_over_the_whole(tmp_path: Path, argument: str) -> None:
    root = make_tree(tmp_path, {FILE: CLEAN})
    (root / "b.json").write_text("kept")
    done = runci("lint", "--baseline", "b.json", "--write-baseline", argument, cwd=root)
    assert done.returncode == Exit.USAGE
    assert "the whole tree" in done.stderr
    assert (root / "b.json").read_text() == "kept"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
