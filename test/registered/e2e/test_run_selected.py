"""One test of a file, from its plan to the verdict, with real processes: it runs, and it alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import (
    FOLDER,
    MAIN,
    SUITE,
    TAXONOMY,
)
from run_trees import UNITTEST as UNITTEST_MAIN
from run_trees import (
    Ran,
    make,
    registered,
    run,
    runci,
)

from runci import register_cpu_ci
from runci.core.result import FileResult, Outcome

register_cpu_ci(est_time=60, stage="base-a", runner_config="cpu")

PATH = f"{FOLDER}/test_a.py"
# Each test leaves a mark, so that nobody has to be believed who ran.
MARKS = """\
    import os, pathlib
    MARKS = pathlib.Path(os.environ["MARKS"])
    def mark(name): (MARKS / name).touch()
"""
BODY = f"""\
{MARKS}
    def test_plain(): mark("plain")
    def test_plain_too(): mark("plain_too")
    @pytest.mark.parametrize("value", ["1", "a b", "x::y", "it's \\"[0]\\" $HOME"])
    def test_many(value): mark("many " + value.replace("/", "_"))
    class TestOne:
        def test_inside(self): mark("inside")
        def test_fails(self): mark("fails"); assert False
    @pytest.mark.skip(reason="not today")
    class TestSkipped:
        def test_never(self): mark("never")
"""
UNITTEST = f"""\
{MARKS}
    def setUpModule(): mark("module")
    class TestOne(unittest.TestCase):
        @classmethod
        def setUpClass(cls): mark("class one")
        def test_inside(self): mark("inside")
        def test_other(self): mark("other")
    class TestTwo(unittest.TestCase):
        @classmethod
        def setUpClass(cls): mark("class two")
        def test_inside(self): mark("two")
"""
# A main block that takes arguments of its own, as those of measuring tests do.
STUBBORN = """
if __name__ == "__main__":
    assert not sys.argv[1:], sys.argv
    unittest.main(argv=["x", "-v"])
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "test_a.py": registered(BODY),
        "test_b.py": registered("def test_plain(): pass\n"),
        "test_u.py": registered(UNITTEST, main=STUBBORN),
        "bench_a.py": registered("print('fast')\n", main=""),
    }
    root = make(tmp_path, files)
    (root / "marks").mkdir()
    return root


def select(root: Path, *arguments: str) -> tuple[Ran, list[str]]:
    """Run, and which tests left their mark."""
    marks = root / "marks"
    for old in marks.iterdir():
        old.unlink()
    ran = run(root, *arguments, MARKS=str(marks))
    return ran, sorted(path.name for path in marks.iterdir())


def only(ran: Ran, name: str = "test_a.py") -> FileResult:
    (result,) = [r for r in ran.results()[name] if r.only]
    return result


@pytest.mark.parametrize("mode", [(), ("--as-script",)], ids=["pytest", "script"])
def test_exactly_the_test_that_is_named_runs(tree: Path, mode: tuple[str, ...]) -> None:
    for test, marks in {
        "test_plain": ["plain"],  # not test_plain_too
        "TestOne::test_inside": ["inside"],
        "test_many[a b]": ["many a b"],
        "test_many[x::y]": ["many x::y"],
        'test_many[it\'s "[0]" $HOME]': ['many it\'s "[0]" $HOME'],
    }.items():
        ran, found = select(tree, *mode, f"{PATH}::{test}")
        assert (ran.status, found) == (0, marks), ran.output
        assert ran.last == "1 passed, 0 failed, 0 skipped"
        result = next(r for r in ran.results()["test_a.py"] if r.only == (test,))
        assert (result.tests, result.path, result.outcome) == (1, PATH, Outcome.PASSED)
        assert f"{PATH}::{test}" in ran.output


def test_a_name_without_brackets_or_of_a_class_means_all_of_it(tree: Path) -> None:
    ran, found = select(tree, f"{PATH}::test_many")
    assert (ran.status, len(found), only(ran).tests) == (0, 4, 4), ran.output
    ran, found = select(tree, f"{PATH}::TestOne::test_inside", f"{PATH}::test_plain")
    assert (ran.status, found) == (0, ["inside", "plain"]), ran.output
    # The file beside its test is the whole file.
    ran, found = select(tree, f"{PATH}::test_plain", PATH)
    assert ran.status == 1
    assert "plain_too" in found


def test_a_script_of_unittest_runs_it_whatever_its_main_block_does(tree: Path) -> None:
    path = f"{FOLDER}/test_u.py"
    ran, found = select(tree, "--as-script", f"{path}::TestOne::test_inside")
    assert (ran.status, found) == (0, ["class one", "inside", "module"]), ran.output
    ran, found = select(tree, "--as-script", f"{path}::TestTwo")
    assert (ran.status, found) == (0, ["class two", "module", "two"]), ran.output
    ran, found = select(tree, "--as-script", f"{path}::TestOne::test_insid")
    assert ran.status == 1
    assert f"{path} has no test TestOne::test_insid; did you mean 'TestOne::test_inside'?" in (
        ran.output
    )


def test_a_runner_that_nobody_can_choose_from_is_found_out(tree: Path) -> None:
    own = """
if __name__ == "__main__":
    cases = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    sys.exit(not cases.run(unittest.TestResult()).wasSuccessful())
"""
    path = f"{FOLDER}/test_u.py"
    (tree / path).write_text(registered(UNITTEST, main=own), encoding="utf-8")
    ran, found = select(tree, "--as-script", path)
    assert (ran.status, "other" in found) == (0, True), ran.output
    ran, _ = select(tree, "--as-script", f"{path}::TestOne::test_inside")
    assert ran.status == 1
    assert re.search(r"TestOne::test_other .* only TestOne::test_inside", ran.output)


def test_what_names_no_test_is_red_and_says_so(tree: Path) -> None:
    for mode in ((), ("--as-script",)):
        ran, found = select(tree, *mode, f"{PATH}::test_plane")
        assert (ran.status, found) == (1, []), ran.output
        assert only(ran).outcome is Outcome.NO_TESTS
        assert f"{PATH} has no test test_plane; did you mean 'test_plain'? (it has " in ran.output
        # Nor does another that is there hide it.
        ran, found = select(tree, *mode, f"{PATH}::test_plain", f"{PATH}::TestOne::test_gone")
        assert (ran.status, found) == (1, ["plain"]), ran.output
        assert f"{PATH} has no test TestOne::test_gone" in ran.output
        (tree / ".runci").rename(tree / f"old{len(mode)}")


def test_a_skipped_one_is_no_pass(tree: Path) -> None:
    for test in ("TestSkipped", "TestSkipped::test_never"):
        ran, found = select(tree, f"{PATH}::{test}")
        assert (ran.status, found) == (1, []), ran.output
        assert "not today" in ran.output


def test_a_failure_is_repeated_by_the_command_that_is_printed(tree: Path) -> None:
    ran, found = select(tree, f"{PATH}::TestOne::test_fails")
    assert (ran.status, found) == (1, ["fails"])
    repeat = f"repeat: runci run --suite {SUITE} {PATH}::TestOne::test_fails"
    assert repeat in ran.output
    # The earlier result of the whole file stays as it is, and so does what failed last.
    select(tree, PATH, f"{FOLDER}/test_b.py")
    select(tree, f"{PATH}::test_plain")
    ran, found = select(tree, "--last-failed", "--suite", SUITE, PATH, f"{FOLDER}/test_b.py")
    assert (ran.status, found, "test_b" in ran.output) == (1, ["fails"], False)


COINS = f"""\
{MARKS}
    BROKEN = os.path.exists("broken")
    class TestCoins(unittest.TestCase):
        def test_good(self): mark("good")
        def test_bad(self): mark("bad"); assert not BROKEN
        def test_sub(self):
            for n in (1, 2):
                with self.subTest(n=n): mark(f"sub {{n}}"); assert n < 2 or not BROKEN
"""
PARAMETERS = f"""\
{MARKS}
    BROKEN = os.path.exists("broken")
    @pytest.mark.parametrize("value", ["1", "a b", "x::y", "it's \\"[0]\\"", "ü"])
    def test_many(value): mark(f"many {{value}}"); assert value == "1" or not BROKEN
"""
MANY = ["many a b", 'many it\'s "[0]"', "many x::y", "many ü"]
CRASH = f"""\
{MARKS}
    def test_first(): mark("first")
    def test_dies():
        mark("dies")
        if os.path.exists("broken"): os._exit(0)
"""
# A runner of one's own, which cannot be asked for a part of its tests.
OWN = """
if __name__ == "__main__":
    found = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(TestCoins).run(found)
    sys.exit(not found.wasSuccessful())
"""
LONG = "def test_x" + "x" * 300 + "(): assert not os.path.exists('broken')\n"


@pytest.mark.parametrize(
    ("body", "main", "mode", "again"),
    [
        (COINS, MAIN, (), ["bad", "sub 1", "sub 2"]),
        (COINS, UNITTEST_MAIN, ("--as-script",), ["bad", "sub 1", "sub 2"]),
        (PARAMETERS, MAIN, (), MANY),
        (PARAMETERS, MAIN, ("--as-script",), MANY),
        (CRASH, MAIN, ("--isolate", "spawn"), ["dies"]),
    ],
    ids=["unittest", "script", "parameters", "parameters in a script", "crash"],
)  # fmt: skip
def test_only_what_failed_runs_again_and_then_all_of_it(
    tmp_path: Path, body: str, main: str, mode: tuple[str, ...], again: list[str]
) -> None:
    root = make(tmp_path, {"test_a.py": registered(body, main=main)})
    (root / "marks").mkdir()
    (root / "broken").touch()
    last = ("--suite", SUITE, *mode, "--last-failed")
    ran, everything = select(root, "--suite", SUITE, *mode)
    assert ran.status == 1
    for _ in range(2):  # again, and again
        ran, found = select(root, *last)
        assert (ran.status, found) == (1, again), ran.output
    (root / "broken").unlink()
    ran, found = select(root, *last)
    assert (ran.status, found) == (0, again), ran.output
    # The result of the whole is red until all of it has passed.
    ran, found = select(root, *last)
    assert (ran.status, set(found) >= set(everything)) == (0, True), ran.output
    assert "have passed since, alone: all of it runs" in ran.output
    ran, found = select(root, *last)
    assert (ran.status, found, "no file failed" in ran.output) == (0, [], True)


@pytest.mark.parametrize(
    ("body", "main", "runs", "said"),
    [
        (COINS, OWN, 2, "could not be run alone"),
        (LONG, MAIN, 1, "not every test that failed has a name to ask for"),
    ],
    ids=["a runner of one's own", "a long name"],
)
def test_where_a_part_cannot_be_asked_for_all_of_it_runs(
    tmp_path: Path, body: str, main: str, runs: int, said: str
) -> None:
    root = make(tmp_path, {"test_a.py": registered(body, main=main)})
    (root / "marks").mkdir()
    (root / "broken").touch()
    assert select(root, "--suite", SUITE, "--as-script")[0].status == 1
    (root / "broken").unlink()
    for _ in range(runs):
        ran, _ = select(root, "--suite", SUITE, "--as-script", "--last-failed")
    assert ran.status == 0, ran.output
    assert said in ran.output
    assert "no file failed" in run(root, "--suite", SUITE, "--as-script", "--last-failed").output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"{PATH}::", "write PATH::test or PATH::Class::test"),
        (f"{PATH}::a b", "write PATH::test or PATH::Class::test"),
        (f"{PATH}::-k", "write PATH::test or PATH::Class::test"),
        (f"{FOLDER}::test_plain", f"{FOLDER} is a folder: name a file's test"),
        (f"{FOLDER}/test_c.py::test_plain", "no such file or folder"),
    ],
)
def test_what_is_no_test_is_refused(tree: Path, given: str, said: str) -> None:
    ran = run(tree, given)
    assert (ran.status, "Traceback" in ran.error) == (2, False)
    assert said in ran.error


@pytest.mark.parametrize("test", ["test_nope", "TestOne::test_nope", "TestOne::test_nope[1]"])
def test_a_plan_of_a_test_that_is_not_there_is_refused(tree: Path, test: str) -> None:
    done = runci(tree, "plan", "--test", f"{PATH}::{test}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{PATH} has no test {test}" in done.stderr
    # Parameters are known only where the tests are collected.
    assert runci(tree, "plan", "--test", f"{PATH}::test_many[nope]").returncode == 0


def test_a_plan_of_one_test_is_run_and_verified(tree: Path) -> None:
    target = f"{PATH}::test_many[a b]"
    made = runci(tree, "plan", "--test", target, "-o", "plan.json")
    assert made.returncode == 0, made.stderr
    plan = json.loads((tree / "plan.json").read_text())
    (file,) = plan["suites"][0]["shards"][0]["files"]
    assert (file["path"], file["only"]) == (PATH, ["test_many[a b]"])
    shard = plan["suites"][0]["shards"][0]["id"]

    def verified(folder: str) -> subprocess.CompletedProcess[str]:
        return runci(tree, "verify", "plan.json", folder)

    ran, found = select(tree, "--plan", "plan.json", "--shard", shard, "--results", "right")
    assert (ran.status, found) == (0, ["many a b"]), ran.output
    done = verified("right")
    assert (done.returncode, "executed 1 test," in done.stdout) == (0, True), done.stdout

    # The same plan, but the result says that another part ran, or the whole file.
    (record,) = (tree / "right").glob("*.json")
    for part, words in (([], "the whole file"), (["test_plain"], "test_plain")):
        other = tree / "other"
        other.mkdir(exist_ok=True)
        changed = {**json.loads(record.read_text()), "only": part}
        (other / "one.json").write_text(json.dumps(changed))
        done = verified("other")
        assert done.returncode == 1
        assert f"for {words}, but what is planned is test_many[a b]" in " ".join(
            done.stdout.split()
        )


def test_a_selected_run_is_never_the_whole_file(tree: Path) -> None:
    runci(tree, "plan", "--test", f"{FOLDER}/test_b.py", "-o", "plan.json")
    shard = ("--plan", "plan.json", "--shard", f"cpu-{SUITE}-1of1")
    ran, _ = select(tree, *shard, "--results", "part", f"{FOLDER}/test_b.py::test_plain")
    assert ran.status == 0, ran.output
    done = runci(tree, "verify", "plan.json", "part")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "for test_plain, but" in said and "the whole file" in said
    assert "without a result" in said
    # What the plan holds in part cannot be widened, nor another part be named.
    runci(tree, "plan", "--test", f"{PATH}::test_plain", "-o", "plan.json")
    ran, found = select(tree, *shard, PATH)
    assert (ran.status, found) == (0, ["plain"]), ran.output
    ran = run(tree, *shard, f"{PATH}::test_many")
    assert (ran.status, f"plan.json plans {PATH}::test_plain: name that" in ran.error) == (2, True)


def test_a_benchmark_has_no_tests_to_choose_from(tree: Path) -> None:
    config = tree / "test" / "suites.yml"
    config.write_text(TAXONOMY + 'benchmarks: ["bench_*.py"]\n', encoding="utf-8")
    target = f"{FOLDER}/bench_a.py::test_x"
    for done in (
        runci(tree, "plan", "--test", target, "--allow-empty"),
        runci(tree, "run", target),
    ):
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{target}: a benchmark" in done.stderr


def test_a_test_of_no_planned_suite_is_an_error_whatever_may_be_empty(tree: Path) -> None:
    done = runci(tree, "plan", "--test", PATH, "--kind", "nightly", "--allow-empty")
    assert done.returncode == 3
    assert f"--test {PATH}: no suite of --kind nightly" in done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
