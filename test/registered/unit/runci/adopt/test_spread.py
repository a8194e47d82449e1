"""Several machines of one backend: which of them a file goes to."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.machines import Machine, machine_of
from runci.adopt.spread import spread
from runci.workflows.runs import PathRun

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ONE = machine_of(("self-hosted", "h100"), (("w.yml", "one"), ("w.yml", "any")))
FOUR = machine_of(("4-gpu-h100",), (("w.yml", "four"), ("w.yml", "any")))
NAMES = ("test_*.py",)
A, B, M = "t/test_a.py", "t/multi/test_b.py", "t/test_marks.py"
MARKS = {A: ((),), B: ((),), M: ((), ("gpus(4)",))}


def run(job: str, target: str, part: str = "", **more: object) -> tuple[str, PathRun]:
    return "w.yml", PathRun("w.yml", 9, target, job, NAMES, part, **more)  # type: ignore[arg-type]


def placed(*runs: tuple[str, PathRun]) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    found = spread((A, B, M), runs, (ONE, FOUR), MARKS)
    return {machine.label: (one.files, one.marked) for machine, one in found.items()}


ALL_ON_ONE = {"h100": ([A, B, M], {})}
ON_ONE, ON_FOUR = run("one", "t"), run("four", "t/multi")


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), ALL_ON_ONE),
        ((ON_ONE,), ALL_ON_ONE),
        ((ON_FOUR,), ALL_ON_ONE),  # jobs of one machine alone tell nothing of the other
        # A folder, and what is on both.
        ((run("one", "t/test_a.py"), ON_FOUR), {"h100": ([A, M], {}), "4-gpu-h100": ([B], {})}),
        ((ON_ONE, ON_FOUR), {"h100": ([A, B, M], {}), "4-gpu-h100": ([B], {})}),
        # Marks: each job says which, or the first machine has the others.
        (
            (run("one", "t", "-m 'not gpus(4)'"), run("four", "t", "-m 'gpus(4)'")),
            {"h100": ([A, B], {"not (gpus(4))": [M]}), "4-gpu-h100": ([], {"gpus(4)": [M]})},
        ),
        (
            (run("one", "t/test_a.py"), run("four", "t", "-m 'gpus(4)'")),
            {"h100": ([A, B], {"not (gpus(4))": [M]}), "4-gpu-h100": ([], {"gpus(4)": [M]})},
        ),
        (
            (run("one", "t", "-m 'not slow'"), run("four", "t", "-m 'gpus(4)'")),
            {"h100": ([A, B], {"not (gpus(4))": [M]}), "4-gpu-h100": ([], {"gpus(4)": [M]})},
        ),
        (
            (ON_ONE, run("four", M, "-m 'gpus(4)'"), run("four", M, "-m slow")),
            {"h100": ([A, B, M], {}), "4-gpu-h100": ([], {"gpus(4)": [M]})},
        ),
        (
            (ON_ONE, run("four", M), run("four", M, "-m slow")),
            {"h100": ([A, B, M], {}), "4-gpu-h100": ([M], {})},
        ),
        # What says nothing of a machine.
        ((ON_ONE, run("four", "t", "-k x")), ALL_ON_ONE),
        ((ON_ONE, run("four", "t", "t/test_a.py::test_x")), ALL_ON_ONE),
        ((ON_ONE, run("four", "t", "-m 'a ='")), ALL_ON_ONE),
        ((ON_ONE, run("any", "t/multi")), ALL_ON_ONE),  # on one of two: only a run knows
        (
            (run("one", A), run("four", M), run("any", M)),
            {"h100": ([A, B], {}), "4-gpu-h100": ([M], {})},
        ),
        ((ON_ONE, run("else", "t/multi")), ALL_ON_ONE),
        ((ON_ONE, run("four", "t", certain=False)), ALL_ON_ONE),
    ],
)
def test_where_jobs_say_which_machine(
    runs: tuple[tuple[str, PathRun], ...],
    expected: dict[str, tuple[list[str], dict[str, list[str]]]],
) -> None:
    assert placed(*runs) == expected


def test_a_file_whose_tests_all_have_the_mark_is_not_on_the_first() -> None:
    runs = (run("one", A), run("four", B, "-m 'gpus(4)'"))
    found: dict[Machine, object] = dict(spread((B,), runs, (ONE, FOUR), {B: (("gpus(4)",),)}))
    assert list(found) == [FOUR]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
