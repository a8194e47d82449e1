"""What the suites of a night become."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import date
from planning import CPU, GPU, cpu_tests, plan_of, registered, results_of

from runci import register_cpu_ci
from runci.core.registration import Backend
from runci.core.result import FileResult, Outcome
from runci.nightly.history.additions import RunOf, series_of, suite_nights
from runci.nightly.history.lines import Point, SuiteNight
from runci.results.read import Found

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

AT = f"{date(1)}T03:10:00Z"
RUN = RunOf(date(1), AT, "r1", "https://x.invalid/1")
PLAN = plan_of({**cpu_tests(3), "test/registered/test_gpu.py": (registered(GPU, Backend.CUDA),)})


def nights(results: Sequence[FileResult], broken: tuple[str, ...] = ()) -> dict[str, Any]:
    """Each suite's night and point, by its name."""
    found = Found(tuple((f"r/{n}.json", one) for n, one in enumerate(results)), broken)
    said, additions = suite_nights(PLAN, found, RUN)
    return {
        suite.suite: (suite, addition.header.id, addition.lines[0])
        for suite, addition in zip(said, additions, strict=True)
    }


def test_suites_whose_results_are_the_plan_passed() -> None:
    found = nights(results_of(PLAN))
    assert set(found) == {CPU, GPU}
    assert found[CPU][0] == SuiteNight(CPU, executed=9, failed=0, skipped=0)
    assert found[CPU][1] == series_of(CPU, "cpu")
    assert found[CPU][2] == Point(
        date(1),
        AT,
        "r1",
        PLAN.commit,
        passed=True,
        detail="9 tests in 3 files",
        run_url="https://x.invalid/1",
    )
    assert found[GPU][1].machine_key == "1-gpu-small/0/suites/1"
    assert found[GPU][2].passed is True


def test_only_the_suite_that_failed_has_failed() -> None:
    results = [
        dataclasses.replace(one, outcome=Outcome.FAILED, failed=2, exit_status=1, message="boom")
        if one.backend == "cuda"
        else one
        for one in results_of(PLAN)
    ]
    found = nights(results)
    assert found[CPU][2].passed is True
    suite, _, line = found[GPU]
    assert (suite.executed, suite.failed) == (3, 2)
    assert suite.failures == (
        f"test/registered/test_gpu.py (cuda {GPU}): failed, 2 tests failed: boom",
    )
    assert (line.passed, line.detail, line.unusable) == (False, suite.failures[0], ())


def test_a_crash_counts_as_one_failure_and_a_rerun_that_passed_as_none() -> None:
    [first, *others] = results_of(PLAN)
    crash = dataclasses.replace(first, outcome=Outcome.CRASHED, tests=0, signal="SIGSEGV")
    again = dataclasses.replace(first, attempt=2)
    assert nights([crash, *others])[CPU][0].failed == 1
    assert nights([crash, *others])[CPU][2].passed is False
    assert nights([crash, again, *others])[CPU][0].failed == 0
    assert nights([crash, again, *others])[CPU][2].passed is True


def test_a_missing_file_fails_its_suite() -> None:
    suite, _, line = nights(results_of(PLAN)[1:])[CPU]
    assert line.passed is False
    assert len(suite.problems) == 1
    assert suite.problems[0].partition(": ")[0].endswith("without a result")


def test_a_suite_of_which_nothing_ran_has_not_failed_but_no_night() -> None:
    found = nights([one for one in results_of(PLAN) if one.backend == "cpu"])
    _, _, line = found[GPU]
    assert (line.passed, line.unusable) == (None, ("none of the suite's files has a result",))
    assert found[CPU][2].passed is True
    assert found[GPU][0].problems


def test_torn_and_foreign_results_fail_every_suite() -> None:
    found = nights(results_of(PLAN), ("r/9.json: not a whole result",))
    assert [line.passed for _, _, line in found.values()] == [False, False]
    stray = dataclasses.replace(results_of(PLAN)[0], suite="another")
    found = nights([*results_of(PLAN), stray])
    assert [line.passed for _, _, line in found.values()] == [False, False]
    other = [dataclasses.replace(one, plan="0" * 64) for one in results_of(PLAN)]
    found = nights(other)
    assert [line.passed for _, _, line in found.values()] == [None, None]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
