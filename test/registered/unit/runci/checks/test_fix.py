"""--fix: exact edits, the same bytes elsewhere, nothing left to mend, and files replaced whole."""

from __future__ import annotations

import dataclasses
import io
import os
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import FIXTURES
from trees import (
    CALL,
    CLEAN,
    IMPORT,
    TEST,
    TESTS,
    fixtures,
    make_tree,
    mend,
    name_of,
    place,
    run,
    runci,
    skip_where_links_are_files,
)

from runci import register_cpu_ci
from runci.checks import fix
from runci.checks.registry import rules
from runci.checks.rule import Tree
from runci.core.finding import Finding
from runci.core.source import Edit, Span, apply_edits, at
from runci.read.testfile import TestFile as Parsed

register_cpu_ci(est_time=9, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))

FILE = f"{TESTS}/test_x.py"
CUDA = 'from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=5, suite="old-style")\n'
UNITTEST = "\n\nclass TestX(unittest.TestCase):\n    def test_x(self):\n        self.fail()\n"


def comments(data: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return Counter(t.string for t in tokens if t.type == tokenize.COMMENT and "expect:" in t.string)


@pytest.mark.parametrize("fixture", fixtures("positive"), ids=name_of)
def test_fixtures_are_mended(fixture: Path, tmp_path: Path) -> None:
    skip_where_links_are_files(fixture)
    root = place(fixture, tmp_path / "tree")
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    first = run(root).findings
    fixable = [f for f in first if f.fixable]
    assert mend(root) >= bool(fixable)
    after = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    second = run(root).findings
    assert [f for f in second if f.fixable] == []
    assert Counter(f.rule for f in second) <= Counter(f.rule for f in first)
    touched = {root / f.path for f in fixable}
    assert {p for p in before if after[p] != before[p]} == touched
    for path in touched:
        compile(after[path], path, "exec")
        assert comments(after[path]) == comments(before[path])
        ends = [
            data.count(b"\r\n") == data.count(b"\n") > 0 for data in (before[path], after[path])
        ]
        assert ends[0] == ends[1], "an inserted line ends as the others do"
    assert mend(root) == 0
    assert after == {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}


# Fixtures of rules with a fix in which a person has to decide.
UNFIXABLE = {
    "RT103/positive/test_foreign_module.py",
    "RT103/positive/test_foreign_star.py",
    "RT103/positive/test_rebound.py",
    "RT103/positive/test_unknown_backend.py",
    "RT103/positive/test_value.py",
    "RT108/positive/test_three_times.py",  # as suite=, and with other values
    "RT301/positive/test_no_tests_either.py",
    "RT301/positive/test_runs_nothing.py",
    "RT302/positive/test_two_blocks.py",
    "RT302/positive/test_binds_a_name.py",  # what stands below may read it
    "RT304/positive/test_code_unused.py",
    "RT304/positive/test_exit_swallowed.py",
    "RT304/positive/test_in_a_function.py",
    "RT304/positive/test_loop.py",
    "RT304/positive/test_returned_and_dropped.py",
    "RT304/positive/test_suppressed.py",
    "RT402/positive/test_bom_contradicts.py",
    "RT402/positive/test_not_for_text.py",
    "RT402/positive/test_nul.py",
    "RT402/positive/test_undeclared_latin1.py",
    "RT402/positive/test_unknown_encoding.py",
    "RT402/positive/test_utf16.py",
    "RT402/positive/test_wrong_ascii.py",
    "RT302/positive/test_with_else.py",  # what else defines may be needed where it stands
}


# Nothing follows, repeats or catches the call in these.
ENDED = {"test_dropped", "test_dropped_with_sys", "test_text_runner", "test_unittest_kept_open"}


@pytest.mark.parametrize(
    "fixture",
    sorted(p for p in (FIXTURES / "RT304" / "positive").iterdir() if p.stem not in ENDED),
    ids=name_of,
)
def test_a_dropped_result_stays_as_it_is(fixture: Path, tmp_path: Path) -> None:
    """What wraps the first call of a loop ends it, and what a `with` catches has no effect."""
    root = place(fixture, tmp_path / "tree")
    before = (root / TESTS / fixture.name).read_bytes()
    ended = runci("lint", "--fix", "--format", "concise", cwd=root)
    assert (root / TESTS / fixture.name).read_bytes() == before
    assert ended.returncode == 1
    assert "RT304" in ended.stdout


def test_says_which_findings_it_mends(tmp_path: Path) -> None:
    unfixable = set()
    for place_, fixture in enumerate(fixtures("positive")):
        rule = fixture.parts[-3]
        found = [f for f in run(place(fixture, tmp_path / str(place_))).findings if f.rule == rule]
        if ALL[rule].fixable and not any(f.fixable for f in found):
            unfixable.add(name_of(fixture))
    assert unfixable == UNFIXABLE


def test_only_equal_registrations_are_duplicates_to_delete(tmp_path: Path) -> None:
    other = CALL.replace("est_time=5", "est_time=6")
    root = make_tree(tmp_path, {FILE: IMPORT + CALL + other + CALL + TEST})
    assert mend(root) == 1
    assert (root / FILE).read_text() == IMPORT + CALL + other + TEST


@pytest.mark.parametrize(
    "text",
    [
        "if True:\n    from runci import register_cpu_ci as r\nr(est_time=5, suite='by-hand')\n"
        + TEST,
        IMPORT + "register_cpu_ci(5, ('base-a-test-cpu'))\n" + TEST,
        "@staticmethod\n" + TEST.strip() + "\n\n" + CALL,  # no place for an import above it
        "\ufeff# coding: latin-1\n" + CLEAN,  # without the mark it would read otherwise
        "\ufeff" + IMPORT + "x = (\n",
        "import unittest\n" + CUDA + "if __name__ == '__main__':\n    unittest.main()\n"
        "    x = '''\n    # a\n'''" + UNITTEST,
    ],
)
def test_what_cannot_be_mended_stays_whole(text: str, tmp_path: Path) -> None:
    """Whatever is written parses, and has as many tests and calls as before."""
    root = make_tree(tmp_path, {FILE: text, f"{TESTS}/test_good.py": CLEAN})
    tests = text.count("def test_")
    mend(root)
    after = (root / FILE).read_text(encoding="utf-8")
    assert after.count("def test_") == tests
    assert mend(root) == 0
    if after != text and "x = (" not in text:
        compile(after, "x", "exec")


def test_an_encoding_stays() -> None:
    data = ("# coding: latin-1\n" + CALL + "NAME = 'é'\n" + TEST).encode("latin-1")
    tree = run_one()
    fixed = fix.fix_bytes(FILE, data, frozenset(["RT103"]), tree)
    expected = (
        "# coding: latin-1\nfrom runci import register_cpu_ci\n" + CALL + "NAME = 'é'\n" + TEST
    )
    assert fixed.after == expected.encode("latin-1")
    assert fixed.count == 1


def run_one(root: Path | None = None):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return run(make_tree(Path(folder), {FILE: CLEAN})).found["RT"].tree


def test_a_bom_stays_where_its_rule_is_off() -> None:
    data = b"\xef\xbb\xbf" + (CALL + TEST).encode()
    fixed = fix.fix_bytes(FILE, data, frozenset(["RT103"]), run_one())
    assert fixed.after == b"\xef\xbb\xbf" + (IMPORT.rstrip("\n") + "\n" + CALL + TEST).encode()


def test_a_suppressed_finding_is_not_mended() -> None:
    line = "reg(est_time=5, suite='by-hand')  # runci: ignore[RT103] as generated\n"
    data = ("from runci import register_cpu_ci as reg\n" + line + TEST).encode()
    assert fix.fix_bytes(FILE, data, frozenset(["RT103"]), run_one()).after == data


ALIAS = "from runci import register_cpu_ci as reg\n\nreg(est_time=5, suite='by-hand')\n"


def test_counts_what_it_mends(tmp_path: Path) -> None:
    root = make_tree(
        tmp_path, {FILE: ALIAS + CALL + CALL + "reg(est_time=5, suite='weekly-cpu')\n" + TEST}
    )
    assert len([f for f in run(root).findings if f.fixable]) == 5  # 2 aliases, 2 names, 1 twice
    assert mend(root) == 5


def test_mends_what_a_fix_uncovers(tmp_path: Path) -> None:
    source = ALIAS.replace("cpu", "cuda").replace("by-hand", "old-style") + TEST
    root = make_tree(tmp_path, {FILE: source})
    before = {f.rule for f in run(root).findings if f.fixable}
    assert "RT301" not in before  # a file without a registration runs nowhere
    mend(root)
    assert not [f for f in run(root).findings if f.fixable]
    assert "__main__" in (root / FILE).read_text()


def test_mends_nothing_that_was_not_reported(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: ALIAS + CALL + CALL + TEST})
    result = run(root)
    reported = [f for f in result.findings if f.rule != "RT108"]  # as if in the baseline
    fix.write(root, fix.fix_files(root, reported, result.found["RT"].tree, frozenset(ALL)))
    assert (root / FILE).read_text().count(CALL) == 2


def test_what_was_accepted_stays_where_the_rule_reports_something_else(tmp_path: Path) -> None:
    unknown = CALL.replace("cpu_ci", "gpu_ci")  # RT103 as well, and not fixable
    root = make_tree(tmp_path, {FILE: ALIAS + unknown + CALL + CALL + TEST})
    result = run(root)
    reported = [f for f in result.findings if f.rule != "RT103" or not f.fixable]
    assert {"RT103", "RT108"} <= {f.rule for f in reported}
    fix.write(root, fix.fix_files(root, reported, result.found["RT"].tree, frozenset(ALL)))
    assert "register_cpu_ci as reg" in (root / FILE).read_text()
    assert (root / FILE).read_text().count(CALL) == 1


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("est_time=5", "est_time=6", True),
        (CALL, CALL.replace("base-a", "base-b").replace("=5", "=6"), False),  # another suite
        (CALL, "", False),  # no suite
        (CALL + TEST, CALL.replace("=5", "=6"), False),  # no test
        ("est_time=5", "est_time=", False),  # no Python
    ],
)
def test_a_fix_keeps_suites_and_tests_whatever_its_rule(
    old: str, new: str, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(file: Parsed, tree: Tree) -> Iterator[Finding]:
        for one in tree.of(file):
            if one.est_time == 5:
                yield Finding(file.path, at(1), "RT105", "five", fixable=True)

    def mended(_file: Parsed, text: str, _finding: Finding, _tree: Tree) -> list[Edit]:
        return [Edit(Span(1, 1, text.count("\n") + 1, 1), text.replace(old, new))]

    tree = run_one()
    rule = dataclasses.replace(ALL["RT103"], id="RT105", check=check, fix=mended)
    monkeypatch.setattr(fix, "rules_of", lambda _family: (rule,))
    fixed = fix.fix_bytes(FILE, CLEAN.encode(), frozenset(["RT105"]), tree)
    assert fixed.after == (CLEAN.replace(old, new) if made else CLEAN).encode()
    assert fixed.count == made


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: CALL + TEST})
    result = run(root)
    fixed = fix.fix_files(root, result.findings, result.found["RT"].tree, frozenset(ALL))
    (root / FILE).write_text("# somebody else\n")
    count, refused = fix.write(root, fixed)
    assert (count, len(refused)) == (0, 1)
    assert FILE in refused[0]
    assert (root / FILE).read_text() == "# somebody else\n"


@pytest.mark.skipif(os.name == "nt", reason="links and modes are POSIX")
def test_replacing_keeps_the_mode_and_the_link(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"shared/real.py": CALL + TEST, f"{TESTS}/test_good.py": CLEAN})
    (root / "shared" / "real.py").chmod(0o755)
    (root / FILE).symlink_to(root / "shared" / "real.py")
    assert mend(root) == 1
    assert (root / FILE).is_symlink()
    assert (root / "shared" / "real.py").read_text().startswith("from runci import")
    assert (root / "shared" / "real.py").stat().st_mode & 0o777 == 0o755
    assert sorted(p.name for p in (root / "shared").iterdir()) == ["real.py"]


def test_diff_shows_the_change_and_writes_nothing(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {FILE: CALL + TEST})
    result = run(root)
    text = fix.diff(fix.fix_files(root, result.findings, result.found["RT"].tree, frozenset(ALL)))
    assert text.startswith(f"--- a/{FILE}\n+++ b/{FILE}\n@@")
    assert "\n+from runci import register_cpu_ci\n register_cpu_ci(" in text
    assert (root / FILE).read_text() == CALL + TEST


def test_apply_edits_in_any_order() -> None:
    text = "ab\r\ncd"
    edits = [Edit(Span(2, 1, 2, 2), "X\n"), Edit(at(1, 1), "1"), Edit(at(1, 1), "2")]
    assert apply_edits(text, edits) == "12ab\r\nX\r\nd"
    assert apply_edits(text, [Edit(at(2, 3), "!")]) == "ab\r\ncd!"
    assert apply_edits("", [Edit(at(1, 1), "x\n")]) == "x\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
