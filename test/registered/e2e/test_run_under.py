"""`runci run --under compute-sanitizer` with a program in its place, as real processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from fake_sanitizer import install
from run_trees import FOLDER, SUITE, TAXONOMY, Ran, make, registered, run, runci

from runci import register_cpu_ci
from runci.core.result import FailureClass, Outcome, ToolError

register_cpu_ci(est_time=40, stage="base-a", runner_config="cpu")

# A launch, and what the tool will find in it.
LAUNCH = """
    def launch(kind=""):
        with open(os.environ.get("FAKE_GPU", os.devnull), "a") as file:
            file.write(kind + "\\n")
        time.sleep(0.1)  # as long as its tool takes to see and print it

"""
FILES = {
    "test_fine.py": """
    def test_launches(): launch()
    """,
    "test_write.py": """
    def test_before(): launch()
    def test_writes_past_the_end(): launch("memcheck")
    def test_after(): launch()
    """,
    "test_race.py": """
    def test_races():
        launch("racecheck")
        launch("racecheck")
    """,
    "test_import.py": """
    launch("memcheck")
    def test_passes(): launch()
    """,
    "test_both.py": """
    def test_fails():
        launch("memcheck")
        assert 1 == 2
    """,
    "test_idle.py": """
    def test_uses_no_gpu(): assert os.path
    """,
    "test_talks.py": """
    def test_prints_what_the_tool_prints():
        launch()
        print("========= Invalid __global__ write of size 4 bytes")
        print("=========     at scale+0x90 in scale.cu:7")
        print("========= ERROR SUMMARY: 3 errors", file=sys.stderr)
    """,
    "test_boasts.py": """
    def test_prints_a_summary():
        print("========= COMPUTE-SANITIZER")
        print("========= ERROR SUMMARY: 0 errors")
    """,
    "test_crash.py": """
    def test_crashes_the_tool(): launch("crashes")
    """,
    "test_dies.py": """
    def test_dies():
        launch()
        os.kill(os.getpid(), signal.SIGSEGV)
    """,
    "test_cut.py": """
    def test_cuts_the_log(): launch("cuts")
    """,
    "test_may_skip.py": """
    def test_may_skip(): pytest.skip("needs a second GPU")
    """,
    "test_fails.py": """
    def test_fails():
        launch()
        assert 1 == 2
    """,
}


def tree(root: Path, *names: str) -> tuple[Path, dict[str, str]]:
    files = {name: registered(LAUNCH + FILES[name]) for name in names}
    return make(root, files), install(root / "tool")


def under(root: Path, tools: str, *names: str, more: tuple[str, ...] = ()) -> Ran:
    repository, variables = tree(root, *names)
    options = ("--suite", SUITE, "--jobs", "1", "--under", f"compute-sanitizer={tools}")
    return run(repository, *options, *more, **variables)


@pytest.fixture(scope="module")
def memcheck(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All files, one run."""
    return under(tmp_path_factory.mktemp("memcheck"), "memcheck", *FILES)


def test_what_is_clean_is_green_and_says_under_what(memcheck: Ran) -> None:
    result = memcheck.result("test_fine.py")
    assert (result.outcome, result.tests, result.errors) == (Outcome.PASSED, 1, ())
    assert result.under == "memcheck"
    assert result.shard == f"cpu-{SUITE}-memcheck"


def test_an_error_is_red_although_its_test_passed_and_is_that_tests(memcheck: Ran) -> None:
    result = memcheck.result("test_write.py")
    test = f"{FOLDER}/test_write.py::test_writes_past_the_end"
    address = (
        "Address 0x7f1200000400 is out of bounds and is 1 bytes after the nearest allocation at "
        "0x7f1200000000 of size 1,024 bytes"
    )
    what = "Invalid __global__ write of size 4 bytes"
    assert result.errors == (ToolError(what, "scale(float *, int)", "scale.cu:7", address, test),)
    assert (result.outcome, result.failed_tests) == (Outcome.FAILED, (test,))
    assert (result.tests, result.failed) == (3, 1)
    assert result.failure is not None
    assert result.failure.kind is FailureClass.TEST
    for part in ("memcheck", what, "scale(float *, int)", "scale.cu:7", test):
        assert part in result.message
    assert memcheck.status == 1


def test_an_error_before_the_first_test_is_the_files(memcheck: Ran) -> None:
    result = memcheck.result("test_import.py")
    assert [error.test for error in result.errors] == [""]
    assert (result.outcome, result.failed) == (Outcome.FAILED, 0)


def test_a_test_that_fails_by_itself_too_keeps_its_own_words(memcheck: Ran) -> None:
    result = memcheck.result("test_both.py")
    assert (result.outcome, len(result.errors)) == (Outcome.FAILED, 1)
    assert "assert 1 == 2" in result.message
    assert "Invalid __global__ write" in result.message


def test_nothing_executed_under_the_tool_is_red(memcheck: Ran) -> None:
    result = memcheck.result("test_idle.py")
    assert (result.outcome, result.tests) == (Outcome.NO_TESTS, 1)
    assert "API call" in result.message


@pytest.mark.parametrize("name", ["test_talks.py", "test_fails.py"])
def test_what_a_test_prints_is_no_error_of_the_tool(memcheck: Ran, name: str) -> None:
    result = memcheck.result(name)
    assert result.errors == ()
    assert result.outcome is (Outcome.PASSED if name == "test_talks.py" else Outcome.FAILED)


def test_a_summary_that_a_test_prints_is_none(memcheck: Ran) -> None:
    assert memcheck.result("test_boasts.py").outcome is Outcome.NO_TESTS


def test_a_crash_of_the_tool_is_named_as_such(memcheck: Ran) -> None:
    result = memcheck.result("test_crash.py")
    assert (result.outcome, result.signal) == (Outcome.CRASHED, "SIGSEGV")
    assert "memcheck of compute-sanitizer itself" in result.message
    assert result.failure is not None
    assert result.failure.kind is FailureClass.RUNNER


def test_a_crash_of_the_tests_is_theirs(memcheck: Ran) -> None:
    result = memcheck.result("test_dies.py")
    assert result.outcome is Outcome.CRASHED
    assert "process didn't terminate successfully" in result.message
    assert result.failure is not None
    assert result.failure.kind is FailureClass.TEST


def test_a_log_without_a_summary_is_red(memcheck: Ran) -> None:
    result = memcheck.result("test_cut.py")
    assert (result.outcome, result.exit_status) == (Outcome.CRASHED, 0)
    assert "without a summary" in result.message


def test_what_may_be_skipped_may_be_skipped_under_a_tool(memcheck: Ran) -> None:
    assert memcheck.result("test_may_skip.py").outcome is Outcome.EXCUSED


def test_the_log_is_kept_and_junit_has_the_error(memcheck: Ran) -> None:
    folder = memcheck.root / ".runci" / "results"
    logs = [path.read_text() for path in (folder / "logs").glob("test_write.*.memcheck.log")]
    assert len(logs) == 1
    assert "ERROR SUMMARY: 1 error" in logs[0]
    (junit,) = folder.glob("junit.*.xml")
    failed = {
        case.get("name"): failure.get("message", "")
        for case in ElementTree.parse(junit).iter("testcase")
        if "test_write.py" in case.get("file", "") and (failure := case.find("failure")) is not None
    }
    assert list(failed) == ["test_writes_past_the_end"]
    assert "Invalid __global__ write" in failed["test_writes_past_the_end"]


def test_a_process_for_each_tool_and_results_of_each(tmp_path: Path) -> None:
    ran = under(
        tmp_path,
        "racecheck,memcheck",
        "test_race.py",
        more=("--junit", str(tmp_path / "report.xml")),
    )
    by_tool = {result.under: result for result in ran.results()["test_race.py"]}
    assert {tool: result.outcome for tool, result in by_tool.items()} == {
        "racecheck": Outcome.FAILED,
        "memcheck": Outcome.PASSED,
    }
    (error,) = by_tool["racecheck"].errors
    assert (error.kernel, error.times) == ("scale(float *, int)", 2)
    assert ran.status == 1
    assert len(list(tmp_path.glob("report.*check.xml"))) == 2


def test_a_run_under_a_tool_leaves_the_plain_runs_results(tmp_path: Path) -> None:
    repository, variables = tree(tmp_path, "test_write.py")
    assert run(repository, "--suite", SUITE, **variables).status == 0
    assert run(repository, "--suite", SUITE, "--under", "compute-sanitizer", **variables).status
    outcomes = {
        result.under: result.outcome
        for result in Ran(0, "", "", repository).results()["test_write.py"]
    }
    assert outcomes == {None: Outcome.PASSED, "memcheck": Outcome.FAILED}
    again = run(repository, "--suite", SUITE, "--last-failed", **variables)
    assert "no file failed last time" in again.output


def test_a_single_test_under_a_tool(tmp_path: Path) -> None:
    repository, variables = tree(tmp_path, "test_write.py")
    one = f"{FOLDER}/test_write.py::test_before"
    ran = run(repository, one, "--under", "compute-sanitizer", **variables)
    assert (ran.status, ran.result("test_write.py").tests) == (0, 1)


def test_what_the_tool_closes_is_opened_again(tmp_path: Path) -> None:
    repository, variables = tree(tmp_path, "test_write.py")
    options = ("--suite", SUITE, "--under", "compute-sanitizer")
    ran = run(repository, *options, **variables, FAKE_CLOSES="1")
    assert (ran.result("test_write.py").tests, ran.result("test_write.py").failed) == (3, 1)


def test_an_error_is_not_repeated_away(tmp_path: Path) -> None:
    ran = under(tmp_path, "memcheck", "test_write.py", more=("--retries", "2"))
    assert len(ran.results()["test_write.py"]) == 1
    assert ran.status == 1


def test_what_would_run_is_listed_once_and_shown_for_each_tool(tmp_path: Path) -> None:
    repository, _ = tree(tmp_path, "test_fine.py")
    options = ("--suite", SUITE, "--under", "compute-sanitizer=memcheck,initcheck")
    assert run(repository, *options, "--list").output == f"{FOLDER}/test_fine.py\n"
    shown = run(repository, *options, "--dry-run").output
    assert [f"cpu-{SUITE}-{tool}:" in shown for tool in ("memcheck", "initcheck")] == [True, True]
    assert shown.count("50.0 s  ") == 2


def test_a_failure_may_end_the_tools_after_it(tmp_path: Path) -> None:
    ran = under(tmp_path, "memcheck,racecheck", "test_write.py", more=("--fail-fast",))
    assert [result.under for result in ran.results()["test_write.py"]] == ["memcheck"]


def test_what_failed_under_a_tool_runs_again_under_it(tmp_path: Path) -> None:
    repository, variables = tree(tmp_path, "test_write.py", "test_fine.py")
    options = ("--suite", SUITE, "--under", "compute-sanitizer")
    assert run(repository, *options, **variables).status == 1
    again = run(repository, *options, "--last-failed", **variables)
    by_part = {result.only: result.outcome for result in again.results()["test_write.py"]}
    assert by_part == {(): Outcome.FAILED, ("test_writes_past_the_end",): Outcome.FAILED}
    assert len(again.results()["test_fine.py"]) == 1


def test_a_group_is_split_so_that_each_file_has_its_own_errors(tmp_path: Path) -> None:
    files = {
        name: registered(LAUNCH + FILES[name], more=', in_process_group="g"')
        for name in ("test_fine.py", "test_write.py")
    }
    repository, variables = make(tmp_path, files), install(tmp_path / "tool")
    ran = run(repository, "--suite", SUITE, "--under", "compute-sanitizer", **variables)
    assert ran.result("test_fine.py").outcome is Outcome.PASSED
    assert ran.result("test_write.py").outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--under", "valgrind"), "--under valgrind"),
        (("--under", "compute-sanitizer=memchek"), "memcheck"),
        (("--under", "compute-sanitizer="), "no tool"),
        (("--under", "compute-sanitizer", "--isolate", "fork"), "--isolate fork"),
        (("--under", "compute-sanitizer"), "pip install nvidia-cuda-sanitizer-api"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    repository, _ = tree(tmp_path, "test_fine.py")
    if Path("/usr/local/cuda/bin/compute-sanitizer").exists() and "pip" in said:
        pytest.skip("it is installed here")
    path = os.pathsep.join(["/usr/bin", "/bin"])
    ran = run(repository, "--suite", SUITE, *arguments, PATH=path, CUDA_HOME="", CUDA_PATH="")
    assert ran.status == 2
    assert said in ran.error
    assert not ran.results()


LANE = TAXONOMY.replace(
    "    - {stage: base-b,", "    - {stage: base-b, under: [memcheck, racecheck], under_factor: 4,"
)
OTHER = "base-b-test-cpu"


def test_a_suite_that_asks_for_tools_is_planned_run_and_verified(tmp_path: Path) -> None:
    files = {name: registered(LAUNCH + FILES[name]) for name in ("test_fine.py", "test_race.py")}
    files = {name: text.replace('"base-a"', '"base-b"') for name, text in files.items()}
    repository, variables = make(tmp_path, files), install(tmp_path / "tool")
    (repository / "test" / "suites.yml").write_text(LANE)
    planned = runci(repository, "plan", "--all", "--output", "plan.json")
    assert planned.returncode == 0, planned.stderr
    for shard in ("1of2", "2of2"):
        options = ("--plan", "plan.json", "--shard", f"cpu-{OTHER}-{shard}")
        ran = run(repository, *options, **variables)
    outcomes = {
        (name, result.under): result.outcome
        for name, results in ran.results().items()
        for result in results
    }
    assert outcomes == {
        ("test_fine.py", "memcheck"): Outcome.PASSED,
        ("test_fine.py", "racecheck"): Outcome.PASSED,
        ("test_race.py", "memcheck"): Outcome.PASSED,
        ("test_race.py", "racecheck"): Outcome.FAILED,
    }
    verified = runci(repository, "verify", "plan.json", ".runci/results")
    assert verified.returncode == 1
    assert f"test_race.py (cpu {OTHER} under racecheck)" in verified.stdout
    assert "not verified: 1 failed" in verified.stdout
    refused = run(
        repository, *options, "--under", "compute-sanitizer=memcheck", **variables
    )  # the plan says racecheck
    assert refused.status == 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
