"""What pytest is given, `-k`, `-m`, `-x` and `-- ARGS`, with real processes: what runs, and alone.

What a result says it is of, no other result may stand for.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, MAIN, SUITE
from run_trees import UNITTEST as UNITTEST_MAIN
from run_trees import Ran, make, registered, run, runci

from runci import register_cpu_ci
from runci.core.result import FileResult, Outcome
from runci.core.selected import Selected

register_cpu_ci(est_time=90, stage="base-a", runner_config="cpu")

PATH = f"{FOLDER}/test_a.py"
# Each test leaves a mark, so that nobody has to be believed who ran.
MARKS = """\
    import os, pathlib
    BROKEN = os.path.exists("broken")
    def mark(name): (pathlib.Path(os.environ["MARKS"]) / name).touch()
"""
BODY = f"""\
{MARKS}
    def test_add(): mark("add")
    def test_Add_too(): mark("add_too"); assert not BROKEN
    @pytest.mark.slow
    def test_mul(): mark("mul")
    def test_late(): mark("late")
"""
CASES = f"""\
{MARKS}
    class TestIt(unittest.TestCase):
        def test_add(self): mark("add")
        def test_Add_too(self): mark("add_too"); assert not BROKEN
        @pytest.mark.slow
        def test_mul(self): mark("mul")
        def test_late(self): mark("late")
"""
ALL = ["add", "add_too", "late", "mul"]
WAYS = {
    "pytest": (BODY, MAIN, ()),
    "pytest, of unittest": (CASES, MAIN, ("--isolate", "spawn")),
    "script of pytest": (BODY, MAIN, ("--as-script",)),
    "script of unittest": (CASES, UNITTEST_MAIN, ("--as-script",)),
}


def tree(root: Path, body: str = BODY, main: str = MAIN, **more: str) -> Path:
    """A file with four tests, and one with a single one."""
    files = {"test_a.py": registered(body, main=main), "test_b.py": registered("def test_b(): 1\n")}
    make(root, {**files, **{f"{name}.py": text for name, text in more.items()}})
    (root / "marks").mkdir()
    return root


def select(root: Path, *arguments: str) -> tuple[Ran, list[str]]:
    """Run, and which tests left their mark."""
    for old in (root / "marks").iterdir():
        old.unlink()
    ran = run(root, *arguments, MARKS=str(root / "marks"))
    return ran, sorted(path.name for path in (root / "marks").iterdir())


def of(ran: Ran, selected: Selected, name: str = "test_a.py") -> FileResult:
    (result,) = [r for r in ran.results()[name] if r.selected == selected]
    return result


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (("-k", "add"), ["add", "add_too"]),  # in any case
        (("-k", "mul and not (add or late)"), ["mul"]),
        (("-m", "slow"), ["mul"]),
        (("-m", "not slow", "-k", "add or mul"), ["add", "add_too"]),
        (("-k", "test_a.py and late"), ["late"]),
        (("-k", "slow"), ["mul"]),  # a mark is a name, too
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("way", WAYS)
def test_exactly_what_is_chosen_runs(
    tmp_path: Path, way: str, options: tuple[str, ...], runs: list[str]
) -> None:
    body, main, mode = WAYS[way]
    root = tree(tmp_path, body, main)
    ran, found = select(root, "--suite", SUITE, *mode, *options)
    assert (ran.status, found) == (0, runs), ran.output
    assert ran.last == "1 passed, 0 failed, 0 skipped"  # the other file has no such test
    (result,) = ran.results()["test_a.py"]
    assert (result.outcome, result.tests, result.deselected) == (Outcome.PASSED, len(runs), 0)
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert result.selected == Selected(given.get("-k", ""), given.get("-m", ""))
    assert f"{5 - len(runs)} tests not chosen, all of 1 file" in ran.output
    assert "test_b.py" not in ran.results()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_chosen_is_nothing_to_check(tmp_path: Path, way: str) -> None:
    body, main, mode = WAYS[way]
    root = tree(tmp_path, body, main)
    ran, found = select(root, "--suite", SUITE, *mode, "-k", "nope")
    assert (ran.status, found, ran.results()) == (3, [], {}), ran.output
    assert "-k nope" in ran.error
    # A file that fails by itself is no less red for it.
    (root / f"{FOLDER}/test_b.py").write_text(registered("import nope_at_all\n"))
    ran, _ = select(root, "--suite", SUITE, *mode, "-k", "nope")
    assert (ran.status, [*ran.results()]) == (1, ["test_b.py"]), ran.output


@pytest.mark.parametrize("way", WAYS)
def test_it_ends_at_the_first_failure_and_says_what_never_began(tmp_path: Path, way: str) -> None:
    body, main, mode = WAYS[way]
    root = tree(tmp_path, body.replace("test_late", "test_z"), main)
    (root / "broken").touch()
    ran, found = select(root, "--suite", SUITE, *mode, "-x", "--jobs", "1")
    before = ["add_too"] if "class" in body else ["add", "add_too"]
    assert (ran.status, found) == (1, before), ran.output
    result = of(ran, Selected(first=True))
    assert (result.outcome, result.tests, result.failed) == (Outcome.FAILED, len(before), 1)
    assert f"{4 - len(before)} tests never begun" in result.message
    assert "1 file not run (-x)" in ran.output
    (root / "broken").unlink()
    ran, found = select(root, "--suite", SUITE, *mode, "-x")
    assert (ran.status, len(found)) == (0, 4), ran.output


def test_of_files_in_one_process_none_is_green_or_blamed_for_what_never_began(
    tmp_path: Path,
) -> None:
    more = ', in_process_group="g"'
    root = make(
        tmp_path,
        {
            "test_a.py": registered("def test_one(): pass\n", more=more),
            "test_b.py": registered("def test_one(): assert 0\n", more=more),
            "test_c.py": registered("def test_one(): pass\n", more=more),
        },
    )
    ran = run(root, "--suite", SUITE, "-x")
    ends = {name: (r[-1].outcome, r[-1].tests) for name, r in ran.results().items()}
    assert (ran.status, ends) == (1, {
        "test_a.py": (Outcome.PASSED, 1),
        "test_b.py": (Outcome.FAILED, 1),
        "test_c.py": (Outcome.NO_TESTS, 0),
    }), ran.output  # fmt: skip


def test_what_others_leave_out_is_told_from_what_was_not_chosen(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "pytest.ini").write_text("[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n")
    (root / "conftest.py").write_text(
        "def pytest_collection_modifyitems(config, items):\n"
        "    gone = [i for i in items if i.name == 'test_late']\n"
        "    items[:] = [i for i in items if i not in gone]\n"
        "    if gone: config.hook.pytest_deselected(items=gone)\n"
    )
    ran, found = select(root, PATH, "-k", "not add")
    assert (ran.status, found) == (1, []), ran.output  # all that was chosen was left out
    assert of(ran, Selected(keyword="not add")).outcome is Outcome.NO_TESTS
    ran, found = select(root, PATH, "-k", "late or Add_too or mul")
    assert (ran.status, found) == (0, ["add_too"]), ran.output
    assert of(ran, Selected(keyword="late or Add_too or mul")).deselected == 2
    # As for pytest itself, -m stands in place of what the project's own options say.
    ran, found = select(root, PATH, "-m", "slow")
    assert (ran.status, found, of(ran, Selected(marks="slow")).deselected) == (0, ["mul"], 0)


def test_a_script_that_chooses_is_narrowed_further(tmp_path: Path) -> None:
    main = MAIN.replace('"-v"', '"-k", "add"')
    root = tree(tmp_path, main=main)
    ran, found = select(root, PATH, "--as-script", "-k", "not too")
    assert (ran.status, found) == (0, ["add"]), ran.output


def test_a_runner_that_asks_nobody_is_found_out(tmp_path: Path) -> None:
    own = """
if __name__ == "__main__":
    cases = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    sys.exit(not cases.run(unittest.TestResult()).wasSuccessful())
"""
    root = tree(tmp_path, CASES, own)
    ran, found = select(root, "--as-script", PATH)
    assert (ran.status, found) == (0, ALL), ran.output
    ran, _ = select(root, "--as-script", PATH, "-k", "late")
    assert (ran.status, of(ran, Selected(keyword="late")).outcome) == (1, Outcome.FAILED)


def test_other_options_reach_pytest_and_a_repetition_has_them(tmp_path: Path) -> None:
    root = tree(tmp_path, BODY + "    def test_dtype(request):\n"
                "        assert request.config.getoption('dtype') != 'it is fp8'\n")  # fmt: skip
    (root / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--dtype', default='none')\n"
    )
    ran, _ = select(root, PATH, "--", "--dtype", "it is fp8")
    assert ran.status == 1
    given = Selected(arguments=("--dtype", "it is fp8"))
    assert of(ran, given).failed_tests == (f"{PATH}::test_dtype",)
    ran, found = select(root, PATH, "-k", "dtype or late", "-x", "--", "--dtype=it is fp8")
    assert (ran.status, found) == (1, ["late"]), ran.output
    (line,) = [one for one in ran.output.splitlines() if "repeat: " in one]
    words = shlex.split(line.partition("repeat: ")[2])
    assert words[:2] == ["runci", "run"]
    again, found = select(root, *words[2:])
    assert (again.status, found) == (1, ["late"]), again.output
    assert len(again.results()["test_a.py"]) == len(ran.results()["test_a.py"])
    assert select(root, PATH, "--", "--dtype=bf16")[0].status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--", "--collect-only"], 2, "it runs no test"),
        (["--", "-n", "2"], 2, "--jobs"),
        (["--", f"{FOLDER}/test_b.py"], 2, "name files and tests before it"),
        (["--as-script", "--", "--tb=short"], 2, "run as scripts"),
        (["-k", "add and"], 2, "-k 'add and'"),
        (["-m", "(", "--as-script"], 2, "-m '('"),
        # Only pytest knows that -v has no value.
        (["--", "-v", f"{FOLDER}/test_b.py"], 1, "pytest could not start"),
        (["--", "--no-such-option"], 1, "pytest could not start"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    root = tree(tmp_path)
    ran, found = select(root, PATH, *arguments)
    assert (ran.status, found) == (status, []), ran.output
    assert said in ran.error + ran.output
    assert all(r.outcome is Outcome.FAILED for r in ran.results().get("test_a.py", []))


def test_no_part_is_taken_for_the_whole(tmp_path: Path) -> None:
    root = tree(tmp_path)
    runci(root, "plan", "--test", PATH, "-o", "plan.json")
    shard = ("--plan", "plan.json", "--shard", f"cpu-{SUITE}-1of1")
    for options in (("-k", "test"), ("-m", "not nope"), ("-x",), (PATH, "--", "--tb=short")):
        ran, found = select(root, *shard, "--results", "part", *options)
        assert (ran.status, found) == (0, ALL), ran.output
        done = runci(root, "verify", "plan.json", "part")
        assert (done.returncode, "without a result" in done.stdout) == (1, True), done.stdout
    # Beside the whole, which stays where it is, it counts for nothing either.
    select(root, *shard, "--results", "part")
    ran, _ = select(root, *shard, "--results", "part", "-k", "late")
    assert len([r for r in ran.results("part")["test_a.py"] if not r.selected]) == 1
    assert len(ran.results("part")["test_a.py"]) == 2
    again = f"this shard again: runci run {' '.join(shard)} -k late"
    assert again in ran.output
    shown = runci(root, "status", "part").stdout
    assert "test_a.py -k late" in shown


def test_what_was_never_started_is_of_a_part_too(tmp_path: Path) -> None:
    root = tree(tmp_path, "    def test_a(): time.sleep(60)\n")
    ran, _ = select(root, "--suite", SUITE, "-k", "test", "--jobs", "1", "--suite-timeout", "1")
    ends = {name: (one[-1].outcome, one[-1].selected) for name, one in ran.results().items()}
    assert (ran.status, ends) == (1, {
        name: (Outcome.TIMEOUT, Selected(keyword="test")) for name in ("test_a.py", "test_b.py")
    }), ran.output  # fmt: skip


@pytest.mark.parametrize("mode", [(), ("--as-script",)], ids=["pytest", "script"])
def test_what_failed_runs_again_with_the_options(tmp_path: Path, mode: tuple[str, ...]) -> None:
    root = tree(tmp_path)
    (root / "broken").touch()
    whole = ("--suite", SUITE, *mode)
    assert select(root, *whole)[0].status == 1
    # Of what failed, what is chosen; nothing is chosen of nothing.
    ran, found = select(root, *whole, "--last-failed", "-x")
    assert (ran.status, found) == (1, ["add_too"]), ran.output
    ran, found = select(root, *whole, "--last-failed", "-k", "late")
    assert (ran.status, found) == (3, []), ran.output
    (root / "broken").unlink()
    # What passes chosen by -k makes good what failed, but not the file.
    ran, found = select(root, *whole, "-k", "too")
    assert (ran.status, found) == (0, ["add_too"]), ran.output
    ran, found = select(root, *whole, "--last-failed")
    assert (ran.status, found) == (0, ALL), ran.output
    ran, found = select(root, *whole, "--last-failed")
    assert (ran.status, found, "no file failed" in ran.output) == (0, [], True)


def test_where_the_whole_never_ran_a_part_has_its_own_failures(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "broken").touch()
    assert select(root, PATH, "-k", "add")[1] == ["add", "add_too"]
    assert select(root, PATH, "-k", "add", "--last-failed")[1] == ["add_too"]
    (root / "broken").unlink()
    assert select(root, PATH, "-k", "add", "--last-failed")[1] == ["add_too"]
    assert select(root, PATH, "-k", "add", "--last-failed")[1] == ["add", "add_too"]
    ran, found = select(root, PATH, "-k", "add", "--last-failed")
    assert (ran.status, found) == (0, [])
    # The whole is still what it was: nobody ran it.
    ran, found = select(root, PATH, "--last-failed")
    assert (ran.status, found) == (0, ALL)


@pytest.mark.parametrize("way", WAYS)
def test_the_seconds_of_each_test_are_kept_and_the_slowest_shown(tmp_path: Path, way: str) -> None:
    body, main, mode = WAYS[way]
    root = tree(tmp_path, body.replace('mark("late")', "time.sleep(0.3)"), main)
    ran, _ = select(root, "--suite", SUITE, *mode)
    took = ran.result("test_a.py").durations
    prefix = "TestIt::" if "class" in body else ""
    assert {one.test.removeprefix(prefix) for one in took} == {
        "test_add",
        "test_Add_too",
        "test_mul",
        "test_late",
    }
    assert took[0].test == f"{prefix}test_late" and 0.3 <= took[0].seconds < 5
    shown = ran.output.partition("slowest tests\n")[2].splitlines()
    assert shown[0].endswith(f"{PATH}::{prefix}test_late") and "::" not in shown[1]
    ran, _ = select(root, "--suite", SUITE, *mode, "--durations", "3")
    assert ran.output.partition("slowest tests\n")[2].count("::test_") == 3


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
