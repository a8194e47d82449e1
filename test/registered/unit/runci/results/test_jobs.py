"""Results count only from a job that GitHub says succeeded, and from what that job kept."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, world
from planning import GPU, SUITES, cpu_tests, plan_of, registered, results_of
from trees import runci

from runci import register_cpu_ci
from runci.commands.verify import settled
from runci.config.suites import ConfigError, load_taxonomy
from runci.core.errors import RunciError
from runci.core.registration import Backend
from runci.plan.model import Plan
from runci.results.jobs import Job, are_over, job_problems, jobs_of, read_jobs, suites_of
from runci.results.read import misplaced, mixed

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PLAN = plan_of(
    {**cpu_tests(2), "test/registered/gpu/test_gpu.py": (registered(GPU, Backend.CUDA),)}
)
CPU_SHARD, GPU_SHARD = (shard.id for suite in PLAN.suites for shard in suite.shards)
TABLE = {
    "base-a": ("base-a-*",),
    "base-a-beside": ("base-a-test-cpu",),
    "call / gpu": (GPU,),
    "docs": (),
}
CPU_JOB, GPU_JOB = f"base-a ({CPU_SHARD})", f"call / gpu ({GPU_SHARD})"


def job(name: str, end: str | None = "success", attempt: int = 1, ident: int = 1) -> Job:
    return Job(name, attempt, ident, "in_progress" if end is None else "completed", end)


def said(jobs: list[Job], table: dict[str, tuple[str, ...]] = TABLE, plan: Plan = PLAN) -> str:
    return "\n".join(problem.text for problem in job_problems(plan, table, jobs))


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ([job(CPU_JOB), job(GPU_JOB)], ""),
        ([job(f"base-a-beside ({CPU_SHARD})"), job(GPU_JOB)], ""),  # another that runs it
        ([job(CPU_JOB), job(f"call / gpu (3.12, {GPU_SHARD}, x)")], ""),  # a larger matrix
        ([job(CPU_JOB)], f"shard {GPU_SHARD}: GitHub lists no job"),
        ([job(CPU_JOB), job("call / gpu", "skipped")], f"shard {GPU_SHARD}: GitHub lists no job"),
        ([job(CPU_JOB), job(f"gpu ({GPU_SHARD})")], "lists no job"),  # of no such caller
        ([job(CPU_JOB), job(f"call / gpu ({GPU_SHARD}x)")], "lists no job"),
        ([job(CPU_JOB), job(f"base-a ({GPU_SHARD})")], "lists no job"),  # a job of the other suite
        ([job(CPU_JOB), job(GPU_JOB, "failure")], "ended as failure in attempt 1"),
        ([job(CPU_JOB), job(GPU_JOB, "cancelled")], "ended as cancelled"),
        ([job(CPU_JOB), job(GPU_JOB, "neutral")], "ended as neutral"),
        ([job(CPU_JOB), job(GPU_JOB, None)], "is not over: in_progress"),
        # «Re-run failed jobs»: the newest execution counts, wherever it stands in the list.
        ([job(GPU_JOB, "success", 2, 9), job(GPU_JOB, "failure"), job(CPU_JOB)], ""),
        ([job(GPU_JOB, "failure", 2, 9), job(GPU_JOB), job(CPU_JOB)], "failure in attempt 2"),
        ([job(GPU_JOB, "failure", 2, 8), job(GPU_JOB, "success", 1, 9), job(CPU_JOB)], "failure"),
        ([job(GPU_JOB, "success", 1, 8), job(GPU_JOB, "failure", 1, 9), job(CPU_JOB)], "failure"),
        ([], f"shard {CPU_SHARD}"),
    ],
)
def test_each_shard_needs_a_job_that_succeeded(jobs: list[Job], fault: str) -> None:
    found = said(jobs)
    assert (fault in found) if fault else not found
    assert are_over(PLAN, TABLE, jobs) is not any(one.conclusion is None for one in jobs)


def test_a_suite_without_an_entry_has_the_job_of_its_name() -> None:
    assert jobs_of(GPU, {}) == (GPU,)
    jobs = [job(CPU_JOB), job(f"{GPU} ({GPU_SHARD})")]
    assert said(jobs, {"base-a": ("base-a-*",)}) == ""
    assert "lists no job" in said(jobs)


def test_a_name_that_github_cuts_off_is_told() -> None:
    long = "x" * 90
    cut = f"{long} ({GPU_SHARD})"[:97] + "..."
    found = said([job(CPU_JOB), job(cut)], {**TABLE, "call / gpu": (), long: (GPU,)})
    assert "cuts names off after 100 characters: shorten it" in found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("base-a", {"base-a-test-cpu"}),
        ("call", {GPU}),  # whatever it calls
        ("docs", set()),
        (GPU, {GPU}),
        ("cal", None),
        ("gpu", None),
    ],
)
def test_the_suites_of_a_job(name: str, wanted: set[str] | None) -> None:
    assert suites_of(name, TABLE, ["base-a-test-cpu", GPU]) == wanted


def test_a_table_of_suites_that_nobody_declared_is_refused() -> None:
    text = f"{SUITES}workflows: {{jobs: {{base-a: [base-a-test-cpus]}}}}\n"
    with pytest.raises(ConfigError, match=r"base-a: 'base-a-test-cpus' matches no suite"):
        load_taxonomy(text.encode(), "test/suites.yml")


def listed(name: str, conclusion: str | None = "success", **more: Any) -> dict[str, Any]:
    """A job as GitHub lists it."""
    usual = {"id": 1, "run_attempt": 1, "status": "completed", "labels": ["ubuntu-latest"]}
    return {**usual, "name": name, "conclusion": conclusion, **more}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "must be the jobs of a run"),
        ("jobs", "must be the jobs of a run"),
        ({"total_count": 2, "jobs": [listed("a")]}, "1 of 2 jobs"),
        ([3], r"jobs\[0\].name: None is no str"),
        ([listed("a"), listed("a", id="2")], r"jobs\[1\].id: '2' is no int"),
        ([listed("a", run_attempt=True)], r"jobs\[0\].run_attempt: True is no int"),
        ([listed("a", 1)], r"jobs\[0\].conclusion: 1 is no str"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_list_of_jobs(answer: object, words: str) -> None:
    with pytest.raises(RunciError, match=f"jobs.json: {words}"):
        read_jobs(answer, "jobs.json")


def test_a_list_of_jobs_alone_or_in_its_answer() -> None:
    entries = [listed("a"), listed("b", None, status="queued")]
    found = read_jobs(entries, "jobs.json")
    assert found == (Job("a", 1, 1, "completed", "success"), Job("b", 1, 1, "queued", None))
    assert read_jobs({"total_count": 2, "jobs": entries}, "jobs.json") == found


def test_github_is_asked_again_while_a_job_is_not_over() -> None:
    """Its list may lag behind; what it says in the end is judged, over or not."""
    answers = [(job(CPU_JOB, None),), (job(CPU_JOB, None),), (job(CPU_JOB),)]
    asked: Iterator[tuple[Job, ...]] = iter(answers)
    over = lambda jobs: are_over(PLAN, TABLE, jobs)  # noqa: E731
    assert settled(lambda: next(asked), over, pause=0.0) == answers[-1]
    assert settled(lambda: answers[0], over, pause=0.0, times=3) == answers[0]


@pytest.mark.parametrize(
    ("path", "shard", "fault"),
    [
        ("results/results-cpu-a-1of2-1/0.json", "cpu-a-1of2", False),
        ("results/results-cpu-a-1of2-2/deep/0.json", "cpu-a-1of2", False),
        ("results/results-cpu-a-1of2-1/0.json", "cpu-a-2of2", True),
        ("results/results-cpu-a-1of2-1/0.json", "cuda-gpu-1of1", True),
        # What a job kept may hold folders of any name; the artifact is the outermost.
        ("results/results-cpu-a-1of2-1/results-cuda-gpu-1of1-1/0.json", "cuda-gpu-1of1", True),
        ("results/0.json", "cuda-gpu-1of1", False),
        ("results-2026-11/0.json", "cuda-gpu-1of1", False),  # a person's own folder
    ],
)
def test_the_artifact_of_a_job_holds_its_shard(path: str, shard: str, fault: bool) -> None:
    assert (misplaced(path, shard) is not None) is fault


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        ([("r/0.json", "a"), ("r/1.json", "a")], False),
        ([("r/0.json", "a"), ("r/1.json", "b")], True),
        ([("r/0.json", "a"), ("r/results-b-1of1-1/1.json", "b")], True),
        ([("r/results-a-1of1-1/0.json", "a"), ("r/results-b-1of1-1/1.json", "b")], False),
    ],
)
def test_one_artifact_that_is_unpacked_alone_is_of_one_shard(
    paths: list[tuple[str, str]], fault: bool
) -> None:
    assert (mixed(paths, "r") is not None) is fault


@pytest.mark.parametrize("kind", ["fifo", "device", "link"])
def test_what_is_no_file_in_an_artifact_is_refused_unread(ran: Path, kind: str) -> None:
    """A stranger's: a FIFO would wait for ever, and /dev/zero never ends."""
    odd = ran / f"results/results-{CPU_SHARD}-1/odd.json"
    if kind == "fifo":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero" if kind == "device" else ran / "plan.json")
    code, out, _ = verify(ran, [listed(CPU_JOB), listed(GPU_JOB)])
    assert (code, "no regular file" in " ".join(out.split())) == (1, True)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A plan, and the results of all its shards where download-artifact puts them."""
    (tmp_path / "test").mkdir()
    jobs = "".join(f"    {name}: {json.dumps(globs)}\n" for name, globs in TABLE.items())
    text = f"{SUITES}workflows:\n  jobs:\n{jobs}"
    (tmp_path / "test/suites.yml").write_text(text, encoding="utf-8")
    (tmp_path / "plan.json").write_text(PLAN.to_json(), encoding="utf-8")
    for number, result in enumerate(results_of(PLAN)):
        folder = tmp_path / f"results/results-{result.shard}-1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.json").write_text(result.to_json(), encoding="utf-8")
    return tmp_path


def verify(ran: Path, jobs: object, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    source = "github" if jobs is None else "jobs.json"
    (ran / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    done = runci("verify", "plan.json", "results", "--run-jobs", source, cwd=ran, **(env or {}))
    return done.returncode, done.stdout, done.stderr


def test_the_command(ran: Path) -> None:
    both = [listed(CPU_JOB), listed(GPU_JOB)]
    assert verify(ran, both)[0] == 0
    code, out, _ = verify(ran, [listed(CPU_JOB), listed("call / gpu", "skipped")])
    assert (code, "1 without a job" in out) == (1, True)
    # A test of the CPU job wrote what the GPU's job should have.
    (forged,) = (ran / f"results/results-{GPU_SHARD}-1").iterdir()
    forged.rename(ran / f"results/results-{CPU_SHARD}-1/9.json")
    code, out, _ = verify(ran, both)
    assert (code, "1 unreadable, 1 missing" in out) == (1, True)
    assert f"a result of shard {GPU_SHARD}" in " ".join(out.split())
    assert verify(ran, {"jobs": 1})[0] == 2


def test_the_command_takes_one_artifact_for_what_one_job_kept(ran: Path) -> None:
    """As download-artifact unpacks it: the other shards' results in it were written by its job."""
    both = [listed(CPU_JOB), listed(GPU_JOB)]
    for file in (ran / "results").rglob("*.json"):
        file.rename(ran / "results" / file.name)
    code, out, _ = verify(ran, both)
    assert (code, "one artifact holds results of several shards" in out) == (1, True)


@pytest.mark.parametrize(
    ("end", "fault", "code"),
    [("success", None, 0), ("failure", None, 1), ("success", "500", 2), ("success", "short", 2)],
)
def test_the_command_asks_github(ran: Path, end: str, fault: str | None, code: int) -> None:
    jobs = [listed(CPU_JOB, run_attempt=1), listed(GPU_JOB, end, id=2)]
    with FakeGitHub(world(jobs={"30": jobs})) as github:
        if fault:
            github.fault("/actions/runs/30/jobs", fault)
        env = {
            "GITHUB_API_URL": github.url,
            "GITHUB_TOKEN": "t",
            "GITHUB_REPOSITORY": "octo/kernels",
            "GITHUB_RUN_ID": "30",
        }
        found, _, err = verify(ran, None, env)
        asked = [path for verb, path, _ in github.requests if verb == "GET"]
    assert found == code, err
    assert asked
    assert all("filter=all" in path for path in asked)
    assert verify(ran, None, {**env, "GITHUB_RUN_ID": "../1"})[0] == 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
