"""Every way that a run of the PR Tests can go: green means that all of it was tested."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.results.needs import job_ends, read_needs
from runci.workflows.conditions import condition
from runci.workflows.evaluate import can_be
from runci.workflows.find import read_document
from runci.workflows.model import Document, steps_of

register_cpu_ci(est_time=9, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
BASE_TEST = ".github/workflows/pr-test.yml"
EXTRA_TEST = ".github/workflows/pr-test-extra.yml"
CPU = "cpu_base-a-test-cpu"  # what GPU jobs wait for
LONGER = "cpu_base-b-test-cpu"
# The suites of each job; the kernel's have jobs of their own in a called workflow.
SUITES = {
    "base-a": {CPU},
    "base-a-beside": {CPU},
    "base-b-test-cpu": {LONGER},
    "base-b-test-1-gpu-small": {"cuda_base-b-test-1-gpu-small"},
    "call-jit-kernel-tests": {"cuda_base-b-kernel-unit-test-1-gpu-small"},
    "extra-a-test-1-gpu-small": {"cuda_extra-a-test-1-gpu-small"},
}
GPU = {job for job, suites in SUITES.items() if not suites & {CPU, LONGER}}


@dataclass(frozen=True)
class Run:
    """What is not the workflow's to choose: the gate's answer, the plan, and how jobs end."""

    gate: str = "success"  # how the gate's job ended
    allowed: str = "true"
    outcome: str = "allow"
    bypass: str = "false"
    planned: frozenset[str] = frozenset()
    bad: tuple[tuple[str, str], ...] = ()  # jobs that end otherwise than well, if they start

    def outputs(self, job: str) -> dict[str, str]:
        if job == "call-gate":
            names = ("allowed", "outcome", "bypass_fastfail")
            return dict(zip(names, (self.allowed, self.outcome, self.bypass), strict=True))
        if job == "check-changes":
            suites = {
                name: json.dumps({"size": int(name in self.planned), "shards": ["x"]})
                for name in set().union(*SUITES.values())
            }
            return {"suites": json.dumps(suites)}
        return {}


def read(path: str) -> Document:
    document = read_document((ROOT / path).read_bytes(), path)
    assert isinstance(document, Document)
    return document


def play(document: Document, run: Run) -> dict[str, dict[str, Any]]:
    """How each job ends, by GitHub's rules; the last one left out."""
    ends: dict[str, dict[str, Any]] = {}
    waits: dict[str, set[str]] = {}
    jobs = {job: node for job, node in document.jobs.items() if not job.endswith("-finish")}
    order = sorted(jobs, key=lambda job: depth(document, job))
    for name in order:
        needs = needs_of(document, name)
        waits[name] = {*needs, *(job for need in needs for job in waits[need])}
        results = {ends[job]["result"] for job in waits[name]}
        contexts = {
            "needs": {need: ends[need] for need in needs},
            "success()": results <= {"success"},
            "failure()": "failure" in results,
            "cancelled()": False,
        }
        holds = condition(jobs[name].get("if"))
        assert holds is not None
        starts = can_be(True, holds, contexts)
        assert starts is not can_be(False, holds, contexts), f"{name}: not decided"
        result = dict(run.bad).get(name, "success") if starts else "skipped"
        result = run.gate if name == "call-gate" else result
        gone = result == "skipped" or (name == "check-changes" and result != "success")
        ends[name] = {"result": result, "outputs": {} if gone else run.outputs(name)}
    return ends


def needs_of(document: Document, job: str) -> list[str]:
    needs = document.jobs[job].plain().get("needs", [])
    return [needs] if isinstance(needs, str) else needs


def depth(document: Document, job: str) -> int:
    return 1 + max((depth(document, need) for need in needs_of(document, job)), default=0)


def passed_suites(run: Run, ends: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The planned suites of which there are results that passed."""
    good = {job for job, end in ends.items() if end["result"] == "success"}
    return set().union(*(suites for job, suites in SUITES.items() if job in good)) & run.planned


def is_green(document: Document, run: Run, ends: Mapping[str, Mapping[str, Any]]) -> bool:
    """What the last job says: `runci needs`, then `runci verify`."""
    last = next(job for job in document.jobs if job.endswith("-finish"))
    given = steps_of(document.jobs[last])[-1].plain()["with"]
    skip, fail, one_of = (
        tuple(filter(None, given.get(key, "").split(",")))
        for key in ("may-skip", "may-fail", "one-of")
    )
    runs = {job: frozenset(suites & run.planned) for job, suites in SUITES.items()}
    found = job_ends(read_needs(json.dumps(ends)), skip, fail, one_of, runs)
    planned = ends["check-changes"]["result"] == "success"  # else there is no plan to verify
    return planned and all(end.good for end in found) and passed_suites(run, ends) == run.planned


def answers() -> Iterator[Run]:
    """Every answer of the gate, and its end without one."""
    allow = Run()
    yield from (allow, replace(allow, bypass="true"))
    yield Run("failure", "false", "deny", "false")
    yield Run("failure", "", "", "")
    yield Run("cancelled", "", "", "")


def runs(document: Document) -> Iterator[Run]:
    """Every answer, plan, and up to two jobs that end badly."""
    jobs = [job for job in document.jobs if job != "call-gate" and not job.endswith("-finish")]
    suites = sorted(set().union(*(SUITES[job] for job in jobs if job in SUITES)))
    plans = [
        frozenset(c) for n in range(len(suites) + 1) for c in itertools.combinations(suites, n)
    ]
    bad = [(job, end) for job in jobs for end in ("failure", "cancelled")]
    for answer, planned in itertools.product(answers(), plans):
        for count in range(3):
            for ends in itertools.combinations(bad, count):
                yield replace(answer, planned=planned, bad=ends)


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
def test_green_means_that_everything_was_tested(path: str) -> None:
    document = read(path)
    last = next(job for job in document.jobs if job.endswith("-finish"))
    assert sorted(needs_of(document, last)) == sorted(set(document.jobs) - {last})
    green = 0
    for run in runs(document):
        ends = play(document, run)
        started = {job for job, end in ends.items() if end["result"] != "skipped"}
        assert run.allowed == "true" or not started & GPU, run
        waited = ends["lint"]["result"] == "success" and (
            ends["base-a"]["result"] == "success" or CPU not in run.planned
        )
        assert waited or run.bypass == "true" or not started & GPU, run  # it costs no GPU
        hurt = {job for job, end in ends.items() if end["result"] in ("failure", "cancelled")}
        if is_green(document, run, ends):
            green += 1
            assert hurt <= ({"call-gate"} if run.gate == "failure" else set()), run
            assert "success" in (ends["lint"]["result"], ends["lint-beside"]["result"]), run
        else:  # and red means that something was not
            denied = run.allowed != "true" and (path == EXTRA_TEST or run.planned - {CPU, LONGER})
            assert hurt - {"call-gate"} or run.gate == "cancelled" or denied, run
    assert green > 20


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
def test_a_bypass_waits_for_nothing_and_hides_nothing(path: str) -> None:
    document = read(path)
    planned = frozenset().union(*(SUITES[job] for job in document.jobs if job in SUITES))
    run = Run(bypass="true", planned=planned, bad=(("base-a-beside", "failure"),))
    ends = play(document, run)
    assert (ends["lint"]["result"], ends["base-a"]["result"]) == ("skipped", "skipped")
    assert {ends[job]["result"] for job in GPU & set(document.jobs)} == {"success"}
    assert not is_green(document, run, ends)


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
def test_a_label_of_others_starts_nothing(path: str) -> None:
    document = read(path)
    run = Run("success", "false", "ignore", "false", frozenset({CPU}))
    ends = play(document, run)
    started = {job for job, end in ends.items() if end["result"] != "skipped"}
    assert started <= {"call-gate", "check-changes"}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
