"""Measured times: percentiles, corrections that cannot stop planning, and rewritten literals."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import SUITES, TESTS, result, write_results
from trees import make_tree, runci

from runci import register_cpu_ci
from runci.core.result import Outcome
from runci.plan.estimates import compare, rewrite, rounded
from runci.plan.times import Fit, Prediction, Times, Timing, fit, measured, predict
from runci.read.parse import parse

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

KEY = ("cpu", "base-a-test-cpu", f"{TESTS}/test_0.py", "")


def seconds_of(*seconds: float, **changed: Any) -> Times:
    return measured([result(seconds=value, **changed) for value in seconds])


def test_the_figures_of_a_timing() -> None:
    timing = seconds_of(*range(10, 0, -1)).timings[KEY]
    assert timing.runs == tuple(range(1000, 11_000, 1000))
    assert timing.median == 5500
    assert timing.p90 == 9000
    assert timing.variance == pytest.approx(55 / 6)


def test_an_odd_number_of_runs() -> None:
    timing = Timing((1000, 2000, 9000))
    assert timing.median == 2000
    assert timing.p90 == 9000
    assert timing.variance == pytest.approx(19.0)


def test_few_runs_get_a_quarter_more() -> None:
    assert Timing((1000,)).p90 == 1250
    assert Timing((1000, 2001)).p90 == 2502
    assert Timing((1000,)).variance == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**7), min_size=3, max_size=60).map(sorted))
def test_at_least_nine_of_ten_runs_are_within_the_percentile(runs: list[int]) -> None:
    timing = Timing(tuple(runs))
    within = sum(run <= timing.p90 for run in runs)
    assert within * 10 >= 9 * len(runs)
    assert timing.p90 in runs


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": Outcome.FAILED},  # ended early
        {"outcome": Outcome.TIMEOUT},
        {"outcome": Outcome.FLAKY},  # its attempts say how long it takes
        {"outcome": Outcome.EXCUSED, "tests": 0},
        {"tests": 0},
        {"only": ("test_x",)},  # a part of the file
    ],
)
def test_runs_that_say_nothing_of_the_time_do_not_count(changed: dict[str, object]) -> None:
    assert seconds_of(5.0, **changed) == Times({})


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -3.0, 0.0])
def test_times_of_a_clock_that_jumped_are_counted_apart(seconds: float) -> None:
    times = seconds_of(seconds, 5.0)
    assert times.unusable == 1
    assert times.timings[KEY].runs == (5000,)


def test_measured_then_estimate_then_default() -> None:
    timing = Timing((9000, 9000, 9011))
    assert predict(timing, 1.0, 5.0, 1000) == Prediction(9100, "measured")
    assert predict(None, 1.26, 5.0, 1000) == Prediction(1300, "estimate")
    assert predict(None, 10.0, 5.0, 1500) == Prediction(15_000, "estimate")
    assert predict(None, None, 5.0, 1500) == Prediction(5000, "default")
    assert predict(None, None, None, 1500) == Prediction(60_000, "default")


def test_a_fit_is_the_median_factor() -> None:
    found = fit([(10_000, 20_000), (20_000, 40_000), (5000, 10_000), (1000, 9000), (3000, 6000)])
    assert found == Fit(2000, "estimates times 2, the median of 5 measured files")


def test_too_few_files_make_no_fit() -> None:
    assert fit([(1000, 2000)] * 4) == Fit()


@pytest.mark.parametrize("ratio", [4500 / 11, 1 / 409])
def test_a_degenerate_fit_falls_back_and_says_so(ratio: float) -> None:
    # pytorch#182179: an estimate of 11 s for 4,500 s.
    found = fit([(11_000, int(11_000 * ratio))] * 6)
    assert found.factor == 1000
    assert "as they are" in (found.note or "")


@pytest.mark.parametrize(("ms", "used"), [(99, 1000), (100, 100), (10_000, 10_000), (10_001, 1000)])
def test_the_bounds_of_a_fit(ms: int, used: int) -> None:
    assert fit([(1000, ms)] * 5).factor == used


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 10**8)), max_size=12))
def test_no_measurements_can_make_a_prediction_that_is_not_positive(
    pairs: list[tuple[int, int]],
) -> None:
    # sglang#31416: a line with a negative slope, or an intercept above the budget.
    factor = fit(pairs).factor
    assert 100 <= factor <= 10_000
    assert predict(None, 30.0, None, factor).ms in range(3000, 300_001)


SOURCES = {
    "keyword": 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n',
    "positional": 'register_cpu_ci(5, "base-a-test-cpu")\n',
    "last": 'register_cpu_ci(runner_config="cpu", stage="base-a", est_time=5)\n',
    # sglang#25248: several lines defeat an updater built on regular expressions.
    "lines": 'register_cpu_ci(\n    stage="base-a",  # est_time=5\n    runner_config="cpu",\n'
    "    est_time=(  # seconds\n        5\n    ),\n)\n",
    "written oddly": 'register_cpu_ci(est_time = 0x5, stage="base-a", runner_config="cpu")\n',
    "float": 'register_cpu_ci(est_time=5.0, stage="base-a", runner_config="cpu");X = 1\n',
    "not ASCII": '"üü"; register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")  # ü\n',
    "CRLF": 'register_cpu_ci(\r\n    est_time=5,\r\n    stage="base-a", runner_config="cpu")\r\n',
    "quoted": 'X = "register_cpu_ci(est_time=5)"\n'
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n',
}


@pytest.mark.parametrize("name", SOURCES)
def test_only_the_literal_changes(name: str) -> None:
    source = "from runci import register_cpu_ci\n" + SOURCES[name]
    path, data = KEY[2], source.encode()
    drifts = compare([parse(path, data)], seconds_of(47, 47, 47)).drifts
    after = rewrite(path, data, drifts)
    assert isinstance(after, bytes)
    again = compare([parse(path, after)], seconds_of(47, 47, 47))
    assert (len(again.drifts), again.right) == (0, 1)
    literal = {"written oddly": "0x5", "float": "5.0"}.get(name, "5")
    assert len(after) == len(data) - len(literal) + 2
    assert ast.dump(ast.parse(after)).count("Constant(value=47") == 1


def test_two_registrations_of_a_file_are_told_apart() -> None:
    source = (
        b"from runci import register_cpu_ci, register_cuda_ci\n"
        b'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n'
        b'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-small")\n'
    )
    file = parse(KEY[2], source)
    gpu = {"backend": "cuda", "suite": "base-b-test-1-gpu-small"}
    compared = compare([file], seconds_of(300, 300, 300, **gpu))
    assert [drift.suite for drift in compared.drifts] == ["cuda base-b-test-1-gpu-small"]
    assert compared.unmeasured == 1
    after = rewrite(KEY[2], source, compared.drifts)
    assert after == source.replace(b'5, stage="base-b"', b'300, stage="base-b"')


def test_a_bom_and_a_declared_encoding_survive() -> None:
    call = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")  # ü\n'
    for data in (
        b"\xef\xbb\xbf" + f"from runci import register_cpu_ci\n{call}".encode(),
        f"# coding: latin-1\nfrom runci import register_cpu_ci\n{call}".encode("latin-1"),
    ):
        drifts = compare([parse(KEY[2], data)], seconds_of(47, 47, 47)).drifts
        assert rewrite(KEY[2], data, drifts) == data.replace(b"est_time=5", b"est_time=47")


def test_a_file_that_changed_meanwhile_is_left_alone() -> None:
    before = b'from runci import register_cpu_ci\nregister_cpu_ci(est_time=5, suite="x")\n'
    timed = {"suite": "x"}
    drifts = compare([parse(KEY[2], before)], seconds_of(47, 47, 47, **timed)).drifts
    after = rewrite(KEY[2], b"import os, sys, re, json, time\n" + before, drifts)
    assert isinstance(after, str)
    assert "left as it is" in after


@pytest.mark.parametrize(
    ("estimate", "seconds", "holds"),
    [
        (100, 120, True),  # within a quarter
        (100, 125, True),
        (100, 126, False),
        (100, 75, True),
        (100, 130, False),
        (100, 70, False),
        (1, 3, True),  # within two seconds
        (1, 4, False),
    ],
)
def test_what_counts_as_drift(estimate: int, seconds: int, holds: bool) -> None:
    source = f'from runci import register_cpu_ci\nregister_cpu_ci({estimate}, suite="x")\n'
    times = seconds_of(seconds, seconds, seconds, suite="x")
    assert bool(compare([parse(KEY[2], source.encode())], times).right) is holds


def test_a_disabled_registration_is_left_alone() -> None:
    source = b'from runci import register_cpu_ci\nregister_cpu_ci(5, suite="x", disabled="#1")\n'
    compared = compare([parse(KEY[2], source)], seconds_of(90, 90, 90, suite="x"))
    assert (compared.drifts, compared.right, compared.unmeasured) == ((), 0, 0)


def test_a_file_that_is_no_text_any_more_is_left_alone() -> None:
    assert rewrite("t.py", b"\xff\xfe\x00", []) == "t.py: cannot be read"


def test_an_unusable_estimate_drifts() -> None:
    source = b'from runci import register_cpu_ci\nregister_cpu_ci(est_time=0, suite="x")\n'
    (drift,) = compare([parse(KEY[2], source)], seconds_of(1, 1, 1, suite="x")).drifts
    assert (drift.old, drift.new) == (None, 1)


@pytest.mark.parametrize(
    ("ms", "seconds"),
    [(1, 1), (999, 1), (1001, 2), (47_000, 47), (101_000, 110), (4_487_000, 4500)],
)
def test_new_estimates_have_two_digits(ms: int, seconds: int) -> None:
    assert rounded(ms) == seconds


TREE = {
    "test/suites.yml": SUITES,
    KEY[2]: "from runci import register_cpu_ci\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n',
}


def test_the_commands(tmp_path: Path) -> None:
    make_tree(tmp_path, TREE)
    write_results(tmp_path / "results", [result(seconds=47.0, started=float(n)) for n in range(3)])
    check = runci("estimates", "check", "results", "--no-cache", cwd=tmp_path)
    assert check.returncode == 1
    assert f"{KEY[2]}:2" in check.stdout
    assert "1 estimate drifted; 0 hold" in check.stdout
    assert max(map(len, check.stdout.splitlines())) <= 80
    update = runci("estimates", "update", "results", "--no-cache", cwd=tmp_path)
    assert update.returncode == 0, update.stderr
    assert "1 of 1 estimate rewritten" in update.stdout
    assert "est_time=47," in (tmp_path / KEY[2]).read_text()
    assert runci("estimates", "check", "results", "--no-cache", cwd=tmp_path).returncode == 0


def test_few_runs_are_not_enough_to_rewrite(tmp_path: Path) -> None:
    make_tree(tmp_path, TREE)
    write_results(tmp_path / "results", [result(seconds=47.0)])
    update = runci("estimates", "update", "results", "--no-cache", cwd=tmp_path)
    assert "1 measured too seldom" in update.stdout
    assert "est_time=5," in (tmp_path / KEY[2]).read_text()


def test_no_time_at_all_is_nothing_to_check(tmp_path: Path) -> None:
    make_tree(tmp_path, TREE)
    write_results(tmp_path / "results", [result(outcome=Outcome.FAILED)])
    done = runci("estimates", "check", "results", "--no-cache", cwd=tmp_path)
    assert done.returncode == 3
    assert "in results" in done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
