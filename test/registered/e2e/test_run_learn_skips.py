"""`runci run --learn-skips`: what it proposes is pasted, and the same run verifies green."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, TAXONOMY, UNITTEST, make, registered, run, runci

from runci import register_cpu_ci
from runci.config.suites import load_taxonomy
from runci.core.result import Outcome

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs tests in forks")

# Every way to skip; in each file but the one that cannot be imported, something runs.
FILES = {
    "test_marks.py": registered(
        """
        def test_runs(): pass
        @pytest.mark.skipif(True, reason="needs a second GPU")
        def test_two(): pass
        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.skipif(True, reason="needs a second GPU")
        def test_all(n): pass
        IDS = ["a[0]", "*", "?", "a::b", "a b", "(x)", "é", "", "a/b", chr(92) + "*", 3]
        @pytest.mark.parametrize("n", [pytest.param(i, marks=pytest.mark.skipif(
            n != 10, reason="no fp8: yet")) for n, i in enumerate(IDS)])
        def test_some(n): pass
        @pytest.mark.skip
        def test_unsaid(): pass
        @pytest.mark.xfail(run=False, reason="hangs")
        def test_expected(): pass
        """
    ),
    "test_code.py": registered(
        """
        @pytest.fixture
        def gpu(): pytest.skip('says "no"\\n- and more: # é 😀')
        def test_fixture(gpu): pass
        class TestPlain:
            def test_body(self): pytest.skip("in the body")
            def test_runs(self): pass
        class TestUnit(unittest.TestCase):
            @unittest.skipIf(True, "by unittest")
            def test_decorated(self): pass
            def test_raised(self): self.skipTest("by unittest")
            def test_parts(self):
                with self.subTest(i=1): pass
        class TestAround(unittest.TestCase):
            @classmethod
            def setUpClass(cls): raise unittest.SkipTest("for the class")
            def test_a(self): pass
            def test_b(self): pass
        """
    ),
    "test_absent.py": registered(
        "absent = pytest.importorskip('no_such_module')\ndef test_a(): absent.x()\n"
    ),
}


def test_what_is_proposed_is_pasted_and_the_same_run_verifies_green(tmp_path: Path) -> None:
    root = make(tmp_path, FILES)
    config = root / "test/suites.yml"
    planned = ("--plan", "plan.json", "--learn-skips")
    assert runci(root, "plan", "--all", "--output", "plan.json").returncode == 0
    ran = run(root, *planned)
    assert ran.status == 1  # that of the run
    assert ran.last == "0 passed, 3 failed, 0 skipped"
    run(root, *planned, "out.yml")
    block = (root / "out.yml").read_text(encoding="utf-8")
    assert f"\n{block}\n" in ran.output  # what is shown can be pasted, too
    assert "xfail" in block and "test_expected" in block
    _, _, entries = block.partition("skips:\n")
    assert "test_expected" not in entries
    assert f"{FOLDER}/test_marks.py:9" in entries
    # What nobody has said yet is refused until somebody has.
    config.write_text(TAXONOMY + entries, encoding="utf-8")
    refused = runci(root, "check")
    assert (refused.returncode, refused.stderr.count(".reason: 'TODO")) == (2, 2)
    assert "could not import 'no_such_module'" in entries
    # In place the same comes first, and nothing else changes.
    commented = TAXONOMY.replace("skips:\n", "skips: # these\n  # of old\n")
    config.write_text(commented, encoding="utf-8")
    assert run(root, *planned, "test/suites.yml").status == 1
    text = config.read_text(encoding="utf-8")
    assert text == commented.replace("# these\n", f"# these\n{entries}")
    # Where that cannot be, what was learned is shown.
    config.write_text(TAXONOMY.partition("skips:")[0] + "skips: []\n", encoding="utf-8")
    elsewhere = ("--suite", "base-a-test-cpu", "--results", "elsewhere")
    lost = run(root, *elsewhere, "--learn-skips", "test/suites.yml")
    assert (lost.status, "test_marks.py::" in lost.output.partition("\nskips:\n")[2]) == (1, True)
    config.write_text(text.replace("TODO: say in your own words why", "no GPU"), encoding="utf-8")
    skips = load_taxonomy(config.read_bytes(), "s.yml").skips
    by_end = {skip.test.rpartition("::")[2]: skip.reason for skip in skips}
    assert by_end["test_all"] == by_end["test_two"] == "needs a second GPU"
    assert by_end["test_some[a[0]]"] == "no fp8: yet"
    assert by_end["test_fixture"] == 'says "no"\n- and more: # é 😀'
    assert len([skip for skip in skips if "test_some" in skip.test]) == 10
    # xfail stays red until a person decides.
    again = run(root, *planned)
    assert [one.title for one in map(again.result, FILES) if not one.outcome.green] == [
        f"{FOLDER}/test_marks.py"
    ]
    (root / FOLDER / "test_marks.py").write_text(
        FILES["test_marks.py"].replace("run=False, ", ""), encoding="utf-8"
    )
    again = run(root, *planned)
    assert again.status == 0, again.output
    assert again.result("test_absent.py").outcome is Outcome.EXCUSED
    verified = runci(root, "verify", "plan.json", ".runci/results")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    # What is in vain is told, with its line; what is needed is not.
    old = len(text.splitlines())
    assert f"suites.yml:{old}: test/registered/**::*may_skip* names no test of " in again.output
    assert "was needed by no test" not in again.output


def test_scripts_count_as_far_as_they_say(tmp_path: Path) -> None:
    body = """
    class TestUnit(unittest.TestCase):
        def test_runs(self): pass
        @unittest.skip("by unittest")
        def test_decorated(self): pass
        def test_raised(self): self.skipTest("in the body")
        def test_parts(self):
            with self.subTest(i=1): self.skipTest("a part")
    @unittest.skip("a class")
    class TestWhole(unittest.TestCase):
        def test_a(self): pass
    """
    pytest_body = """
    @pytest.mark.parametrize("n", [1, 2])
    def test_all(n): pytest.skip("in a script")
    def test_runs(): pass
    """
    files = {
        "test_unit.py": registered(body, main=UNITTEST),
        "test_main.py": registered(pytest_body),
    }
    root = make(tmp_path, files)
    config = root / "test/suites.yml"
    config.write_text(TAXONOMY.replace("execution: pytest", "execution: script"), encoding="utf-8")
    ran = run(root, "--suite", "base-a-test-cpu", "--learn-skips", "test/suites.yml")
    assert (ran.status, ran.last) == (1, "0 passed, 2 failed, 0 skipped")
    text = config.read_text(encoding="utf-8")
    lines = [f"# {FOLDER}/test_unit.py:{line}\n" for line in (8, 10, 11, 15)]
    assert [line for line in lines if line not in text] == []
    assert f'test_main.py:7 (2 tests)\n  - test: "{FOLDER}/test_main.py::test_all"\n' in text
    again = run(root, "--suite", "base-a-test-cpu", "--learn-skips")
    assert again.status == 0, again.output
    assert {again.result(name).outcome for name in files} == {Outcome.PASSED}


def test_nothing_is_accepted_that_is_no_skip(tmp_path: Path) -> None:
    body = """
    import pathlib
    SEEN = pathlib.Path(__file__ + ".seen")
    def test_then_skips():
        if SEEN.exists(): pytest.skip("it was seen")
        SEEN.touch()
        assert False
    @pytest.mark.parametrize("n", [1, 2])
    def test_some(n): pytest.skip("no GPU")
    """
    files = {
        "test_again.py": registered(body),
        "test_fails.py": registered(
            "def test_a(): assert 0\ndef test_b(): pytest.skip('no GPU')\n"
        ),
        "test_fine.py": registered("def test_may_skip(): pytest.skip('x')\ndef test_a(): pass\n"),
    }
    root = make(tmp_path, files)
    suite = ("--suite", "base-a-test-cpu")
    ran = run(root, *suite, "--retries", "1", "--learn-skips", "out.yaml")
    assert ran.status == 1
    found = (root / "out.yaml").read_text(encoding="utf-8")
    entries = found.partition("skips:\n")[2]
    assert "test_fails.py::test_b" in entries and "test_again.py::test_some" in entries
    assert "then_skips" not in entries and "test_fine" not in entries and "::test_a" not in entries
    assert "before it was skipped" in found and "failures" in found
    # Of a test that was asked for alone, all parameters ran; of those that -k left, not.
    alone = run(root, f"{FOLDER}/test_again.py::test_some", *suite, "--learn-skips")
    assert '::test_some"' in alone.output
    part = run(root, *suite, "-k", "test_some and 1", "--learn-skips")
    assert '::test_some[1]"' in part.output and '::test_some"' not in part.output
    # What all may be skipped needs nothing; a file of tests, or of somebody's, is not written to.
    fine = run(root, f"{FOLDER}/test_fine.py", "--learn-skips")
    assert (fine.status, "skips:\n" in fine.output) == (0, False)
    (root / "mine.yml").write_text("a: b\n", encoding="utf-8")
    for name in (f"{FOLDER}/test_fine.py", "mine.yml", "no/folder.yml"):
        refused = run(root, *suite, "--learn-skips", name)
        assert (refused.status, name in refused.error, refused.output) == (2, True, "")
    assert (root / "mine.yml").read_text(encoding="utf-8") == "a: b\n"
    # A proposal that cannot be written is no success of a run that was one.
    (root / "gone").mkdir()
    (root / FOLDER / "test_fine.py").write_text(
        registered("def test_a(): os.rmdir('gone')\n"), encoding="utf-8"
    )
    unwritten = run(root, f"{FOLDER}/test_fine.py", "--learn-skips", "gone/out.yml")
    assert (unwritten.status, unwritten.last) == (2, "1 passed, 0 failed, 0 skipped")
    assert "gone/out.yml" in unwritten.output
