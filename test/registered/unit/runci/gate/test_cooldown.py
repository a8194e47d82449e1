"""Whose GPU jobs count against a cooldown, over all workflows, and how they are found."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from direct_api import DirectApi
from fake_github import FakeGitHub, world

from runci import register_cpu_ci
from runci.gate.api import ApiError
from runci.gate.cooldown import gpu_runs, reached_gpu
from runci.gate.events import Event
from runci.gate.github import GitHubApi
from runci.gate.request import Person

register_cpu_ci(est_time=9, stage="base-a", runner_config="cpu")

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
REGULAR = Person("regular", 16, True)
EVENT = Event(repository="octo/kernels", run_id=99, attempt=1)


def job(**changes: Any) -> dict[str, Any]:
    steps = [{"name": "Run tests", "conclusion": "success"}]
    usual = {"labels": ["1-gpu-5090"], "status": "completed", "conclusion": "success"}
    return {**usual, "steps": steps, **changes}


JOBS = [
    (job(), True),
    (job(status="queued", steps=[]), True),
    (job(status="in_progress", steps=[]), True),
    (job(steps=[]), False),
    (job(labels=["ubuntu-latest"]), False),
    (job(labels=["ubuntu-24.04", "windows-2025"]), False),
    (job(labels=["ubuntu-latest", "gpu"]), True),
    (job(labels=["my-ubuntu-latest"]), True),
    (job(labels=[]), False),
    (job(steps=[{"name": "Set up runner", "conclusion": "failure"}]), False),
    (job(steps=[{"name": "Ask the gate", "conclusion": "failure"}]), False),
    (job(steps=[{"name": "Run tests", "conclusion": "skipped"}]), False),
    (job(steps=[{"name": "Run tests", "conclusion": "failure"}]), True),
    # The worker died in the step, or before it.
    (job(steps=[{"name": "Run tests", "conclusion": None, "status": "in_progress"}]), True),
    (job(steps=[{"name": "Run tests", "conclusion": None, "status": "pending"}]), False),
]


@pytest.mark.parametrize(("found", "reached"), JOBS)
def test_only_a_job_that_ran_on_a_gpu_counts(found: dict[str, Any], reached: bool) -> None:
    assert reached_gpu(found) is reached


@pytest.mark.parametrize("found", [job(labels=None), job(steps=None), job(steps={}), None, 7])
def test_a_job_of_another_shape_is_not_taken_for_one_without_a_gpu(found: Any) -> None:
    with pytest.raises(ApiError):
        reached_gpu(found)


def at(**ago: float) -> str:
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpu_job(ident: int, attempt: int = 1, **ago: float) -> dict[str, Any]:
    moment = at(**ago)
    return job(id=ident, run_attempt=attempt, created_at=moment, started_at=moment)


def run(ident: int = 30, **changes: Any) -> dict[str, Any]:
    return {"id": ident, "file": "pr-test.yml", "status": "completed", "actor": "mona", **changes}


# The pull request that the world has is regular's; of the others the world says whose they are.
OTHERS = {"octo:faster-softmax": "alice", "octo:gone": None, "eve:mine": "regular"}
MINE = {"author": "regular"}


def minutes(runs: list[dict[str, Any]], jobs: dict[str, Any], within: float = 60) -> list[float]:
    state = world(pull=MINE, pulls=OTHERS, runs=runs, jobs=jobs)
    with FakeGitHub(state) as github:
        found = gpu_runs(GitHubApi("token", github.url), EVENT, [REGULAR], NOW, within)
    assert {used.actor_id for used in found} <= {REGULAR.id}
    return sorted(used.minutes_ago for used in found)


class Spoilt(DirectApi):
    """An API that lists something else in the place of a run."""

    instead: Any = None

    def get(self, path: str, **query: str) -> Any:
        answer = super().get(path, **query)
        if path.endswith("/actions/runs") and answer["workflow_runs"]:
            answer["workflow_runs"][0] = self.instead
        return answer


@pytest.mark.parametrize(
    "instead", [None, 7, "run", [], {}, {"id": 30, "event": None, "status": "queued"}]
)
def test_what_is_no_run_is_not_passed_over(instead: Any) -> None:
    with FakeGitHub(world(runs=[run(actor="regular")])) as github:
        api = Spoilt(github)
        api.instead = instead
        with pytest.raises(ApiError):
            gpu_runs(api, EVENT, [REGULAR], NOW, 60)


FORK = {"id": 2000, "owner": {"login": "eve"}}
BRANCH = {"head_branch": "faster-softmax"}
DISPATCH = {"event": "workflow_dispatch", "head_branch": "main"}


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),  # a maintainer put on the label
        ({"file": "pr-test-extra.yml"}, True),
        ({"file": "my-own.yml"}, True),
        ({"head_sha": "e" * 40}, True),
        (BRANCH, False),
        ({**BRANCH, "actor": "regular"}, True),
        ({**BRANCH, "triggering_actor": "regular"}, True),
        ({"head_branch": "mine", "head_repository": FORK}, True),
        # Whose it is cannot be told: a wait is the worst that it costs.
        ({"head_branch": "unknown"}, True),
        ({"head_branch": "gone"}, True),
        ({"head_repository": None}, True),
        (DISPATCH, False),
        ({**DISPATCH, "actor": "regular"}, True),
        ({**DISPATCH, "actor": "github-actions[bot]"}, False),
        ({"event": "schedule", "actor": "regular"}, False),
    ],
)
def test_whose_runs_count(changes: dict[str, Any], counts: bool) -> None:
    jobs = {"30": [gpu_job(300, minutes=30)]}
    assert minutes([run(**changes)], jobs) == ([30.0] if counts else [])


@pytest.mark.parametrize(
    ("days", "counts"),
    [(0.01, True), (6, True), (20, True), (30.9, True), (31.1, False)],
)
def test_a_run_that_was_started_again_keeps_its_date(days: float, counts: bool) -> None:
    again = {"30": [gpu_job(300, days=days), gpu_job(301, attempt=2, minutes=10)]}
    found = minutes([run(run_attempt=2)], again)
    assert (10.0 in found) is counts


def test_only_what_is_recent_is_looked_into() -> None:
    jobs = {str(n): [gpu_job(n * 10, minutes=n)] for n in (30, 61, 90)}
    runs = [run(int(n)) for n in jobs]
    assert minutes(runs, jobs) == [30.0]
    assert minutes(runs, jobs, within=100) == [30.0, 61.0, 90.0]
    assert minutes(runs, jobs, within=0) == []
    busy = [run(90, status="in_progress")]
    assert minutes(busy, jobs) == [90.0]


def test_this_attempt_does_not_count_against_itself() -> None:
    jobs = {"99": [gpu_job(990, minutes=1), gpu_job(991, attempt=2, minutes=2)]}
    assert minutes([run(99)], jobs) == [2.0]


def many(count: int, **every: float) -> list[dict[str, Any]]:
    """Runs of others, one after the other, the newest first."""
    step = timedelta(**every)
    moments = [(NOW - n * step).strftime("%Y-%m-%dT%H:%M:%SZ") for n in range(1, count + 1)]
    return [
        run(1000 + n, **BRANCH, created_at=moment, updated_at=at(days=3))
        for n, moment in enumerate(moments)
    ]


@pytest.mark.parametrize(
    ("count", "requests"),
    # A list for each event, the branch and the jobs; where there are more, the pages.
    [(0, 4), (99, 4), (150, 6), (998, 14)],
)
def test_a_busy_repository_is_listed_whole(count: int, requests: int) -> None:
    used = {"30": [gpu_job(300, days=30), gpu_job(301, attempt=2, minutes=30)]}
    state = world(pull=MINE, pulls=OTHERS, runs=[*many(count, minutes=40), run()], jobs=used)
    with FakeGitHub(state) as github:
        found = gpu_runs(GitHubApi("token", github.url), EVENT, [REGULAR], NOW, 60)
        assert 30.0 in [run.minutes_ago for run in found]
        assert len(github.requests) == requests


def test_a_listing_that_github_cuts_off_is_sliced() -> None:
    used = {"30": [gpu_job(300, days=30), gpu_job(301, attempt=2, minutes=30)]}
    for count in (999, 1000, 1500, 1900):
        assert 30.0 in minutes([*many(count, minutes=20), run()], used)


@pytest.mark.parametrize(("count", "every"), [(2000, {"minutes": 20}), (6000, {"minutes": 5})])
def test_more_than_can_be_listed_denies(count: int, every: dict[str, float]) -> None:
    with pytest.raises(ApiError, match=r"more than 2000 runs .* ask somebody with write access"):
        minutes([*many(count, **every), run()], {})


def test_what_no_slice_can_part_denies() -> None:
    with pytest.raises(ApiError, match="in one second"):
        minutes(many(1000, minutes=0), {})


def test_a_listing_that_changes_or_lacks_something_denies() -> None:
    for kind in ("short", "garbage", "404"):
        with FakeGitHub(world(pull=MINE, runs=many(150, minutes=5))) as github:
            github.fault("/actions/runs", kind)
            with pytest.raises(ApiError):
                gpu_runs(GitHubApi("token", github.url), EVENT, [REGULAR], NOW, 60)


def test_the_calls_are_bounded() -> None:
    jobs = {str(n): [gpu_job(n * 10, minutes=30)] for n in range(1, 40)}
    theirs = [run(int(n)) for n in jobs]
    with pytest.raises(ApiError, match="more than 30 recent runs of regular"):
        minutes(theirs, jobs)
    spread = [run(int(n), head_branch=f"branch-{n}") for n in jobs]
    with pytest.raises(ApiError, match="more than 30 branches"):
        minutes(spread, jobs)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
