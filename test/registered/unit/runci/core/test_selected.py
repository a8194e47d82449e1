"""What a run was given for pytest: how it is shown, repeated and handed on."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from runci import register_cpu_ci
from runci.cli import parser
from runci.core.selected import EVERYTHING, Selected

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    "selected",
    [
        EVERYTHING,
        Selected(keyword="add or 'mul'"),
        Selected(keyword="-add", marks="gpu and not slow"),
        Selected(marks='dtype(name="fp8")', first=True),
        Selected(arguments=("--tb=short", "-W", "error::Warning")),
    ],
)
def test_what_is_shown_is_read_as_the_same(selected: Selected) -> None:
    words = shlex.split(selected.shown)
    at = words.index("--") if "--" in words else len(words)
    options = parser("run").parse_args(["run", *words[:at], "FILE"])
    read = Selected(options.k, options.m, options.x, tuple(words[at + 1 :]))
    assert (read, options.paths) == (selected, ["FILE"])
    assert Selected.of(json.loads(json.dumps(selected.as_dict))) == selected
    assert bool(selected) == (selected != EVERYTHING) == bool(selected.shown)


@pytest.mark.parametrize(
    ("selected", "chooses", "widened"),
    [
        (EVERYTHING, False, EVERYTHING),
        (Selected(keyword="a"), True, EVERYTHING),
        (Selected(marks="a", first=True), True, EVERYTHING),
        (Selected(first=True), False, EVERYTHING),
        (Selected("a", "b", True, ("--x",)), True, Selected(arguments=("--x",))),
    ],
)
def test_what_leaves_tests_out(selected: Selected, chooses: bool, widened: Selected) -> None:
    assert (selected.chooses, selected.widened) == (chooses, widened)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
