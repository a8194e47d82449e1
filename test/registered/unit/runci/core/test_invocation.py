"""What a suite may add to its run: which variables, words and options."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.core.devices import EVERY
from runci.core.invocation import Invocation, env_problem, text_problem

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    "name",
    [
        *(*sorted(EVERY), "TMPDIR", "PYTEST_ADDOPTS", "RUNCI_LOCKS", "GITHUB_SHA", "RUNNER_OS"),
        *("ACTIONS_X", "HF_TOKEN", "TOKEN", "my_secret", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY"),
        "OPENAI_API_KEY",
    ],
)
def test_variables_that_a_suite_has_not(name: str) -> None:
    assert env_problem(name) is not None


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "KEY", "SORT_KEY", "NCCL_DEBUG", "PATH", "MY_RUNNER", "a"]
)
def test_variables_that_it_may_have(name: str) -> None:
    assert env_problem(name) is None


@pytest.mark.parametrize(
    ("text", "right"),
    [("a b $HOME", True), ("", True), ("${A}", True), ("${{ a }}", False), ("a\0b", False)],
)
def test_texts(text: str, right: bool) -> None:
    assert (text_problem(text) is None) is right


def test_what_a_person_is_told() -> None:
    told = Invocation({"B": "x y", "A": "1"}, ("-m", "a b"), ("sh", "-c", "true"))
    assert told.shown == ("environment: A=1 B='x y'", "pytest: -m 'a b'", "set-up: sh -c true")
    assert Invocation().shown == ()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
