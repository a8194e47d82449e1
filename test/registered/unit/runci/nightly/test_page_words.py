"""The numbers, words and links of the page: what each reads as."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import DASH

from runci import register_cpu_ci
from runci.nightly.page import words
from runci.nightly.record import Direction
from runci.text.wording import some

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (6.0123, "6.012"),
        (0.00012346, "0.0001235"),
        (1834.4, "1,834"),
        (12_345_678.0, "12,345,678"),
        (0.0, "0"),
        (-2.5, "-2.500"),
        (3e12, "3.000e+12"),
        (2e-9, "2.000e-09"),
        (math.nan, DASH),
        (math.inf, DASH),
        (None, DASH),
    ],
)
def test_numbers_have_four_digits(figure: float | None, text: str) -> None:
    assert words.number(figure) == text


@pytest.mark.parametrize(
    ("relative", "text"),
    [
        (0.0523, "5.2 % worse"),
        (-0.031, "3.1 % better"),
        (0.0004, "0.0 %"),
        (-0.0004, "0.0 %"),
        (12.0, "1,200.0 % worse"),
        (None, DASH),
        (math.nan, DASH),
    ],
)
def test_a_change_says_which_way(relative: float | None, text: str) -> None:
    assert words.change(relative) == text


def test_other_words() -> None:
    assert words.interval(-0.061, 0.048) == f"{words.MINUS}6.1 to +4.8 %"
    assert words.interval(-0.0001, 0.0001) == "0.0 to 0.0 %"
    assert words.interval(None, 0.1) == DASH
    assert words.ratio(1.0519) == f"1.052{words.TIMES}"
    assert words.amount(6.0, "us") == "6.000 µs"
    assert words.amount(None, "us") == DASH
    assert words.short("0123456789abcdef") == "012345678"
    assert words.better(Direction.HIGHER) == "higher is better"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert some(["a"]) == "a"
    assert words.day("2026-02-30") is None
    assert words.day("tonight") is None
    assert words.cut("x" * 90, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([0.95, 1.0, 1.05], ["0.95", "1.00", "1.05"]),
        ([1.0, 1.0025], ["1.0000", "1.0025"]),
        ([0.0, 500.0, 1000.0], ["0", "500", "1,000"]),
        ([-1.0, 1.0], [f"{words.MINUS}1", "1"]),
        ([1e12, 2e12], ["1e+12", "2e+12"]),
        ([], []),
    ],
)
def test_the_labels_of_an_axis_have_the_same_decimals(
    ticks: list[float], labels: list[str]
) -> None:
    assert words.scale(ticks) == labels


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://github.com/o/r/actions/runs/1", True),
        ("http://localhost:8000/x", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https:alert(1)", False),
        ("//evil.example/x", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_only_addresses_of_the_web_become_links(url: str, safe: bool) -> None:
    assert words.safe_url(url) == (url if safe else None)


def test_commits_link_to_the_repository_of_the_run() -> None:
    run, one, two = f"{sim.RUNS}/9", "a" * 40, "b" * 40
    page = "https://github.com/octo/kernels"
    assert words.commit_url(run, one) == f"{page}/commit/{one}"
    assert words.commit_url(run, one, two) == f"{page}/compare/{two}...{one}"
    for bad in ("", None, "HEAD", f"{one}/../..", "<b>"):
        assert words.commit_url(run, bad) is None
    assert words.commit_url(run, one, "x/y") is None
    assert words.commit_url("https://example.org/other/9", one) is None
    assert words.commit_url("javascript:https://github.com/o/r/actions/runs/1", one) is None


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
