"""What `tests` of the suites say of a file: which suites have it, and which of its tests."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import from_json, to_json

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SUITES = """\
version: 1
roots: [tests]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
  gpu: {label: gpu, gpus: 1, execution: pytest}
suites:
  cpu:
    - stage: unit
      runner_configs: [cpu]
      kind: per-commit
      tests:
        - tests/**
        - "!tests/gpu/**"
        - "!test_slow.py"
        - tests/slow/test_slow.py
        - {files: tests/mixed/**, marked: not gpu}
        - tests/gpu/test_one.py::TestA::test_b[cpu]
  cuda:
    - name: gpu
      runner: gpu
      kind: nightly
      tests:
        - tests/gpu/**
        - {files: [tests/mixed/**, tests/more/**], marked: gpu}
        - {files: tests/mixed/**, marked: gpus(2)}
"""
UNMARKED, ON_GPU = ((),), (("gpu",),)


@pytest.mark.parametrize(
    ("path", "marks", "found"),
    [
        ("tests/test_a.py", UNMARKED, {"unit-test-cpu": ()}),
        ("tests/gpu/test_a.py", UNMARKED, {"gpu": ()}),
        (
            "tests/gpu/test_one.py",
            UNMARKED,
            {"unit-test-cpu": ("TestA::test_b[cpu]",), "gpu": ()},
        ),
        ("tests/test_slow.py", UNMARKED, {}),
        ("tests/slow/test_slow.py", UNMARKED, {"unit-test-cpu": ()}),
        # A whole file is all of it, whatever else takes a part.
        ("tests/mixed/test_a.py", ON_GPU, {"unit-test-cpu": (), "gpu": ("@gpu",)}),
        (
            "tests/mixed/test_a.py",
            (("gpu", "gpus(2)"), ()),
            {"unit-test-cpu": (), "gpu": ("@gpu", "@gpus(2)")},
        ),
        ("tests/mixed/test_a.py", (("gpus(...)",),), {"unit-test-cpu": (), "gpu": ("@gpus(2)",)}),
        ("tests/more/test_a.py", UNMARKED, {"unit-test-cpu": ()}),
        ("elsewhere/test_a.py", ON_GPU, {}),
    ],
)
def test_who_has_a_file(
    path: str, marks: tuple[tuple[str, ...], ...], found: dict[str, tuple[str, ...]]
) -> None:
    read = load_taxonomy(SUITES.encode(), "runci.yml")
    for known in (read, from_json(to_json(read))):
        said = known.declared(path, marks)
        assert {one.effective_suite: one.only for one in said} == found
        assert all(one.declared for one in said)
        assert {one.nightly for one in said if one.effective_suite == "gpu"} <= {True}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
