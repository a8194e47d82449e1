"""What `--last-failed` runs of a file, as a table."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from runci import register_cpu_ci
from runci.core.result import FileResult, Outcome, digests_of, names_of
from runci.core.selected import EVERYTHING, Selected
from runci.run.again import MOST, again
from runci.run.model import RunFile

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"
WHOLE: tuple[str, ...] = ()


def result(
    outcome: str,
    failed: str = "",
    passed: str = "",
    only: tuple[str, ...] = WHOLE,
    at: float = 0.0,
    selected: Selected = EVERYTHING,
) -> FileResult:
    """A result whose failed and passed tests are named by words."""
    return FileResult(
        "s", "cpu", "s-1", PATH, Outcome(outcome), 1, 0, (), 1.0, at,
        only=only,
        selected=selected,
        failed_tests=names_of(f"{PATH}::{name}" for name in failed.split()),
        passed_tests=digests_of(f"{PATH}::{name}" for name in passed.split()),
    )  # fmt: skip


K, X = Selected(keyword="a"), Selected(first=True)
FP8 = Selected(arguments=("--dtype=fp8",))
RED = result("failed", "test_a T::test_b[1/2-é]", "test_c")
AB = ("T::test_b[1/2-é]", "test_a")


@pytest.mark.parametrize(
    ("whole", "parts", "only"),
    [
        ([], [], WHOLE),  # never ran
        ([result("passed")], [], None),
        ([result("flaky", passed="test_a")], [], None),
        ([RED], [], AB),
        ([result("timeout", "test_a")], [], ("test_a",)),
        ([result("timeout")], [], WHOLE),  # before it named a test
        ([result("crashed")], [], WHOLE),
        ([result("skipped")], [], WHOLE),
        ([result("failed")], [], WHOLE),  # cannot be collected, a status
        # Attempts in one run: what an earlier one failed and no later one passed.
        ([RED, result("failed", passed="test_a")], [], ("T::test_b[1/2-é]",)),
        ([RED, result("flaky", passed="test_a T::test_b[1/2-é]")], [], None),
        ([RED, result("passed")], [], None),  # another run of all of it, the tests renamed
        # Parts that ran since.
        ([RED], [result("passed", passed="test_a", only=("test_a",), at=1)], ("T::test_b[1/2-é]",)),
        ([RED], [result("passed", passed="test_a T::test_b[1/2-é]", only=AB, at=1)], WHOLE),
        ([RED], [result("failed", "test_a", only=("test_a",), at=1)], AB),
        ([RED], [result("crashed", "test_a", only=AB, at=1)], AB),
        ([RED], [result("failed", only=AB, at=1)], WHOLE),  # they cannot run alone
        ([RED], [result("no-tests", only=AB, at=1)], WHOLE),
        ([replace(RED, started=2)], [result("passed", passed="test_a", only=("test_a",))], AB),
        ([result("passed")], [result("failed", "test_z", only=("test_z",), at=1)], ("test_z",)),
        (
            [result("passed")],
            [
                result("passed", passed="test_z", only=("test_z",), at=2),
                result("failed", "test_z", only=("test_z", "test_y"), at=1),
            ],
            None,
        ),
        # What -k, -m and -x leave is a part, too; with other arguments a test is another one.
        ([RED], [result("passed", passed="test_a", selected=K, at=1)], ("T::test_b[1/2-é]",)),
        ([RED], [result("passed", passed="test_a T::test_b[1/2-é]", selected=X, at=1)], WHOLE),
        ([RED], [result("passed", passed="test_a", only=("test_a",), selected=FP8, at=1)], AB),
        ([replace(RED, started=2)], [result("passed", passed="test_a", selected=K, at=1)], AB),
        ([result("passed")], [result("failed", "test_z", selected=K, at=1)], ("test_z",)),
        ([result("passed")], [result("failed", "test_z", selected=FP8, at=1)], None),
        # The whole never ran: what counts is the newest run with the same options.
        ([replace(RED, selected=X)], [], AB),
        ([replace(RED, selected=X)], [replace(RED, selected=X)], AB),  # no part of itself
        (
            [replace(RED, selected=X)],
            [result("passed", passed="test_a", only=("test_a",), selected=X, at=1)],
            ("T::test_b[1/2-é]",),
        ),
        # Tests that cannot be asked for by name.
        ([result("failed", "test_" + "x" * 300)], [], WHOLE),
        ([result("failed", " ".join(f"test_{n}" for n in range(1001)))], [], WHOLE),
        ([result("failed", "test_gone test_a")], [], WHOLE),
        ([replace(RED, failed_tests=(f"{PATH}::test_a b",))], [], WHOLE),
        ([replace(RED, failed_tests=(f"{PATH}::test_a[\n]",))], [], WHOLE),
        ([replace(RED, failed_tests=("t/test_y.py::test_a",))], [], WHOLE),
        ([replace(RED, failed_tests=(PATH,))], [], WHOLE),
        ([result("failed", " ".join(f"test_{n:0250}" for n in range(MOST // 250)))], [], WHOLE),
    ],
)  # fmt: skip
def test_what_runs_again(
    whole: list[FileResult], parts: list[FileResult], only: tuple[str, ...] | None
) -> None:
    file = RunFile(PATH, 1.0)
    found = again(file, whole, parts, False, lambda name: "gone" not in name)
    expected = None if only is None else replace(file, only=only)
    assert found.file == expected
    # Whoever expects a few tests and gets all of them is told why.
    named = any(one.failed_tests for one in whole) and only == WHOLE
    assert bool(found.why) == named


def test_a_flaky_file_runs_whole_where_flaky_fails() -> None:
    file = RunFile(PATH, 1.0)
    whole = [RED, result("flaky", passed="test_a T::test_b[1/2-é]")]
    assert again(file, whole, [], True, lambda _: True).file == file


def test_a_planned_part_has_parts_of_its_own() -> None:
    file = RunFile(PATH, 1.0, only=("T",))
    whole = [result("failed", "T::test_b T::test_c", only=("T",))]
    parts = [
        result("failed", "test_a", only=("test_a",), at=1),
        result("passed", passed="T::test_b", only=("T::test_b",), at=2),
    ]
    due = again(file, whole, parts, False, lambda _: True).file
    assert due == replace(file, only=("T::test_c",))


def test_of_a_planned_part_counts_only_what_lies_in_it() -> None:
    file = RunFile(PATH, 1.0, only=("T",))
    whole = [result("failed", "T::test_b T::test_c", only=("T",))]
    parts = [
        result("failed", "test_a", selected=K, at=1),
        result("passed", passed="T::test_b", only=("T",), selected=K, at=2),
    ]
    due = again(file, whole, parts, False, lambda _: True).file
    assert due == replace(file, only=("T::test_c",))


def test_a_benchmark_has_no_tests_to_choose_from() -> None:
    file = RunFile(PATH, 1.0, benchmark=True)
    assert again(file, [RED], [], False, lambda _: True).file == file


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
