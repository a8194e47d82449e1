"""The workflows of this repository, run under act: which jobs start, and what the summary says.

act is not GitHub. Where it differs, `runci audit` proves the rest, over every end that a job can
have:
- A failure inside a called workflow ends act's whole plan, while GitHub goes on with jobs whose
  conditions hold. So behind a gate that denied nothing more is seen to run, but for the case
  `TOLERATED`, in which the gate says no and succeeds: nothing may depend on its failure.
- act ignores the types of an event, concurrency, permissions and timeouts, and a label of a runner
  leads to this machine.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from act_repository import without_gpus
from act_workflows import TOLERATED, Scratch
from fake_github import FakeGitHub
from places import ROOT

from runci import register_cpu_ci

register_cpu_ci(est_time=97, stage="base-a", runner_config="cpu")

FIRST = {"check-changes", "gate"}  # what waits for nothing
WAITED = {*FIRST, "lint", "base-a"}  # what GPU jobs wait for
CPU = {*WAITED, "base-b-test-cpu"}
KERNEL = {"jit-kernel-unit-test-5090", "jit-kernel-unit-test-h100", "jit-kernel-benchmark-5090"}
GPU = {*KERNEL, "base-b-test-1-gpu-small", "extra-a-test-1-gpu-small"}
FINISH = "pr-test-finish"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    folder = tmp_path_factory.mktemp("act")
    yield Scratch(folder)
    shutil.rmtree(folder, ignore_errors=True)


def shards(artifacts: frozenset[str]) -> set[str]:
    """The suites whose results were kept."""
    kept = (name for name in artifacts if name.startswith("results-"))
    return {name.partition("-test-")[0].removeprefix("results-") for name in kept}


def test_a_maintainers_label_starts_the_gpu_jobs_of_that_commit(scratch: Scratch) -> None:
    ran = scratch.run("pr-test.yml", scratch.saved("labeled-by-maintainer-on-fork"))
    # Only the kernel changed, so base-b has nothing to do.
    assert ran.all_of("success") == {*CPU, *KERNEL, FINISH} == set(ran.jobs), str(ran)
    for job in KERNEL:  # the default branch's gate first, then what was authorized
        assert ran.checkouts[job] == [scratch.base, scratch.merge]
    assert ran.checkouts["gate"] == [scratch.base]
    for job in ("check-changes", FINISH):  # the base's runci plans and verifies
        assert ran.checkouts[job] == [scratch.base, scratch.merge]
    assert "its own runci" not in ran.summary
    assert "### GPU jobs may run" in ran.summary
    assert "5 files of 5 suites ran as planned and executed 10 tests" in ran.summary
    assert shards(ran.artifacts) == {
        "cpu-base-a",
        "cpu-base-b",
        "cuda-base-b-kernel-unit",
        "cuda-base-b-kernel-benchmark",
    }


def test_without_the_label_only_cpu_jobs_run_and_the_last_job_is_red(scratch: Scratch) -> None:
    ran = scratch.run("pr-test.yml", scratch.saved("unlabelled"), edit=TOLERATED)
    assert set(ran.jobs) == {*CPU, FINISH}, str(ran)
    assert ran.all_of("failure") == {FINISH}
    assert "may not run" in ran.summary
    assert "puts on `run-ci`." in ran.summary
    assert "runci run --plan plan.json --shard cuda-base-b-kernel-unit" in ran.summary


def test_a_change_that_starts_nothing_needs_no_label(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, {".pre-commit-config.yaml": "repos: []\n"})
    ran = scratch.run("pr-test.yml", scratch.saved("unlabelled"), edit=TOLERATED)
    assert ran.all_of("success") == {*FIRST, "lint", FINISH} == set(ran.jobs), str(ran)
    assert "may not run" in ran.summary
    assert "Nothing is planned." in ran.summary


FORGES = """\
import sys
from pathlib import Path

import pytest
from runci import register_cpu_ci
from runci.core.result import FileResult, Outcome
from runci.plan.model import read_plan

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_it_runs() -> None:
    plan = read_plan("plan.json")
    for suite in plan.suites:
        for shard in suite.shards:
            for file in shard.files if suite.backend == "cuda" else ():
                of = (suite.name, suite.backend, shard.id, file.path, Outcome.PASSED)
                forged = FileResult(*of, 2, 0, (), 1.0, 1.0, commit=plan.commit, plan=plan.digest)
                Path("results", f"{shard.id}.json").write_text(forged.to_json())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
"""


def test_a_cpu_test_cannot_write_the_gpus_results(tmp_path: Path) -> None:
    """The gate said no; what the CPU's job kept looks whole, but no GPU job ever ran."""
    forge = {"test/registered/unit/test_cpu.py": FORGES, "kernel/gemm.py": "FASTER = 1\n"}
    scratch = Scratch(tmp_path, forge)
    ran = scratch.run("pr-test.yml", scratch.saved("unlabelled"), edit=TOLERATED)
    assert ran.jobs["base-a"] == "success", str(ran)
    assert ran.all_of("failure") == {FINISH}
    assert len(set(re.findall(r"shard (\S+): GitHub lists no job", ran.summary))) == len(KERNEL)
    assert "in what the job of cpu-base-a-test-cpu-1of1 kept" in ran.summary
    assert "| ❌ | call-jit-kernel-tests | was skipped: " in ran.summary
    assert "ran as planned" not in ran.summary


def test_a_change_of_runci_is_planned_and_verified_by_its_own(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, {"ci_scripts/runci/new.py": "", "kernel/gemm.py": "FASTER = 1\n"})
    ran = scratch.run("pr-test.yml", scratch.saved("labeled-by-maintainer-on-fork"))
    assert ran.jobs[FINISH] == "success", str(ran)
    assert ran.summary.count("verified by its own runci, suites.yml") == 2  # plan and finish
    ran = scratch.run("pr-test.yml", scratch.saved("unlabelled"), edit=TOLERATED)
    assert ran.jobs[FINISH] == "failure", str(ran)
    assert "the gate did not allow it: not verified" in ran.summary


def test_a_change_of_runci_on_the_base_is_not_the_pull_requests(tmp_path: Path) -> None:
    """An event's base is the one of its last push; the commit is merged into what is there now."""
    scratch = Scratch(tmp_path, {".pre-commit-config.yaml": "repos: []\n"})
    event = scratch.saved("unlabelled")  # of the base as it is yet
    scratch.git("checkout", "-q", "main")
    newer = scratch.root / "ci_scripts" / "newer.py"
    newer.parent.mkdir()
    newer.touch()
    scratch.git("add", "--all")
    scratch.git("commit", "-q", "-m", "newer")
    scratch.git("checkout", "-q", "--detach")
    scratch.git("merge", "-q", "--no-ff", "-m", "merge", "faster-gemm")
    scratch.merge = scratch.git("rev-parse", "HEAD")
    ran = scratch.run("pr-test.yml", event, edit=TOLERATED)
    assert ran.jobs[FINISH] == "success", str(ran)
    assert "its own runci" not in ran.summary


def test_whoever_takes_a_change_of_runci_back_changes_it(tmp_path: Path) -> None:
    """Also where it is again as the event's base has it, which may have faults that were mended."""
    scratch = Scratch(tmp_path, {".pre-commit-config.yaml": "repos: []\n"})
    event = scratch.saved("unlabelled")
    scratch.git("checkout", "-q", "--detach", "main")
    older = scratch.git("rev-parse", "HEAD:test/suites.yml")
    suites = scratch.root / "test" / "suites.yml"
    suites.write_text(suites.read_text(encoding="utf-8") + "# newer\n", encoding="utf-8")
    scratch.git("commit", "-q", "--all", "-m", "newer")
    scratch.git("merge", "-q", "--no-ff", "--no-commit", "faster-gemm")
    scratch.git("checkout", "-q", "main", "--", "test/suites.yml")
    scratch.git("commit", "-q", "-m", "merge")
    scratch.merge = scratch.git("rev-parse", "HEAD")
    assert scratch.git("rev-parse", "HEAD:test/suites.yml") == older
    ran = scratch.run("pr-test.yml", event, edit=TOLERATED)
    assert ran.all_of("failure") == {FINISH}, str(ran)
    assert "the gate did not allow it: not verified" in ran.summary


def test_no_outsider_takes_the_gpus_suites_out_of_the_plan(tmp_path: Path) -> None:
    """The base's runci reads the suites.yml of the commit: with another kind nothing is left."""
    text = (ROOT / "test" / "suites.yml").read_text(encoding="utf-8")
    before, cuda = without_gpus(text).split("  cuda:\n")
    asleep = f"{before}  cuda:\n{cuda.replace('kind: per-commit', 'kind: stress')}"
    scratch = Scratch(tmp_path, {"test/suites.yml": asleep, "kernel/gemm.py": "FASTER = 1\n"})
    ran = scratch.run("pr-test.yml", scratch.saved("unlabelled"), edit=TOLERATED)
    assert set(ran.jobs) == {*CPU, FINISH}, str(ran)
    assert ran.all_of("failure") == {FINISH}
    assert "the gate did not allow it: not verified" in ran.summary


@pytest.mark.parametrize(
    ("name", "rule", "remedy"),
    [
        ("unlabelled", "label-missing", "A maintainer who has read the commit puts on"),
        ("labeled-by-author", "no-grant", "A maintainer who has read this commit"),
        ("pushed-after-label", "superseded", "Look at the newest run"),
        ("draft", "draft", "Press «Ready for review»"),
        ("fork-changes-workflow", "protected", "comments `/run-ci` with the full commit"),
        ("rerun-label-removed-since", "label-missing", "A maintainer who has read the commit"),
    ],
)
def test_what_is_denied(scratch: Scratch, name: str, rule: str, remedy: str) -> None:
    ran = scratch.run("pr-test.yml", scratch.saved(name))
    assert not GPU & set(ran.jobs)
    assert (ran.jobs["gate"], ran.jobs["check-changes"]) == ("failure", "success"), str(ran)
    assert f"(rule `{rule}`)" in ran.summary
    assert remedy in ran.summary


def test_an_api_that_is_down_denies(scratch: Scratch) -> None:
    event = scratch.saved("labeled-by-maintainer-on-fork")
    ran = scratch.run("pr-test.yml", event, lambda github: github.fault("/pulls/7", "500"))
    assert ran.all_of("failure") == {"gate"}
    assert set(ran.jobs) == FIRST
    assert "status 500 (rule `unknown`)" in ran.summary.replace("\\", "")
    assert "**What to do:** Run" in ran.summary


def test_a_label_of_others_runs_nothing_and_replaces_no_check(scratch: Scratch) -> None:
    ran = scratch.run("pr-test.yml", scratch.saved("unrelated-label"))
    assert ran.all_of("success") == {*FIRST, FINISH} == set(ran.jobs), str(ran)
    assert "### Nothing to decide" in ran.summary
    assert "PR Test (Base)/nothing to test" in ran.log
    asked = [path.split("/")[4:] for _, path, _ in ran.github.requests]
    assert {"".join(path[:1]) for path in asked} == {"", "branches", "git"}  # the labels' names


def test_a_label_that_only_the_workflow_knows_gives_no_required_check(scratch: Scratch) -> None:
    """A branch has older labels than the default branch's settings: the gate ignores its run."""
    event = scratch.saved("labeled-by-maintainer-on-fork")
    text = "version: 1\npeople: []\nlabels: {run: go}\n"
    event["world"]["contents"] = {".github/ci-permissions.yml": text}
    ran = scratch.run("pr-test.yml", event)
    assert ran.all_of("success") == {*FIRST, FINISH} == set(ran.jobs), str(ran)
    assert "### Nothing to decide" in ran.summary
    names = set(re.findall(r'"job":"PR Test \(Base\)/([^"]+)","jobID":"pr-test-finish"', ran.log))
    assert {name.strip() for name in names} == {"nothing to test"}


def test_a_label_that_is_taken_off_while_the_machine_was_awaited(scratch: Scratch) -> None:
    def prepare(github: FakeGitHub) -> None:
        # The gate reads the pull request once more after its comments; then the label goes.
        def after_comments(_: dict[str, Any]) -> None:
            github.after["/pulls/7"] = lambda world: world["pull"].update(labels=[])

        github.after["/issues/7/comments"] = after_comments

    event = scratch.saved("labeled-by-maintainer-on-fork")
    ran = scratch.run("pr-test.yml", event, prepare)
    assert ran.all_of("success") == CPU, str(ran)
    assert ran.all_of("failure") == KERNEL
    assert all(ran.checkouts[job] == [scratch.base] for job in KERNEL)
    assert shards(ran.artifacts) == {"cpu-base-a", "cpu-base-b"}


def test_a_broken_cpu_test_costs_no_gpu(scratch: Scratch) -> None:
    event = scratch.saved("labeled-by-maintainer-on-fork")
    ran = scratch.run("pr-test.yml", event, broken="base-a")
    assert set(ran.jobs) == {*CPU, FINISH}, str(ran)
    assert ran.all_of("failure") == {"base-a", FINISH}
    assert "| ❌ | base-a | failed |" in ran.summary


def test_bypass_fastfail_starts_the_gpu_jobs_all_the_same(scratch: Scratch) -> None:
    event = scratch.saved("labeled-by-maintainer-on-fork")
    event["world"]["pull"]["labels"] = ["run-ci", "bypass-fastfail"]
    event["world"]["events"] = [
        {"event": "labeled", "label": label, "actor": "mona"}
        for label in ("bypass-fastfail", "run-ci")
    ]
    ran = scratch.run("pr-test.yml", event, broken="base-a")
    # Without waiting: what they wait for is skipped, and others stand in for it.
    assert set(ran.jobs) == CPU - {"base-a"} | {"base-a-beside", *KERNEL, FINISH}, str(ran)
    assert ran.all_of("failure") == {"base-a-beside", FINISH}
    assert "lint-beside/Lint/lint" in ran.log
    assert "| ✅ | lint | was skipped: lint-beside ran instead |" in ran.summary


def test_the_schedule_runs_everything_on_the_default_branch(scratch: Scratch) -> None:
    ran = scratch.run("pr-test.yml", scratch.saved("schedule"))
    wanted = {*CPU, *KERNEL, "base-b-test-1-gpu-small", FINISH}
    assert ran.all_of("success") == wanted == set(ran.jobs), str(ran)
    assert {commit for job in ran.checkouts.values() for commit in job} == {scratch.base}
    assert "6 files of 6 suites ran as planned" in ran.summary


def test_a_dispatch_runs_the_one_test_that_was_asked_for(scratch: Scratch) -> None:
    event = scratch.saved("dispatch-by-comment")
    event["payload"]["inputs"]["test"] += "::test_it_runs"
    event["world"]["comments"][0]["body"] += "::test_it_runs"
    ran = scratch.run("pr-test.yml", event)
    wanted = {*FIRST, "lint", *KERNEL, FINISH}
    assert ran.all_of("success") == wanted == set(ran.jobs), str(ran)
    assert all(ran.checkouts[job] == [scratch.base, scratch.head] for job in KERNEL)
    assert ran.checkouts["gate"] == [scratch.base]
    assert "3 files of 3 suites ran as planned and executed 3 tests" in ran.summary


def test_extra_needs_the_second_label(scratch: Scratch) -> None:
    ran = scratch.run("pr-test-extra.yml", scratch.saved("extra-without-second-label"))
    assert ran.jobs == {"gate": "failure"}, str(ran)
    assert "(rule `label-missing`)" in ran.summary
    assert "`run-ci-extra`" in ran.summary


def test_both_labels_start_extra(scratch: Scratch) -> None:
    ran = scratch.run("pr-test-extra.yml", scratch.saved("extra-with-both-labels"))
    gpu = "extra-a-test-1-gpu-small"
    assert ran.all_of("success") == {*WAITED, gpu, "pr-test-extra-finish"} == set(ran.jobs)
    assert ran.checkouts[gpu] == [scratch.base, scratch.merge]
    assert "2 files of 2 suites ran as planned" in ran.summary


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
