"""A verdict that cannot be green by accident, and what `runci status` says of one test."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import (
    CPU,
    GPU,
    SUITES,
    TESTS,
    cpu_tests,
    everything,
    plan_of,
    registered,
    result,
    results_of,
    taxonomy,
    write_results,
)
from trees import runci

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.machine import Gpu, Machine
from runci.core.registration import Backend
from runci.core.result import (
    Duration,
    Failure,
    FailureClass,
    FileResult,
    Outcome,
    SkippedTest,
    ToolError,
    digests_of,
    names_of,
    not_made_good,
)
from runci.core.selected import Selected
from runci.core.unfit import Unfit
from runci.plan.build import Settings, make_plan
from runci.plan.model import Plan
from runci.plan.times import measured
from runci.results.read import Found, read_results
from runci.results.show import as_markdown, as_text
from runci.results.status import as_table
from runci.results.status import as_text as status_text
from runci.results.status import statuses
from runci.results.verify import Kind, Verdict
from runci.results.verify import verify as judge
from runci.text.tables import path_end

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

PLAN = plan_of(cpu_tests(12))
RESULTS = results_of(PLAN)
GPU_PATH = f"{TESTS}/test_gpu.py"
GPU_PLAN = plan_of({GPU_PATH: (registered(GPU, Backend.CUDA),)})
(ON_GPU,) = results_of(GPU_PLAN)
CARD = Gpu(0, "GPU-0", "NVIDIA GeForce RTX 5090", "12.0", 32607.0)
PLAYED: dict[str, object] = dataclasses.asdict(Machine((CARD,), "580.159.04"))
PLAYED_GPU: dict[str, object] = dataclasses.asdict(CARD)


def verify(
    results: Iterable[FileResult],
    plan: Plan = PLAN,
    allow_empty: bool = False,
    flaky_fails: bool = False,
) -> Verdict:
    named = tuple((f"results/{n}.json", result) for n, result in enumerate(results))
    return judge(plan, Found(named), allow_empty=allow_empty, flaky_fails=flaky_fails)


def changed(number: int = 0, **values: object) -> list[FileResult]:
    """All results, one of them otherwise."""
    other = dataclasses.replace(RESULTS[number], **values)  # type: ignore[arg-type]
    return [*RESULTS[:number], other, *RESULTS[number + 1 :]]


def kinds(verdict: Verdict) -> list[Kind]:
    return [problem.kind for problem in verdict.problems]


def test_all_that_was_planned_ran_once() -> None:
    verdict = verify(RESULTS)
    assert verdict.green
    assert (verdict.suites, verdict.files, verdict.tests) == (1, 12, 36)
    assert as_text(verdict, 80) == (
        "verified: 12 files of 1 suite ran as planned and executed 36 tests, 0 skipped\n"
    )


def test_the_order_of_the_results_does_not_matter() -> None:
    assert verify(reversed(changed(1, tests=0))).problems[0].text == (
        verify(changed(1, tests=0)).problems[0].text
    )


def test_a_missing_file_is_named_with_the_command_that_runs_it() -> None:
    gone = RESULTS[3]
    verdict = verify([r for r in RESULTS if r is not gone])
    assert kinds(verdict) == [Kind.MISSING]
    assert verdict.problems[0].text == (
        f"{gone.path}: runci run --plan plan.json --shard {gone.shard} {gone.path}"
    )
    assert "not verified: 1 missing" in as_text(verdict, 80)


def test_a_missing_shard_is_told_once() -> None:
    # flashinfer#2761: every job skipped, and the summary job was green.
    shard = PLAN.suites[0].shards[1]
    verdict = verify(r for r in RESULTS if r.shard != shard.id)
    (problem,) = verdict.problems
    assert (problem.kind, problem.files) == (Kind.MISSING, len(shard.files))
    assert f"shard {shard.id}: none of its {len(shard.files)} files" in problem.text


def test_a_machine_that_could_not_run_a_shard_is_named_in_place_of_its_tests() -> None:
    shard, other, *_ = PLAN.suites[0].shards
    sick = (Unfit(shard.id, ("GPU 0: ECC: 3 errors", "disk full")), Unfit(other.id, ("gone",)))
    rest = [r for r in RESULTS if r.shard != shard.id]
    verdict = judge(PLAN, Found(tuple((f"{n}.json", r) for n, r in enumerate(rest)), unfit=sick))
    (problem,) = verdict.problems  # of the other there are results, so a later attempt ran
    assert (problem.kind, problem.files) == (Kind.MACHINE, len(shard.files))
    assert shard.id in problem.text and "ECC: 3 errors; disk full" in problem.text
    assert not verdict.green


@pytest.mark.parametrize(
    ("text", "unfit"),
    [
        ('{"shard": "a-1of2", "unfit": ["x"], "version": 1}', ("x",)),
        ('{"shard": "a-1of2", "unfit": ["x", "y"], "answers": []}', ("x", "y")),
        ('{"shard": "a-1of2", "unfit": []}', None),
        ('{"shard": 3, "unfit": ["x"]}', None),
        ('{"shard": "a-1of2", "unfit": "x"}', None),
        ('{"shard": "b-1of2", "unfit": ["x"]}', None),  # in the artifact of another shard
    ],
)
def test_what_is_read_of_a_machine(
    tmp_path: Path, text: str, unfit: tuple[str, ...] | None
) -> None:
    folder = tmp_path / "results-a-1of2-1"
    folder.mkdir()
    (folder / "doctor.json").write_text(text)
    found = read_results([str(tmp_path)])
    assert [one.unfit for one in found.unfit] == ([] if unfit is None else [unfit])
    assert bool(found.broken) is ("b-1of2" in text)


def test_no_result_at_all_is_never_green() -> None:
    verdict = verify([])
    assert kinds(verdict) == [Kind.MISSING, Kind.MISSING]
    assert "not verified: 12 missing" in as_text(verdict, 80)


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
@settings(max_examples=60, deadline=None)
def test_green_only_where_the_results_are_the_plan(gone: set[int], failed: set[int]) -> None:
    results = [
        dataclasses.replace(r, outcome=Outcome.FAILED) if n in failed else r
        for n, r in enumerate(RESULTS)
        if n not in gone
    ]
    verdict = verify(results)
    assert verdict.green == (not gone and not failed)
    missing = sum(p.files for p in verdict.problems if p.kind is Kind.MISSING)
    assert (missing, kinds(verdict).count(Kind.FAILED)) == (len(gone), len(failed - gone))


def test_a_suite_that_ran_four_times_is_doubled() -> None:
    # sglang#27621: a matrix of 4 whose command forgot the shard arguments.
    plan = plan_of(cpu_tests(2), Settings(shards={CPU: 1}))
    results = [
        dataclasses.replace(r, started=r.started + job)
        for job in range(4)
        for r in results_of(plan)
    ]
    verdict = verify(results, plan)
    assert kinds(verdict) == [Kind.DOUBLED, Kind.DOUBLED]
    assert "attempt 1: results/0.json, results/2.json" in verdict.problems[0].text


def test_the_same_record_downloaded_twice_counts_once_and_is_told() -> None:
    verdict = verify([*RESULTS, RESULTS[0]])
    assert verdict.green
    assert verdict.notes == ("records that lay there more than once and count once: 1",)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"plan": None}, "was run without a plan"),
        ({"plan": "f" * 64}, "was run for the plan ffffffffffff, not"),
        ({"commit": "d" * 40}, "was run at dddddddddddd, but the plan is of cccccccccccc"),
        ({"commit": ""}, "was run at an unknown commit"),
        ({"path": "test/other.py"}, f"test/other.py is not planned in cpu {CPU}"),
        ({"suite": "other"}, "is not planned in cpu other"),
        ({"backend": "cuda"}, f"is not planned in cuda {CPU}"),
    ],
)
def test_a_foreign_result_does_not_stand_for_a_planned_one(
    values: dict[str, object], said: str
) -> None:
    # sglang#22001: a green job satisfied branch protection for a red one of the same name.
    verdict = verify(changed(0, **values))
    assert sorted(kinds(verdict)) == sorted([Kind.MISSING, Kind.FOREIGN])
    foreign = next(p for p in verdict.problems if p.kind is Kind.FOREIGN)
    assert foreign.text.startswith("results/0.json: ")
    assert said in foreign.text


def test_a_file_that_ran_in_another_shard_is_foreign() -> None:
    # pytorch#53882: shards that read different timings run a test twice, or never.
    other = next(s.id for s in PLAN.suites[0].shards if s.id != RESULTS[0].shard)
    verdict = verify(changed(0, shard=other))
    text = next(p.text for p in verdict.problems if p.kind is Kind.FOREIGN)
    assert f"was run in shard {other}, but is planned in {RESULTS[0].shard}" in text


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({"outcome": Outcome.FAILED, "failed": 2}, Kind.FAILED, "failed, 2 tests failed"),
        ({"outcome": Outcome.SKIPPED, "tests": 0}, Kind.FAILED, "skipped"),
        ({"outcome": Outcome.TIMEOUT}, Kind.FAILED, "timeout"),
        # flashinfer#2961: a child killed before it wrote its result counted as nothing.
        ({"outcome": Outcome.CRASHED, "signal": "SIGKILL"}, Kind.FAILED, "crashed by SIGKILL"),
        ({"outcome": Outcome.NO_TESTS, "tests": 0}, Kind.NOT_RUN, TESTS),
        # sglang#23305, lattice#1632: exit status 0, and nothing ran.
        ({"outcome": Outcome.PASSED, "tests": 0}, Kind.NOT_RUN, TESTS),
        # sglang#16681: an exit status that was not passed on.
        ({"exit_status": 1}, Kind.FAILED, "says passed, but has exit status 1"),
        ({"exit_status": 5}, Kind.FAILED, "says passed, but has exit status 5"),
        (
            {"outcome": Outcome.EXCUSED, "exit_status": 1},
            Kind.FAILED,
            "says excused, but has exit status 1",
        ),
        ({"failed": 1}, Kind.FAILED, "says passed, but has 1 failed test"),
        ({"signal": "SIGSEGV"}, Kind.FAILED, "says passed, but has signal SIGSEGV"),
    ],
)
def test_a_result_that_is_not_a_pass(values: dict[str, object], kind: Kind, said: str) -> None:
    verdict = verify(changed(0, **values))
    assert kinds(verdict) == [kind]
    assert RESULTS[0].path in verdict.problems[0].text
    assert said in verdict.problems[0].text


def test_the_message_of_a_failure_is_shown() -> None:
    verdict = verify(changed(0, outcome=Outcome.FAILED, message="\n  assert 1 == 2\nmore"))
    assert verdict.problems[0].text.endswith("failed: assert 1 == 2")


@pytest.mark.parametrize("status", [0, None, 5])  # 5: pytest, of a module that is skipped whole
def test_excused_skips_are_green_and_told(status: int | None) -> None:
    skips = (SkippedTest("test_a", "needs a second GPU"),)
    verdict = verify(
        changed(0, outcome=Outcome.EXCUSED, tests=0, skipped=skips, exit_status=status)
    )
    assert verdict.green
    assert verdict.skipped == 1
    assert "executed no test, as suites.yml allows" in verdict.notes[0]


def test_deselected_tests_are_told() -> None:
    verdict = verify(changed(0, deselected=2))
    assert verdict.green
    assert verdict.deselected == 2
    assert as_text(verdict, 80).endswith(" 0 skipped, 2 deselected\n")
    assert verdict.notes == (f"{RESULTS[0].path} (cpu {CPU}): 2 tests deselected",)


@pytest.mark.parametrize(
    ("limit", "deselected", "outcome", "found"),
    [
        (None, 1000, Outcome.PASSED, []),
        (2, 2, Outcome.PASSED, []),
        (2, 3, Outcome.PASSED, [Kind.FAILED]),
        (0, 1, Outcome.FLAKY, [Kind.FAILED]),
        (0, 1, Outcome.EXCUSED, [Kind.FAILED]),
        (0, 1, Outcome.SKIPPED, [Kind.FAILED]),  # once, not twice
        (0, 0, Outcome.PASSED, []),
    ],
)
def test_more_deselected_than_the_plan_allows(
    limit: int | None, deselected: int, outcome: Outcome, found: list[Kind]
) -> None:
    plan = dataclasses.replace(
        PLAN, suites=tuple(dataclasses.replace(s, max_deselected=limit) for s in PLAN.suites)
    )
    one, *others = results_of(plan)
    one = dataclasses.replace(one, deselected=deselected, outcome=outcome)
    verdict = verify([one, *others], plan)
    assert [problem.kind for problem in verdict.problems] == found


def test_a_suite_that_executed_no_test_is_not_green() -> None:
    results = [dataclasses.replace(r, outcome=Outcome.EXCUSED, tests=0) for r in RESULTS]
    verdict = verify(results)
    assert kinds(verdict) == [Kind.NOT_RUN]
    assert f"suite cpu {CPU}: no test was executed" in verdict.problems[0].text


def test_of_two_suites_each_must_execute_tests() -> None:
    gpu = {f"{TESTS}/test_g.py": (registered("base-b-test-1-gpu-small", Backend.CUDA),)}
    plan = plan_of({**cpu_tests(1), **gpu})
    results = [
        dataclasses.replace(r, outcome=Outcome.EXCUSED, tests=0) if r.backend == "cuda" else r
        for r in results_of(plan)
    ]
    (problem,) = verify(results, plan).problems
    assert "suite cuda base-b-test-1-gpu-small" in problem.text


PART = ("TestA::test_x[1]",)


def partly(*suites: tuple[str, Backend]) -> Plan:
    """A plan of one test of a file, in these suites."""
    path = f"{TESTS}/test_g.py"
    tests = {path: tuple(registered(name, backend) for name, backend in suites)}
    return plan_of(tests, Settings(only={path: PART}))


@pytest.mark.parametrize("only", [(), ("TestA::test_x",), ("TestA::test_x[2]",), (*PART, "test_y")])
def test_a_part_that_is_not_the_planned_one(only: tuple[str, ...]) -> None:
    plan = partly((CPU, Backend.CPU))
    (planned,) = [dataclasses.replace(r, only=PART) for r in results_of(plan)]
    assert verify([planned], plan).green
    other = verify([dataclasses.replace(planned, only=only)], plan)
    assert kinds(other) == [Kind.MISSING, Kind.FOREIGN]
    assert f"what is planned is {PART[0]}" in other.problems[1].text
    # Nor does it help that the planned one ran as well: the other does not belong there.
    assert not verify([planned, dataclasses.replace(planned, only=only)], plan).green


def test_a_part_is_not_the_whole_file() -> None:
    verdict = verify(changed(0, only=PART))
    assert kinds(verdict) == [Kind.MISSING, Kind.FOREIGN]
    assert verdict.problems[1].text.endswith(
        f"was run for {PART[0]}, but what is planned is the whole file"
    )


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.NO_TESTS])
def test_a_part_that_executed_no_test_is_red(outcome: Outcome) -> None:
    plan = partly((CPU, Backend.CPU))
    ran = [dataclasses.replace(r, only=PART, tests=0, outcome=outcome) for r in results_of(plan)]
    assert Kind.NOT_RUN in kinds(verify(ran, plan))


def test_a_part_that_one_runner_may_skip_must_have_run_on_another() -> None:
    plan = partly((CPU, Backend.CPU), ("base-b-test-1-gpu-small", Backend.CUDA))
    ran, other = [dataclasses.replace(r, only=PART) for r in results_of(plan)]
    skipped = {"outcome": Outcome.EXCUSED, "tests": 0}
    assert verify([ran, dataclasses.replace(other, **skipped)], plan).green  # type: ignore[arg-type]
    nobody = [dataclasses.replace(r, **skipped) for r in (ran, other)]  # type: ignore[arg-type]
    assert kinds(verify(nobody, plan)) == [Kind.NOT_RUN, Kind.NOT_RUN]
    failed = dataclasses.replace(ran, outcome=Outcome.FAILED, failed=1)
    assert not verify([failed, dataclasses.replace(other, **skipped)], plan).green  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "selected",
    [
        Selected(keyword="a"),
        Selected(marks="gpu"),
        Selected(first=True),
        Selected(arguments=("--tb=short",)),
    ],
)
def test_what_pytest_was_given_options_for_is_not_the_whole_file(selected: Selected) -> None:
    verdict = verify(changed(0, selected=selected))
    assert kinds(verdict) == [Kind.MISSING, Kind.FOREIGN]
    (said,) = [p.text for p in verdict.problems if p.kind is Kind.FOREIGN]
    assert f"{RESULTS[0].path} was run with {selected.shown}: " in said
    # Nor does it stand for the part that is planned, or hide that the whole failed.
    path = f"{TESTS}/test_part.py"
    plan = plan_of({path: (registered(CPU),)}, Settings(only={path: PART}))
    (planned,) = [dataclasses.replace(r, only=PART) for r in results_of(plan)]
    red = dataclasses.replace(planned, outcome=Outcome.FAILED)
    for attempt in (1, 2):
        part = dataclasses.replace(planned, selected=selected, attempt=attempt)
        assert not verify([part], plan).green
        assert not verify([red, part], plan).green
    # The status has a line of its own for it, and no plan goes by its time.
    part = dataclasses.replace(RESULTS[0], selected=selected, started=RESULTS[0].started + 1)
    assert [s.newest for s in statuses([RESULTS[0], part])] == [RESULTS[0], part]
    assert part.title in status_text(statuses([part])[0])
    assert measured([part]).timings == {}
    assert set(measured([RESULTS[0]]).timings) == {RESULTS[0].key}


def test_a_part_has_a_line_of_its_own_in_the_status() -> None:
    whole = result(outcome=Outcome.FAILED)
    part = result(only=PART, started=whole.started + 60)
    assert [(s.newest.only, s.results) for s in statuses([whole, part])] == [((), 1), (PART, 1)]
    assert f"test_0.py::{PART[0]} (cpu" in status_text(statuses([part])[0])


def again(number: int = 0, **values: object) -> FileResult:
    return dataclasses.replace(RESULTS[number], started=1_780_000_900.0, **values)  # type: ignore[arg-type]


def test_a_rerun_replaces_by_attempt_visibly() -> None:
    results = [*changed(0, outcome=Outcome.FAILED), again(attempt=2)]
    verdict = verify(results)
    assert verdict.green
    title = f"{RESULTS[0].path} (cpu {CPU})"
    assert verdict.reruns == (f"{title}: attempt 1 failed, then attempt 2 passed",)
    assert verdict.flaky == (f"{title}: passed on attempt 2",)
    assert "Repeated:" in as_text(verdict, 80)
    assert "Passed only when repeated:" in as_text(verdict, 80)


def test_the_last_job_counts_failed_attempts_by_class() -> None:
    network = Failure(FailureClass.NETWORK, "socket.gaierror")
    results = [*changed(0, outcome=Outcome.FAILED, failure=network), again(attempt=2)]
    own = Failure(FailureClass.TEST, "AssertionError")
    results[1] = dataclasses.replace(results[1], outcome=Outcome.FAILED, failed=1, failure=own)
    verdict = verify(results)
    assert verdict.classes == "1 test, 1 network"
    assert [problem.text.partition(": ")[2] for problem in verdict.problems] == [
        "failed (test), 1 test failed"
    ]
    assert verdict.reruns[0].endswith(": attempt 1 failed (network), then attempt 2 passed")
    for shown in (as_text(verdict, 80), as_markdown(verdict)):
        assert "1 test, 1 network" in shown
    assert not verify(RESULTS).classes
    assert "class      network: socket.gaierror" in status_text(statuses(results[:1])[0])


A, B = f"{TESTS}/test_0.py::test_a", f"{TESTS}/test_0.py::test_b"


@pytest.mark.parametrize(
    ("attempts", "green"),
    [
        ([((A,), (B,)), ((), (A, B))], True),
        ([((A,), (B,)), ((), (B,))], False),  # skipped, or gone
        ([((A,), (B,)), ((), (A,))], True),  # what had passed need not be there
        ([((A, B), ()), ((B,), (A,)), ((), (B,))], True),  # each on another attempt
        ([((A, B), ()), ((B,), (A,)), ((), (A,))], False),
        ([((A,), ()), ((B,), (A,)), ((), (A,))], False),
    ],
)
def test_a_retry_makes_good_each_test_that_failed(
    attempts: list[tuple[tuple[str, ...], tuple[str, ...]]], green: bool
) -> None:
    results = []
    for number, (failed, passed) in enumerate(attempts, 1):
        last = number == len(attempts)
        results.append(
            dataclasses.replace(
                RESULTS[0],
                attempt=number,
                outcome=Outcome.FLAKY if last else Outcome.FAILED,
                failed=len(failed),
                exit_status=int(bool(failed)),
                failed_tests=names_of(failed),
                passed_tests=digests_of(passed),
            )
        )
    verdict = verify([*results, *RESULTS[1:]])
    assert verdict.green is green
    assert green or kinds(verdict) == [Kind.FAILED]


def test_a_result_names_failed_tests_in_bounded_space() -> None:
    assert names_of(["a", "b", "a"], 2) == ("a", "b")
    many = names_of((f"t{number}" for number in range(5)), 2)
    assert many == ("t0", "t1", "3 more")
    first = result(outcome=Outcome.FAILED, failed_tests=many)
    # What has no name cannot be shown to have passed.
    again = result(attempt=2, passed_tests=digests_of(f"t{number}" for number in range(5)))
    assert not_made_good([first, again]) == ["3 more"]
    long = [f"t[{'x' * 500}{number}]" for number in range(2)]
    names = names_of(long)
    assert len(set(names)) == 2
    assert max(map(len, names)) < 350
    first = result(outcome=Outcome.FAILED, failed_tests=names)
    assert not_made_good([first, result(attempt=2, passed_tests=digests_of(long[:1]))]) == [
        names[1]
    ]


def test_the_order_of_attempts_is_their_number() -> None:
    assert not verify([again(attempt=2, outcome=Outcome.FAILED), *RESULTS]).green
    assert not verify([*RESULTS, again(attempt=2, outcome=Outcome.FAILED)]).green


def test_a_skip_does_not_replace_a_failure() -> None:
    # pytorch#162978: attempt 1 fails, attempt 2 skips: exit 0.
    results = [
        *changed(0, outcome=Outcome.FAILED),
        again(attempt=2, outcome=Outcome.SKIPPED, tests=0),
    ]
    assert kinds(verify(results)) == [Kind.FAILED]
    # Nor does one that suites.yml allows, in however many reruns of the job.
    excused = {"outcome": Outcome.EXCUSED, "tests": 0}
    for failure in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED, Outcome.NO_TESTS):
        first = changed(0, outcome=failure)
        verdict = verify([*first, again(attempt=11, **excused), again(attempt=21, **excused)])
        assert kinds(verdict) == [Kind.FAILED], failure
        assert f"attempt 1 {failure.value}, then it was skipped" in verdict.problems[0].text
        assert not verdict.flaky
    assert verify([*first, again(attempt=11), again(attempt=21, **excused)]).green
    assert verify([*changed(0, **excused), again(attempt=11)]).green


def test_a_flaky_pass_is_shown_and_fails_where_asked() -> None:
    # bazel#3783: one pass out of N attempts hides a coin-flip failure.
    results = changed(0, outcome=Outcome.FLAKY, attempt=3)
    assert verify(results).green
    assert "passed on attempt 3" in verify(results).flaky[0]
    strict = verify(results, flaky_fails=True)
    assert kinds(strict) == [Kind.FLAKY]
    assert "not verified: 1 flaky" in as_text(strict, 80)


def test_a_rerun_of_the_failing_shard_only() -> None:
    shard = RESULTS[0].shard
    first = [
        dataclasses.replace(r, outcome=Outcome.FAILED) if r.shard == shard else r for r in RESULTS
    ]
    second = [
        dataclasses.replace(r, attempt=11, started=r.started + 60)
        for r in RESULTS
        if r.shard == shard
    ]
    assert verify([*first, *second]).green
    # TileDB-Cloud-Py#580: a rerun that shards again loses the failing test.
    assert kinds(verify([*first, *second[1:]])) == [Kind.FAILED]


def test_an_empty_plan() -> None:
    empty = plan_of({})
    assert kinds(verify([], empty)) == [Kind.PLAN]
    assert verify([], empty, allow_empty=True).green
    assert kinds(verify(RESULTS[:1], empty, allow_empty=True)) == [Kind.FOREIGN]


def test_all_shards_empty_fails() -> None:
    # vllm#32040: one empty shard is fine, but all of them must fail.
    suite = PLAN.suites[0]
    hollow = tuple(dataclasses.replace(shard, files=()) for shard in suite.shards)
    plan = dataclasses.replace(PLAN, suites=(dataclasses.replace(suite, shards=hollow),))
    assert Kind.PLAN in kinds(verify([], plan))
    assert Kind.PLAN in kinds(verify([], plan, allow_empty=True))


def test_a_broken_result_is_named_and_its_file_is_missing() -> None:
    named = tuple((str(n), r) for n, r in enumerate(RESULTS[1:]))
    verdict = judge(PLAN, Found(named, ("results/0.json: not a whole result",)))
    assert kinds(verdict) == [Kind.UNREADABLE, Kind.MISSING]


def test_the_report_fits_a_terminal_and_cuts_long_lists() -> None:
    plan = plan_of(cpu_tests(60), Settings(shards={CPU: 1}))
    failed = [
        dataclasses.replace(r, outcome=Outcome.FAILED, message="because " * 20)
        for r in results_of(plan)
    ]
    text = as_text(verify(failed, plan), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "  and 40 more" in text
    assert text.endswith("not verified: 60 failed\n")


def test_the_report_gives_the_runner_no_command() -> None:
    said = "##[add-mask]a ::add-mask::b"
    text = as_text(verify(changed(0, outcome=Outcome.FAILED, message=said)), 40)
    assert "add-mask" in text
    assert "##[" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_the_report_as_markdown() -> None:
    text = as_markdown(verify(changed(0, outcome=Outcome.FAILED, message="<script>")))
    assert text.startswith("### not verified: 1 failed\n")
    assert "**Failed**" in text
    assert "\\<script\\>" in text


# Reading results.


def test_results_are_read_from_files_and_folders_once(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "a" / "b", RESULTS[:3])
    found = read_results([str(tmp_path), str(folder), str(folder / "0.json")])
    assert [r for _, r in found.results] == RESULTS[:3]
    assert found.broken == ()


def test_torn_and_foreign_documents(tmp_path: Path) -> None:
    whole = RESULTS[0].to_json()
    (tmp_path / "torn.json").write_text(whole[: len(whole) // 2])
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "other.json").write_text(whole.replace('"version": 5', '"version": 1'))
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "half.json").write_text('{"outcome": "passed"}')
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    (tmp_path / "log.txt").write_text("no result")
    (tmp_path / ".0.json.tmp.json").write_text("{")
    found = read_results([str(tmp_path)])
    assert found.results == ()
    names = [Path(line.partition(":")[0]).name for line in found.broken]
    assert names == [
        "bytes.json",
        "deep.json",
        "empty.json",
        "half.json",
        "other.json",
        "torn.json",
    ]
    assert "result version 1, but this runci reads 5: run it again" in found.broken[4]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tests", "3"),
        ("tests", True),
        ("tests", -1),
        ("failed", None),
        ("failed", 0.5),
        ("failed", -1),
        ("attempt", 1.5),
        ("attempt", 1.0),
        ("attempt", 0),
        ("attempt", -1),
        ("attempt", 10**30),
        ("seconds", "fast"),
        ("seconds", -1.0),
        ("seconds", 1e308),
        ("seconds", 10**400),
        ("seconds", True),
        ("started", []),
        ("started", -1),
        ("started", 1e18),
        ("failure", "network"),
        ("failure.kind", {"kind": "weather", "evidence": ""}),
        ("failure", {"kind": "network"}),
        ("failure.evidence", {"kind": "network", "evidence": "x" * 501}),
        ("failure", {"kind": "network", "evidence": "", "again": True}),
        ("path", 7),
        ("suite", None),
        ("backend", 1),
        ("shard", {}),
        ("outcome", "green"),
        ("outcome", 1),
        ("message", {}),
        ("message", None),
        ("commit", 5),
        ("plan", 5),
        ("exit_status", "0"),
        ("exit_status", True),
        ("signal", 9),
        ("device", ["GPU"]),
        ("machine", "GPU"),
        ("machine", {}),
        ("machine", {"gpus": [], "driver": None}),
        ("machine", {**PLAYED, "host": "a"}),
        ("machine", {**PLAYED, "driver": 580}),
        ("machine", {**PLAYED, "not_compared": None}),
        ("machine", {**PLAYED, "gpus": {}}),
        ("machine", {**PLAYED, "gpus": [{"name": "H100"}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "name": None}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "name": "H" * 301}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "uuid": 7}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "index": -1}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "memory_mb": -1}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "memory_mb": "80"}]}),
        ("machine", {**PLAYED, "gpus": [{**PLAYED_GPU, "compute_capability": 9.0}]}),
        ("machine", {**PLAYED, "gpus": [PLAYED_GPU] * 1025}),
        ("peak_memory_mb", -1),
        ("peak_memory_mb", "1"),
        ("only", "a"),
        ("only", [1]),
        ("only", None),
        ("skipped", {}),
        ("skipped", ["a"]),
        ("skipped", [{"test": "a"}]),
        ("skipped", [{"test": "a", "reason": 1}]),
        ("skipped", [{"test": "a", "reason": "b", "line": 1}]),
        ("colour", "red"),
    ],
)
def test_a_result_of_another_shape_is_broken(tmp_path: Path, field: str, value: object) -> None:
    document = {**json.loads(RESULTS[0].to_json()), field.partition(".")[0]: value}
    (tmp_path / "0.json").write_text(json.dumps(document))
    found = read_results([str(tmp_path)])
    (line,) = found.broken
    assert "0.json: not a whole result (" in line
    assert f".{field}" in line
    assert found.results == ()


@pytest.mark.parametrize("field", sorted(json.loads(RESULTS[0].to_json())))
def test_a_result_without_one_of_its_fields_or_with_one_twice_is_broken(
    tmp_path: Path, field: str
) -> None:
    document = json.loads(RESULTS[0].to_json())
    twice = f'{{"{field}": {json.dumps(document[field])}, {RESULTS[0].to_json()[1:]}'
    document.pop(field)
    (tmp_path / "0.json").write_text(json.dumps(document))
    (tmp_path / "1.json").write_text(twice)
    found = read_results([str(tmp_path)])
    assert found.results == ()
    assert len(found.broken) == 2
    assert all(f"{field}`" in line for line in found.broken)


@pytest.mark.parametrize(
    ("version", "had"),
    [(3, {"machine"}), (3, {"failure", "stacks"}), (3, ()), (4, {"machine", "failure", "stacks"})],
)  # they came later
def test_a_result_of_the_version_before_is_read(
    tmp_path: Path, version: int, had: Iterable[str]
) -> None:
    document = json.loads(RESULTS[0].to_json())
    later = {"machine", "failure", "stacks", "selected", "durations", "under", "errors"} - {*had}
    document = {k: v for k, v in document.items() if k not in later}
    (tmp_path / "0.json").write_text(json.dumps({**document, "version": version}))
    found = read_results([str(tmp_path)])
    assert [one for _, one in found.results] == [RESULTS[0]], found.broken
    document.pop("tests")
    (tmp_path / "0.json").write_text(json.dumps({**document, "version": version}))
    assert "tests`" in read_results([str(tmp_path)]).broken[0]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_json_cannot_say_is_no_time(tmp_path: Path, number: str) -> None:
    text = RESULTS[0].to_json().replace(f'"seconds": {RESULTS[0].seconds}', f'"seconds": {number}')
    (tmp_path / "0.json").write_text(text)
    assert len(read_results([str(tmp_path)]).broken) == 1


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    odd = result(
        "test/\udcff.py",
        skipped=(SkippedTest("a", "b"),),
        only=("A::b",),
        selected=Selected("a", "b", True, ("--c=\udcff",)),
        durations=(Duration("A::b", 0.25),),
        peak_memory_mb=0.5,
        exit_status=-9,
        plan=None,
    )
    write_results(tmp_path, [odd])
    ((_, read),) = read_results([str(tmp_path)]).results
    assert (read, read.to_json()) == (odd, odd.to_json())


def test_a_mistyped_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunciError, match="no such file or folder") as caught:
        read_results([str(tmp_path / "resutls")])
    assert caught.value.code == 2


def test_an_unreadable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(RunciError, match="cannot read the folder: Permission denied"):
        read_results([str(tmp_path)])


def test_an_unreadable_file_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(tmp_path, RESULTS[:1])

    def refuse(self: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot read: Input/output error" in read_results([str(tmp_path)]).broken[0]


# The command line.


def command(root: Path, *arguments: str) -> tuple[int, str, str]:
    done = runci(*arguments, cwd=root)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    write_results(tmp_path / "results", RESULTS)
    return tmp_path


def test_the_command_is_green(ran: Path) -> None:
    code, out, err = command(ran, "verify", "plan.json", "results")
    assert (code, err) == (0, "")
    assert out.startswith("verified: 12 files")
    code, out, _ = command(ran, "verify", "plan.json", "results", "--format", "markdown")
    assert (code, out[:4]) == (0, "### ")


def test_the_command_is_red_and_names_the_plan_that_it_was_given(ran: Path) -> None:
    (ran / "results" / "3.json").write_text("{")
    (ran / "plan.json").rename(ran / "my-plan.json")
    code, out, _ = command(ran, "verify", "my-plan.json", "results")
    assert code == 1
    assert "results/3.json: not a whole result" in out
    assert "runci run --plan my-plan.json --shard" in " ".join(out.split())


def test_wrong_use_of_the_command(ran: Path) -> None:
    code, _, err = command(ran, "verify", "none.json", "results")
    assert (code, err) == (
        2,
        "runci: none.json: cannot read: No such file or directory: download it from the job that "
        "planned, or make it with `runci plan --output FILE`\n",
    )
    code, _, err = command(ran, "verify", "results/0.json", "results")
    assert code == 2
    assert "results/0.json: " in err
    code, _, err = command(ran, "verify", "plan.json", "resutls")
    assert code == 2
    assert "resutls: no such file or folder" in err
    code, _, err = command(ran, "verify", "plan.json", "results", "--commit", "d" * 40)
    assert code == 2
    assert "the plan is of commit cccccccccccc, not dddddddddddd" in err
    assert command(ran, "verify", "plan.json", "results", "--commit", "cccccccc")[0] == 0


# The machine


def on(machine: Machine | None, plan: Plan = GPU_PLAN, **values: Any) -> Verdict:
    """The verdict on the result of the plan's one file, on this machine."""
    one = dataclasses.replace(results_of(plan)[0], machine=machine, **values)
    return verify([one], plan)


def of_backend(backend: str, **values: Any) -> Plan:
    (suite,) = GPU_PLAN.suites
    return dataclasses.replace(
        GPU_PLAN, suites=(dataclasses.replace(suite, backend=backend, **values),)
    )


@pytest.mark.parametrize(
    ("machine", "fits"),
    [
        (Machine((CARD,), "580.159.04"), True),
        (Machine((CARD, dataclasses.replace(CARD, index=1)), None), True),
        (Machine(), False),
        (None, False),
        (Machine((dataclasses.replace(CARD, name="NVIDIA GeForce RTX 5090 D"),)), False),
        (Machine((dataclasses.replace(CARD, name=""),)), False),
        (Machine((dataclasses.replace(CARD, compute_capability="9.0"),)), False),
        (Machine((dataclasses.replace(CARD, memory_mb=24564.0),)), False),
        (Machine((CARD, dataclasses.replace(CARD, memory_mb=24564.0))), False),
        (Machine(not_compared="nobody asked"), False),  # of CUDA's GPUs anybody can ask
        (Machine((dataclasses.replace(CARD, name="x"),), not_compared="nobody asked"), False),
    ],
)
def test_a_result_of_another_machine_than_declared_is_no_result(
    machine: Machine | None, fits: bool
) -> None:
    verdict = on(machine, of_backend("cuda", memory_gb=32))
    assert [problem.kind for problem in verdict.problems] == ([] if fits else [Kind.ELSEWHERE])
    assert verdict.green is fits
    if not fits:
        shown = as_text(verdict, 200)
        assert "Ran on another machine than declared:" in shown
        assert "1-gpu-small is 1 GPU RTX 5090 (compute capability 12.0, 32 GB), but " in shown


def test_two_gpus_that_are_declared_must_be_there() -> None:
    assert not on(Machine((CARD,)), of_backend("cuda", gpus=2)).green
    assert on(Machine((CARD, CARD)), of_backend("cuda", gpus=2)).green


def test_a_machine_of_another_backend_that_nobody_could_ask_is_a_note() -> None:
    plan = of_backend("amd", gpu="MI300X", compute_capability=None)
    verdict = on(Machine(not_compared="amdsmi is not installed"), plan, backend="amd")
    assert verdict.green
    (note,) = verdict.notes
    assert note.endswith("not compared with 1 GPU MI300X: amdsmi is not installed")
    asked = Machine((Gpu(0, "a", "AMD Instinct MI300X"),), "6.12")
    assert on(asked, plan, backend="amd").notes == ()
    assert on(asked, plan, backend="amd").green
    assert not on(Machine((Gpu(0, "a", "AMD Instinct MI300A"),)), plan, backend="amd").green
    assert not on(None, plan, backend="amd").green


def test_a_test_that_failed_before_it_had_a_machine_is_told_once() -> None:
    kinds = [problem.kind for problem in on(None, outcome=Outcome.TIMEOUT, tests=0).problems]
    assert kinds == [Kind.FAILED, Kind.NOT_RUN]


def test_a_cpu_suite_has_no_machine_to_compare() -> None:
    assert {one.machine for one in RESULTS} == {None}
    assert verify(RESULTS).green


# runci status


def test_status_of_one_test() -> None:
    path = RESULTS[0].path
    device = "NVIDIA GeForce RTX 5090"
    ran_ = result(path, started=1_780_000_000.0, device=device, seconds=12.34, tests=7)
    later = result(
        path, started=1_780_100_000.0, outcome=Outcome.CRASHED, tests=0, message="killed\nmore"
    )
    (status,) = statuses([later, ran_, result("test/other.py")], path)
    text = status_text(status)
    assert "last ran   2026-05-28 20:26:40 UTC, attempt 1: passed" in text
    assert f"{device}" in text
    assert "12.3 s" in text
    assert "7 executed" in text
    assert "since then 2026-05-30 00:13:20 UTC: crashed: killed" in text


def test_status_of_one_test_names_the_gpu_and_its_driver() -> None:
    (status,) = statuses([ON_GPU, result("test/other.py")], GPU_PATH)
    text = status_text(status)
    assert "NVIDIA GeForce RTX 5090 (compute capability 12.0), GPU-0\n" in text
    assert "driver     580.159.04\n" in text
    (status,) = statuses([dataclasses.replace(ON_GPU, machine=Machine(not_compared="unasked"))])
    assert "not compared: unasked" in status_text(status)


def test_a_test_that_never_really_ran() -> None:
    (status,) = statuses([result(outcome=Outcome.EXCUSED, tests=0)])
    assert "never really ran" in status_text(status)
    assert "never" in as_table([status], 80)


def test_the_table_of_all_tests_fits_a_terminal_and_keeps_the_names() -> None:
    long = f"test/registered/{'deep/' * 20}test_name.py"
    table = as_table(statuses([result(long), result(started=float("nan"))]), 80)
    assert max(map(len, table.splitlines())) <= 80
    assert "test_name.py" in table


def test_a_path_that_is_too_long_keeps_its_end() -> None:
    assert path_end("a/test_x.py", 11) == "a/test_x.py"
    assert path_end("ab/test_x.py", 11) == "...est_x.py"
    assert path_end("a/test_x.py", 1) == "..._x.py"  # no column is narrower than eight


def test_the_status_command(ran: Path) -> None:
    assert command(ran, "status", "results")[1].count("\n") == 15
    code, out, _ = command(ran, "status", "results", RESULTS[3].path)
    assert code == 0
    assert out.startswith(RESULTS[3].path)
    code, _, err = command(ran, "status", "results", "test/none.py")
    assert (code, err) == (3, "runci: no result of test/none.py in results\n")
    assert command(ran, "status", "test/none.py")[0] == 2


LANE = SUITES.replace("timeout_minutes: 10,", "timeout_minutes: 10, under: [memcheck, racecheck],")


def lane() -> Plan:
    known = taxonomy(LANE)
    return make_plan("c" * 40, everything(known), known, cpu_tests(1), Settings())


def test_results_under_each_tool_are_what_is_planned() -> None:
    plan = lane()
    assert verify(results_of(plan), plan).green


def test_a_result_under_a_tool_stands_for_no_other_run() -> None:
    plan = lane()
    memcheck, racecheck = results_of(plan)
    verdict = verify([memcheck], plan)
    assert [(p.kind, p.files) for p in verdict.problems] == [(Kind.MISSING, 1)]
    for under, said in ((None, "but under memcheck"), ("synccheck", "under synccheck")):
        other = dataclasses.replace(racecheck, under=under)
        found = verify([memcheck, other], plan).problems
        assert {p.kind for p in found} == {Kind.MISSING, Kind.FOREIGN}
        assert any(said in p.text for p in found)
    swapped = dataclasses.replace(racecheck, under="memcheck")
    assert not verify([memcheck, swapped], plan).green


def test_a_result_under_a_tool_does_not_stand_for_the_plain_run() -> None:
    plan = plan_of(cpu_tests(1))
    (plain,) = results_of(plan)
    problems = verify([dataclasses.replace(plain, under="memcheck")], plan).problems
    assert {p.kind for p in problems} == {Kind.MISSING, Kind.FOREIGN}
    assert any("but without a tool" in p.text for p in problems)


def test_errors_of_a_tool_contradict_a_pass() -> None:
    plan = lane()
    memcheck, racecheck = results_of(plan)
    hidden = dataclasses.replace(memcheck, errors=(ToolError("Invalid __global__ write"),))
    (problem,) = verify([hidden, racecheck], plan).problems
    assert (problem.kind, "memcheck" in problem.text) == (Kind.FAILED, True)


def test_a_tool_under_which_no_test_ran_is_idle_whatever_the_other_did() -> None:
    plan = lane()
    memcheck, racecheck = results_of(plan)
    skipped = (SkippedTest("a", "b"),)
    idle = dataclasses.replace(racecheck, outcome=Outcome.EXCUSED, tests=0, skipped=skipped)
    problems = verify([memcheck, idle], plan).problems
    assert [p.kind for p in problems] == [Kind.NOT_RUN]
    assert "under racecheck" in problems[0].text


def test_status_tells_runs_under_a_tool_apart() -> None:
    plan = lane()
    found = statuses([*results_of(plan), dataclasses.replace(results_of(plan)[0], under=None)])
    assert [status.newest.under for status in found] == [None, "memcheck", "racecheck"]
    assert "under racecheck" in as_table(found, 120)
    assert "under racecheck" in status_text(found[2])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
