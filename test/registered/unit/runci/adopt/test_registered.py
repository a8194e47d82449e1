"""The suites that calls in files name."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.list_files import RanSuite
from runci.adopt.registered import of_calls
from runci.config.taxonomy import Execution, Kind
from runci.core.registration import Backend, Registration
from runci.core.source import at

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

CUDA, AMD = Backend.CUDA, Backend.AMD


def call(
    backend: Backend = CUDA,
    suite: str | None = None,
    pair: tuple[str, str] | None = None,
    nightly: bool = False,
) -> Registration:
    stage, config = pair or (None, None)
    return Registration(backend, 1.0, suite, stage, config, nightly, None, None, at(1))


@pytest.mark.parametrize(
    ("calls", "names"),
    [
        ({"a.py": [call(suite="x")], "b.py": [call(suite="x")]}, [(CUDA, "x", "", "")]),
        ({"a.py": [call(pair=("s", "c"))]}, [(CUDA, "s-test-c", "s", "c")]),
        (
            {"a.py": [call(suite="x"), call(AMD, suite="x")]},
            [(CUDA, "x", "", ""), (AMD, "x", "", "")],
        ),
        ({"a.py": []}, []),
    ],
)
def test_each_suite_of_each_backend_once(
    calls: dict[str, list[Registration]], names: list[tuple[Backend, str, str, str]]
) -> None:
    found = of_calls(calls, (), {})
    assert [(one.backend, one.name, one.stage, one.runner_config) for one in found] == names


@pytest.mark.parametrize(
    ("name", "nightly", "kind"),
    [
        ("x", [False, False], Kind.PER_COMMIT),
        ("x", [True, True], Kind.NIGHTLY),
        ("x", [True, False], Kind.PER_COMMIT),
        ("nightly-x", [False, False], Kind.PER_COMMIT),  # RT204 would say so of each
        ("weekly-x", [False, False], Kind.WEEKLY),
    ],
)
def test_when_a_suite_runs(name: str, nightly: list[bool], kind: Kind) -> None:
    calls = {f"{n}.py": [call(suite=name, nightly=one)] for n, one in enumerate(nightly)}
    (one,) = of_calls(calls, (), {})
    assert one.kind is kind


@pytest.mark.parametrize(
    ("scripts", "execution"),
    [(("a.py", "b.py"), Execution.SCRIPT), (("a.py",), Execution.PYTEST), ((), Execution.PYTEST)],
)
def test_how_most_of_its_files_run(scripts: tuple[str, ...], execution: Execution) -> None:
    (one,) = of_calls({"a.py": [call(suite="x")], "b.py": [call(suite="x")]}, scripts, {})
    assert one.execution is execution


def test_who_starts_it() -> None:
    ran = RanSuite("w.yml", ("h100",), "h100", 1)
    one, two = of_calls({"a.py": [call(suite="x"), call(suite="y")]}, (), {"y": ran})
    assert (one.ran, two.ran) == (None, ran)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
