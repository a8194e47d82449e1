"""How long tests took: what a result keeps of it, and which a run shows, as tables."""

from __future__ import annotations

import io
import sys

import pytest

from runci import register_cpu_ci
from runci.core.registration import Backend
from runci.core.result import LONGEST_NAME, NAMED, Duration, FileResult, Outcome, times_of
from runci.run.model import Case, FileReport, Selection
from runci.run.progress import Terminal
from runci.run.summary import Finished, Summary, slowest_tests, step_summary

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"


def finished(path: str, *cases: Case) -> Finished:
    result = FileResult("s", "cpu", "s-1", path, Outcome.PASSED, 1, 0, (), 1.0, 0.0)
    return Finished(result, FileReport(path, cases, begun=True, code=0), 1.0)


def passed(name: str, seconds: float, path: str = PATH) -> Case:
    return Case(f"{path}::{name}", "passed", seconds)


def summary(*files: Finished, durations: int | None = None) -> Summary:
    return Summary(Selection(Backend.CPU, "s", "cpu-s", ()), files, 1.0, durations=durations)


@pytest.mark.parametrize(
    ("cases", "seconds"),
    [
        ((), {}),
        ((passed("a", 1.0), Case(f"{PATH}::b", "failed", 2.0)), {"a": 1.0, "b": 2.0}),
        ((passed("a", 1.0), Case(f"{PATH}::b", "skipped", 2.0)), {"a": 1.0}),
        # A subtest is a part of its test, in whatever order they end.
        ((Case(f"{PATH}::a (n=1)", "failed", 0.2, part_of=f"{PATH}::a"), passed("a", 1.0)),
         {"a": 1.0}),
        ((Case(f"{PATH}::a (n=1)", "failed", 0.2, part_of=f"{PATH}::a"),), {"a": 0.2}),
    ],
)  # fmt: skip
def test_the_seconds_of_tests_that_were_executed(
    cases: tuple[Case, ...], seconds: dict[str, float]
) -> None:
    found = FileReport(PATH, cases).seconds_of_tests
    assert found == {f"{PATH}::{name}": took for name, took in seconds.items()}


def test_a_result_keeps_all_of_a_bounded_number() -> None:
    seconds = {f"{PATH}::test_{n:05}": n / 1000 for n in range(NAMED + 500)}
    kept = times_of(PATH, seconds)
    assert len(kept) == NAMED + 1
    assert kept[0] == Duration(f"test_{NAMED + 499:05}", (NAMED + 499) / 1000)
    assert (kept[-2].test, kept[-1].test) == ("test_00500", "500 more")
    assert sum(one.seconds for one in kept) == pytest.approx(sum(seconds.values()), abs=0.01)
    assert times_of(PATH, {}) == ()
    (long,) = times_of(PATH, {f"{PATH}::{'x' * 5000}": 1.0})
    assert len(long.test) < LONGEST_NAME + 50
    assert times_of(PATH, {f"{PATH}::b": 1.0, f"{PATH}::a": 1.0})[0].test == "a"


TWELVE = [passed(f"test_{n:02}", n / 4) for n in range(12)]


@pytest.mark.parametrize(
    ("durations", "names"),
    [
        (None, [f"test_{n:02}" for n in range(11, 1, -1)]),
        (3, ["test_11", "test_10", "test_09"]),
        (0, [f"test_{n:02}" for n in range(11, -1, -1)]),
        (99, [f"test_{n:02}" for n in range(11, -1, -1)]),
    ],
)
def test_the_slowest_are_shown(durations: int | None, names: list[str]) -> None:
    files = (finished(PATH, *TWELVE[::2]), finished(PATH, *TWELVE[1::2]))
    found = slowest_tests(summary(*files, durations=durations))
    assert [test for test, _ in found] == [f"{PATH}::{name}" for name in names]


def test_quick_ones_only_where_asked_and_a_repetition_by_its_longest_run() -> None:
    files = [finished(PATH, passed("quick", 0.09), passed("slow", took)) for took in (0.1, 3, 2)]
    assert slowest_tests(summary(*files)) == [(f"{PATH}::slow", 3)]
    assert [took for _, took in slowest_tests(summary(*files, durations=5))] == [3, 0.09]


def test_a_terminal_and_the_page_show_them() -> None:
    long = "t/" + "folder/" * 20 + "test_x.py"
    one = summary(finished(long, passed("test_slow[é|2]", 61.25, long), passed("b", 0.5, long)))
    out = io.StringIO()
    Terminal(out, False, 80).finish(one, [], "")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    shown = lines[lines.index("slowest tests") + 1 :][:2]
    assert shown[0].startswith("      1:01  ") and shown[0].endswith("test_slow[é|2]")
    assert shown[1].startswith("    0.50 s  ") and shown[1].endswith("::b")
    assert all(len(line) <= 80 for line in shown)
    page = step_summary(one)
    table = page[page.index("| slowest tests") :].splitlines()
    assert [row.rstrip(" |").rpartition(" ")[2] for row in table[2:]] == ["61.25", "0.50"]
    assert page[: page.index("| slowest tests")].endswith("\n\n")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
