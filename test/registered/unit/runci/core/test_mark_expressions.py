"""Expressions of marks: what they mean of tests with these marks, and what is refused."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.core.marks import compiled, mark_text

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("expression", "marks", "meant"),
    [
        ("gpu", ["gpu"], True),
        ("gpu", ["gpus"], False),
        ("gpu", ["gpu(2)"], True),
        ("gpu", [], False),
        ("gpus(2)", ["gpus(2)"], True),
        ("gpus(2)", ["gpus(4)"], False),
        ("gpus(2)", ["gpus"], False),
        ("gpus( n = 2 )", ["gpus(n=2)"], True),
        ("gpus(b=1, a='x')", ["gpus(a='x', b=1)"], True),
        ("gpus(2)", ["gpus(...)"], None),
        ("not gpus(2)", ["gpus(...)"], None),
        ("gpu and gpus(2)", ["gpus(...)"], False),
        ("gpu or gpus(2)", ["gpu", "gpus(...)"], True),
        ("gpus", ["gpus(...)"], True),
        ("gpus(2)", ["gpus(2)", "gpus(...)"], True),
        ("not gpu", [], True),
        ("gpu and not (slow or gpus(2))", ["gpu"], True),
        ("gpu and not (slow or gpus(2))", ["gpu", "gpus(2)"], False),
        (" gpu ", ["gpu"], True),
    ],
)
def test_what_is_meant(expression: str, marks: list[str], meant: bool | None) -> None:
    assert compiled(expression)(marks) is meant


@pytest.mark.parametrize(
    "expression",
    [
        *("", "gpu ==", "gpu == 2", "a.b", "2", "'gpu'", "a if b else c"),
        *("gpus(n)", "gpus(*x)", "gpus(**x)", "(" * 300 + "a" + ")" * 300),
    ],
)
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="mark"):
        compiled(expression)


def test_a_mark_at_run_time_reads_as_it_is_written() -> None:
    assert mark_text("gpus", (), {}) == "gpus"
    assert mark_text("gpus", (2, "a"), {"z": 1, "b": None}) == "gpus(2, 'a', b=None, z=1)"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
