"""`runci run` given bad input, a bad place for its results, or a bad clock: as real processes."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import (
    FOLDER,
    MAIN,
    PASS,
    SUITE,
    TAXONOMY,
    UNITTEST,
    environment,
    make,
    registered,
    run,
    runci,
    start,
)

from runci import register_cpu_ci
from runci.core.result import Outcome
from runci.plan.model import Plan, PlannedFile, PlannedSuite, Shard

register_cpu_ci(est_time=59, stage="base-a", runner_config="cpu")

ONE = f"{FOLDER}/test_one.py"
FAIL = "def test_fails(): assert 0\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(
        tmp_path / "root", {"test_one.py": registered(PASS), "test_two.py": registered(PASS)}
    )


def commit(root: Path) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True)
    return found.stdout.decode().strip()


def make_plan(commit: str, *ids: str) -> Plan:
    shards = tuple(
        Shard(name, i, len(ids), 5.0, (PlannedFile(f"{FOLDER}/test_{what}.py", 5.0),))
        for i, (name, what) in enumerate(zip(ids, ("one", "two"), strict=False))
    )
    suite = PlannedSuite(
        "cpu", SUITE, "per-commit", "cpu", "ubuntu-latest", 0, 15, "pytest", shards
    )
    return Plan(commit, (suite,))


def test_a_shard_of_a_plan_runs_and_its_results_carry_the_plan(root: Path) -> None:
    plan = make_plan(commit(root), "a-1of2", "a-2of2")
    (root / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    ran = run(root, "--plan", "plan.json", "--shard", "a-2of2")
    assert ran.status == 0, ran.error
    (result,) = ran.results()["test_two.py"]
    assert (result.plan, result.commit, result.shard) == (plan.digest, plan.commit, "a-2of2")
    assert "this shard again: runci run --plan plan.json --shard a-2of2\n" in ran.output
    assert ran.last == "1 passed, 0 failed, 0 skipped"
    for place, status in ((FOLDER, 0), (f"{FOLDER}/test_two.py", 0), (ONE, 2), ("test/x", 2)):
        ran = run(root, "--plan", "plan.json", "--shard", "a-2of2", "--list", place)
        assert (ran.status, ran.output) == (status, "" if status else f"{FOLDER}/test_two.py\n")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (make_plan("0" * 40, "a"), r"a plan of commit 000000000000, but \w+ is checked out"),
        (replace(make_plan("", "a"), version=9), "plan version 9, but this runci reads 5"),
        (make_plan("", "a", "a"), "two shards have the id a"),
        (make_plan("", "a", "b"), "choose a shard with --shard ID: a, b"),
    ],
)
def test_a_plan_that_is_not_of_this_tree_runs_nothing(root: Path, plan: Plan, said: str) -> None:
    commit(root)
    (root / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    ran = run(root, "--plan", "plan.json")
    assert ran.status == 2
    assert re.search(f"plan.json: .*{said}", ran.error), ran.error
    assert not ran.results()


def test_a_suite_beside_the_plan_must_be_the_one_of_the_shard(root: Path) -> None:
    (root / "plan.json").write_text(make_plan("", "a", "b").to_json(), encoding="utf-8")
    planned = ("--plan", "plan.json", "--shard", "a", "--list")
    assert run(root, *planned, "--suite", SUITE, "--hw", "cpu").status == 0
    for other in (("--suite", "base-b-test-cpu"), ("--hw", "cuda")):
        ran = run(root, *planned, *other)
        assert ran.status == 2
        assert "plan.json" in ran.error and "shard" in ran.error


def test_an_edited_plan_is_told_by_its_digest(root: Path) -> None:
    text = make_plan("", "a").to_json().replace("test_one", "test_two")
    (root / "plan.json").write_text(text, encoding="utf-8")
    ran = run(root, "--plan", "plan.json")
    assert ran.status == 2
    assert "digest" in ran.error


def test_a_red_shard_is_repeated_by_one_command_without_the_plan(root: Path) -> None:
    make(root, {"test_two.py": registered(FAIL)})
    plan = make_plan("", "a-1of2", "a-2of2")
    (root / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    ran = run(root, "--plan", "plan.json", "--shard", "a-2of2")
    (root / "plan.json").unlink()
    command = ran.output.partition("the whole shard, without the plan\n")[2].splitlines()[0]
    again = run(root, *command.partition("runci run ")[2].split())
    assert (again.status, list(again.results())) == (1, ["test_two.py"])
    assert again.last == "0 passed, 1 failed, 0 skipped"


def test_a_failed_file_of_a_plan_is_repeated_without_the_plan(root: Path) -> None:
    make(root, {"test_two.py": registered(FAIL)})
    plan = make_plan("", "a-1of2", "a-2of2")
    (root / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    ran = run(root, "--plan", "plan.json", "--shard", "a-2of2")
    (root / "plan.json").unlink()
    printed = next(line for line in ran.output.splitlines() if "repeat: " in line)
    command = printed.partition("repeat: runci run ")[2].split()
    assert command == ["--suite", SUITE, "--hw", "cpu", f"{FOLDER}/test_two.py"]
    assert run(root, *command).last == "0 passed, 1 failed, 0 skipped"


def test_a_plan_that_is_not_there_says_where_to_get_it(root: Path) -> None:
    ran = run(root, "--plan", "plan.json", "--shard", "a")
    assert ran.status == 2
    assert "`runci plan" in ran.error


def test_a_planned_file_that_is_gone_is_named(root: Path) -> None:
    (root / "plan.json").write_text(make_plan("", "a").to_json(), encoding="utf-8")
    (root / ONE).unlink()
    ran = run(root, "--plan", "plan.json")
    assert ran.status == 2
    assert f"{ONE} is planned" in ran.error


def test_a_suite_without_tests_is_a_failure_unless_allowed(root: Path) -> None:
    ran = run(root, "--suite", "base-b-test-cpu")
    assert ran.status == 3
    assert "--allow-empty" in ran.error
    assert run(root, "--suite", "base-b-test-cpu", "--allow-empty").status == 0


def test_an_empty_shard_of_a_suite_with_tests_is_fine(root: Path) -> None:
    # vllm#32040: two tests in three shards
    ran = run(root, "--suite", SUITE, "--shard", "3/3")
    assert ran.status == 0
    assert ran.last == "0 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "base-a-test-cpi"], "no such suite; did you mean 'base-a-test-cpu'"),
        (["--suite", SUITE, "--shard", "3/2"], "write I/N with I from 1 to N"),
        (["--suite", SUITE, "--repeat", "2", "--retries", "1"], "leave --retries out"),
        (["test/registered/unit/test_none.py"], "no such file"),
        ([], "name what to run"),
    ],
)
def test_wrong_use_says_what_to_write(root: Path, arguments: list[str], said: str) -> None:
    ran = run(root, *arguments)
    assert ran.status == 2
    assert said in ran.error


def test_shards_of_a_suite_are_disjoint_and_complete(root: Path) -> None:
    listed = [run(root, "--suite", SUITE, "--shard", f"{i}/2", "--list").output for i in (1, 2)]
    assert sorted(listed) == [f"{FOLDER}/test_one.py\n", f"{FOLDER}/test_two.py\n"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_a_results_folder_that_cannot_be_written_ends_before_any_test(root: Path) -> None:
    # Mode bits mean nothing to root: the kernel's own folder refuses both.
    for place in ("/proc/runci-results", str(root / ONE)):
        ran = run(root, "--suite", SUITE, "--results", place)
        assert ran.status == 2
        assert f"--results {place}: cannot be written: " in ran.error
        assert "nothing was run" in ran.error


def test_a_disk_that_is_full_loses_no_result(root: Path) -> None:
    """RLIMIT_FSIZE stands in for the full disk: no file may grow beyond 800 bytes."""
    long = "test_" + "x" * 300
    make(
        root, {"test_one.py": registered(f"@pytest.mark.skip(reason='r' * 500)\ndef {long}(): 1\n")}
    )

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (800, 800))

    ran = run(root, "--suite", SUITE, limits=limits)
    assert ran.status == 1, ran.error
    assert "File too large" in ran.output and ": {" in ran.output
    assert '"outcome": "skipped"' in ran.output
    assert set(ran.results()) == {"test_two.py"}
    assert ran.last == "1 passed, 1 failed, 0 skipped"


def test_results_that_could_not_be_written_are_no_success(root: Path) -> None:
    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (520, 520))

    make(root, {"test_one.py": registered(f"def test_{'x' * 9}(): pass\n", seconds=5)})
    ran = run(root, "--suite", SUITE, "--retries", "0", limits=limits)
    written = ran.results()
    assert (ran.status == 0) == (len(written) == 2)
    if len(written) < 2:
        assert ran.status == 2
        assert "cannot write" in ran.output


def test_junit_that_was_asked_for_and_not_written_is_no_success(root: Path) -> None:
    ran = run(root, ONE, "--junit", "nowhere/junit.xml")
    assert ran.status == 2
    assert "JUnit XML: nowhere/junit.xml: cannot write" in ran.output
    assert ran.last == "1 passed, 0 failed, 0 skipped"
    assert run(root, ONE, "--junit", "junit.xml").status == 0


def test_a_truncated_result_runs_again_with_last_failed(root: Path) -> None:
    make(root, {"test_two.py": registered(FAIL), "test_three.py": registered(PASS)})
    assert run(root, "--suite", SUITE).status == 1
    torn = next((root / ".runci/results").glob("test_one.*.json"))
    torn.write_bytes(torn.read_bytes()[:40])
    make(root, {"test_two.py": registered(PASS)})
    due = [f"{FOLDER}/test_one.py", f"{FOLDER}/test_two.py"]
    assert run(root, "--suite", SUITE, "--last-failed", "--list").output.split() == due
    assert "test_three.py" not in run(root, "--suite", SUITE, "--last-failed", "--dry-run").output
    ran = run(root, "--suite", SUITE, "--last-failed")
    assert ran.status == 0, ran.output
    assert f"{torn.name}: not" in ran.output
    assert ran.last == "2 passed, 0 failed, 0 skipped"
    assert [r.attempt for r in ran.results()["test_two.py"]] == [1, 2]
    assert len(ran.results()["test_three.py"]) == 1
    assert "no file failed" in run(root, "--suite", SUITE, "--last-failed").output


def test_a_run_of_a_shard_forgets_files_that_are_gone(root: Path) -> None:
    run(root, "--suite", SUITE)
    (root / ONE).unlink()
    run(root, f"{FOLDER}/test_two.py")  # of named files, only these
    ran = run(root, "--suite", SUITE, "--list")
    assert set(ran.results()) == {"test_one.py", "test_two.py"}
    assert set(run(root, "--suite", SUITE).results()) == {"test_two.py"}


def test_two_runs_of_one_shard_cannot_share_a_folder(root: Path) -> None:
    make(root, {"test_one.py": registered("def test_sleeps(): time.sleep(30)\n")})
    first = start(root, "--suite", SUITE)
    with first:
        folder = root / ".runci/results"
        while not list(folder.glob("test_two.*.json")):
            assert first.poll() is None
        second = run(root, "--suite", SUITE)
        first.terminate()
        first.communicate(timeout=60)
    assert second.status == 2
    assert "another run is" in second.error


def test_a_clock_that_jumps_changes_no_duration(root: Path, tmp_path: Path) -> None:
    """Every call of time.time() in every process is an hour before the last one."""
    jumps = (
        "import time\n_t = [2e9]\n"
        "def back():\n    _t[0] -= 3600\n    return _t[0]\n"
        "time.time = back\n"
    )
    (tmp_path / "sitecustomize.py").write_text(jumps, encoding="utf-8")
    found = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ran = run(root, "--suite", SUITE, "--timeout-per-file", "60", PYTHONPATH=found)
    assert ran.status == 0, ran.output + ran.error
    assert all(0 < r.seconds < 60 for some in ran.results().values() for r in some)
    assert all(r.started < 2e9 for some in ran.results().values() for r in some)


def test_a_disabled_file_is_listed_and_does_not_run(root: Path) -> None:
    make(root, {"test_two.py": registered(FAIL, more=', disabled="see #7"')})
    ran = run(root, "--suite", SUITE)
    assert ran.status == 0
    assert f"disabled  {FOLDER}/test_two.py: see #7" in ran.output
    assert "1 file disabled" in ran.output
    named = run(root, f"{FOLDER}/test_two.py")
    assert (named.status, "disabled in" in named.error) == (2, True)


PARTS = """\
class TestIt(unittest.TestCase):
    def test_parts_may_skip(self):
        with self.subTest(i=1):
            self.skipTest("no driver") if SEEN else self.fail()
    def test_other(self): pass
"""


@pytest.mark.parametrize(
    ("body", "main", "options"),
    [
        ("def test_may_skip():\n    if SEEN: pytest.skip('no')\n    assert 0\n", MAIN, []),
        ("if not SEEN:\n    def test_gone(): assert 0\n", MAIN, []),
        (PARTS, UNITTEST, ["--as-script"]),
    ],
)
def test_a_retry_must_pass_what_failed(
    root: Path, body: str, main: str, options: list[str]
) -> None:
    seen = "SEEN = os.path.exists('seen')\nopen('seen', 'w').close()\n"
    make(root, {"test_one.py": registered(seen + body + PASS, main=main)})
    ran = run(root, ONE, "--retries", "1", *options)
    outcomes = [r.outcome for r in ran.results()["test_one.py"]]
    assert (ran.status, outcomes) == (1, [Outcome.FAILED, Outcome.FAILED]), ran.output


def test_last_failed_does_not_take_results_of_another_commit(root: Path) -> None:
    first = commit(root)
    assert run(root, "--suite", SUITE).status == 0
    (root / f"{FOLDER}/test_one.py").write_text(registered("def test_passes(): assert 0"))
    commit(root)
    options = ("--suite", SUITE, "--last-failed")
    assert len(run(root, *options, "--list").output.split()) == 2
    ran = run(root, *options)
    assert (ran.status, ran.last) == (1, "1 passed, 1 failed, 0 skipped"), ran.output
    assert f"are of commit {first[:12]}" in ran.output
    assert len({r.commit for of in ran.results().values() for r in of}) == 1
    again = run(root, *options)  # at the same commit: what failed, alone
    assert (again.status, again.last) == (1, "0 passed, 1 failed, 0 skipped")


def test_a_group_whose_other_file_failed_once(root: Path) -> None:
    group = {"more": ", in_process_group='g'"}
    coin = "def test_coin():\n    seen = os.path.exists('seen')\n    open('seen', 'w').close()\n"
    make(
        root,
        {
            "test_one.py": registered(coin + "    assert seen\n", **group),
            "test_two.py": registered(PASS, **group),
        },
    )
    files = [ONE, f"{FOLDER}/test_two.py"]
    commit(root)
    plan = [sys.executable, "-m", "runci", "plan", "--all", "-o", "plan.json"]
    subprocess.run(plan, cwd=root, check=True, env=environment(root), stdout=subprocess.DEVNULL)
    ran = run(root, "--plan", "plan.json", *files, "--retries", "1")
    assert ran.status == 0, ran.output
    judge = [sys.executable, "-m", "runci", "verify", "plan.json", ".runci/results"]
    judged = subprocess.run(
        judge, cwd=root, capture_output=True, check=False, env=environment(root)
    )
    assert judged.returncode == 0, judged.stdout


def test_a_pass_on_retry_is_flaky_and_shown(root: Path) -> None:
    # bazel#3783
    body = "def test_coin():\n    seen = os.path.exists('seen')\n    open('seen', 'w').close()\n"
    make(root, {"test_one.py": registered(body + "    assert seen\n")})
    ran = run(root, ONE, "--retries", "2")
    assert ran.status == 0
    first, second = ran.results()["test_one.py"]
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.FLAKY)
    assert "passed on attempt 2" in ran.output
    assert "1 flaky" in ran.output
    (root / "seen").unlink()
    assert run(root, ONE, "--retries", "2", "--flaky-fails").status == 1
    # What failed the run is what failed last time.
    assert "no file failed" in run(root, ONE, "--last-failed").output
    again = run(root, ONE, "--last-failed", "--flaky-fails")
    assert again.last == "1 passed, 0 failed, 0 skipped"


def test_a_skip_on_retry_is_a_failure(root: Path) -> None:
    # pytorch#162978
    body = "def test_may_skip():\n    if os.path.exists('seen'): pytest.skip('now')\n"
    make(root, {"test_one.py": registered(body + "    open('seen', 'w').close()\n    assert 0\n")})
    ran = run(root, ONE, "--retries", "1")
    assert ran.status == 1
    assert ran.results()["test_one.py"][-1].outcome is Outcome.FAILED
    assert "then it was skipped" in ran.output


def test_files_of_a_group_share_a_process(root: Path) -> None:
    more = ', in_process_group="g"'
    note = "def test_pid():\n    print(f'pid={os.getpid()}')\n"
    files = {"test_one.py": note, "test_two.py": note + FAIL, "test_three.py": PASS + note}
    make(root, {name: registered(body, more=more) for name, body in files.items()})
    ran = run(root, "--suite", SUITE)
    logs = [p.read_text(encoding="utf-8") for p in (root / ".runci/results/logs").glob("*.log")]
    assert len({pid for text in logs for pid in re.findall(r"pid=(\d+)", text)}) == 1
    assert ran.result("test_one.py").outcome is Outcome.PASSED
    assert ran.result("test_two.py").outcome is Outcome.FAILED
    assert (ran.result("test_three.py").outcome, ran.result("test_three.py").tests) == (
        Outcome.PASSED,
        2,
    )


def test_github_gets_groups_annotations_and_a_summary(root: Path) -> None:
    body = "def test_fails():\n    print('::error::forged')\n    assert 0\n"
    make(root, {"test_one.py": registered(body)})
    page = root / "summary.md"
    ran = run(root, "--suite", SUITE, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
    lines = ran.output.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("::group::FAILED"))
    token = lines[begin + 1].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert lines[end + 1] == "::endgroup::"
    forged = [i for i, line in enumerate(lines) if "::error::forged" in line]
    assert forged
    assert all(begin < i < end for i in forged)
    assert any(line.startswith(f"::error file={ONE},title=failed") for line in lines)
    assert "slowest files" in page.read_text(encoding="utf-8")
    assert "actual / predicted" in page.read_text(encoding="utf-8")


def test_what_is_no_text_reaches_the_page_and_junit_escaped(root: Path) -> None:
    odd = "def test_fails(): assert 0, 'odd ' + chr(0xdcff) + chr(0) + chr(27) + ']]>'\n"
    make(root, {"test_one.py": registered(odd), "test_\udcff.py": registered(odd)})
    page = root / "summary.md"
    options = ("--suite", SUITE, "--junit", "junit.xml")
    ran = run(root, *options, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
    assert (ran.status, ran.last) == (1, "1 passed, 2 failed, 0 skipped"), ran.error
    assert r"test_\udcff.py" in page.read_text(encoding="utf-8")
    assert r"odd \\udcff" in page.read_text(encoding="utf-8")  # of which Markdown takes one
    ElementTree.parse(root / "junit.xml")


def test_order_is_random_by_a_printed_seed(root: Path) -> None:
    make(root, {f"test_{i}.py": registered(PASS) for i in range(8)})
    options = ("--suite", SUITE, "--order", "random", "--dry-run")
    printed = run(root, *options).output
    seed = re.search(r"--seed (\d+)", printed)
    assert seed is not None
    assert run(root, *options, "--seed", seed[1]).output == printed
    assert len({run(root, *options, "--seed", str(s)).output for s in range(3)}) == 3


def test_repeat_runs_each_file_again_and_one_failure_counts(root: Path) -> None:
    body = "def test_count():\n    with open('count', 'a') as f: f.write('x')\n"
    body += "    assert os.path.getsize('count') != 2\n"
    make(root, {"test_one.py": registered(body)})
    ran = run(root, ONE, "--repeat", "3")
    assert ran.status == 1
    assert ran.last == "2 passed, 1 failed, 0 skipped"
    assert [r.attempt for r in ran.results()["test_one.py"]] == [1, 2, 3]


def test_fail_fast_starts_nothing_after_a_failure(root: Path) -> None:
    make(root, {"test_one.py": registered(FAIL)})
    ran = run(root, "--suite", SUITE, "--fail-fast", "--jobs", "1", "--order", "path")
    assert ran.status == 1
    assert set(ran.results()) == {"test_one.py"}
    assert "1 file not run (--fail-fast)" in ran.output


def test_a_rerun_of_a_job_counts_its_attempts_apart(root: Path) -> None:
    ran = run(root, ONE, GITHUB_RUN_ATTEMPT="2")
    assert [r.attempt for r in ran.results()["test_one.py"]] == [11]


def test_plan_run_and_verify_agree(root: Path) -> None:
    """The whole way of a job matrix; a result that is missing, or torn, is never green."""

    def runci(*arguments: str) -> int:
        command = [sys.executable, "-m", "runci", *arguments]
        return subprocess.run(
            command, cwd=root, env=environment(root), check=False, capture_output=True
        ).returncode

    assert runci("plan", "--all", "--shards", f"{SUITE}=2", "-o", "plan.json") == 0
    for index in (1, 2):
        assert runci("run", "--plan", "plan.json", "--shard", f"cpu-{SUITE}-{index}of2") == 0
    assert runci("verify", "plan.json", ".runci/results") == 0
    one = next((root / ".runci/results").glob("test_one.*.json"))
    whole = one.read_bytes()
    one.write_bytes(whole[:50])
    assert runci("verify", "plan.json", ".runci/results") == 1
    one.unlink()
    assert runci("verify", "plan.json", ".runci/results") == 1
    # A rerun of the job replaces the attempt, visibly.
    one.write_bytes(whole)
    again = ("run", "--plan", "plan.json", "--shard", f"cpu-{SUITE}-1of2", "--last-failed")
    assert runci(*again) == 0
    assert runci("verify", "plan.json", ".runci/results") == 0


DROPS = """\
def pytest_collection_modifyitems(config, items):
    drop = [item for item in items if item.name in open("drop").read().split()]
    items[:] = [item for item in items if item not in drop]
    config.hook.pytest_deselected(items=drop)
"""


@pytest.mark.parametrize(
    ("limit", "drop", "status"),
    [(", max_deselected: 1", "a", 0), (", max_deselected: 1", "a b", 1), ("", "a b", 0)],
)
@pytest.mark.parametrize("mode", [(), ("--as-script",)], ids=["pytest", "script"])
def test_more_deselected_tests_than_the_suite_allows(
    root: Path, limit: str, drop: str, status: int, mode: tuple[str, ...]
) -> None:
    body = "".join(f"def test_{name}(): pass\n" for name in "abc")
    make(root, {"test_one.py": registered(body), "conftest.py": DROPS})
    config = TAXONOMY.replace("timeout_minutes: 15}", f"timeout_minutes: 15{limit}}}", 1)
    (root / "test" / "suites.yml").write_text(config)
    (root / "drop").write_text(" ".join(f"test_{name}" for name in drop.split()))
    commit(root)
    planned = ("--plan", "plan.json", "--shard", f"cpu-{SUITE}-1of1")
    assert runci(root, "plan", "--all", "-o", "plan.json").returncode == 0
    for asked in (planned, ("--suite", SUITE, "--results", "other")):
        ran = run(root, *asked, *mode)
        said = "(max_deselected in suites.yml)" in ran.output
        assert (ran.status, said) == (status, bool(status)), ran.output
    judged = runci(root, "verify", "plan.json", ".runci/results")
    assert judged.returncode == status, judged.stdout


def test_the_environment_of_these_tests_has_no_job_around_it(tmp_path: Path) -> None:
    assert not [name for name in environment(tmp_path) if name.startswith("GITHUB")]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
