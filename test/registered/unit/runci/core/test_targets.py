"""PATH::TEST on a command line: what it may be, and which tests it means."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.targets import (
    Target,
    beyond,
    read_target,
    selects,
    targets,
    title,
    unmatched,
    wanted,
)

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("t/test_a.py", Target("t/test_a.py")),
        ("t", Target("t")),
        ("t/test_a.py::test_x", Target("t/test_a.py", "test_x")),
        ("t/test_a.py::T::U::test_x", Target("t/test_a.py", "T::U::test_x")),
        ("t/test_a.py::test_x[a b::c]", Target("t/test_a.py", "test_x[a b::c]")),
        ("t/test_a.py::test_x[]", Target("t/test_a.py", "test_x[]")),
        ("t/test_a.py::test_x[a[0]]", Target("t/test_a.py", "test_x[a[0]]")),
        ("t/test_a.py::test_größe['']", Target("t/test_a.py", "test_größe['']")),
    ],
)
def test_a_target(text: str, target: Target) -> None:
    assert read_target(text) == target
    assert title(target.path, [target.test] if target.test else []) == text


@pytest.mark.parametrize(
    "test",
    [
        "",
        "::",
        "a::",
        "::a",
        "a b",
        "1a",
        "-k",
        "a[1",
        "a]",
        "[1]",
        "a[1]::b",
        "a.b",
        "a[\n]",
        "a[\x1b]",
    ],
)
def test_what_is_none(test: str) -> None:
    with pytest.raises(RunciError, match="PATH::test or PATH::Class::test") as caught:
        read_target(f"t/test_a.py::{test}")
    assert "\n" not in str(caught.value)
    with pytest.raises(RunciError):
        read_target("::test_a")


@pytest.mark.parametrize(
    ("one", "test", "hit"),
    [
        ("test_x", "test_x", True),
        ("test_x", "test_x[1]", True),
        ("test_x", "test_xy", False),
        ("test_x", "T::test_x", False),
        ("test_x[1]", "test_x[1]", True),
        ("test_x[1]", "test_x", False),
        ("test_x[1]", "test_x[1][2]", False),
        ("test_x[1]", "test_x[11]", False),
        ("T", "T::test_x[1]", True),
        ("T::test_x", "T::test_x[1]", True),
        ("T", "TT::test_x", False),
        ("T::test_x", "T", False),
    ],
)
def test_what_a_selection_means(one: str, test: str, hit: bool) -> None:
    assert selects(one, test) is hit
    assert unmatched([one], {"other": (), test: ()}) == ([] if hit else [one])


@pytest.mark.parametrize(
    ("test", "other"),
    [
        ("T::test_x", False),
        ("T::test_x[1]", False),
        ("T::test_x (i=1)", False),  # a subtest
        ("T::test_x[1] (i=1)", False),
        ("T", False),  # skipped whole
        ("", False),  # the file, too
        ("test_y[a (b)]", False),
        ("test_y[a (b)] (i=1)", False),
        ("test_y[a]", True),
        ("test_y", False),
        ("T::test_xy", True),
        ("U::test_x", True),
        ("test_x", True),
    ],
)
def test_what_nobody_asked_for(test: str, other: bool) -> None:
    assert beyond(["T::test_x", "test_y[a (b)]"], [test]) == ([test] if other else [])


def test_who_names_a_file_too_wants_all_of_it(tmp_path: Path) -> None:
    for name in ("t/test_a.py", "t/u/test_b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def only(*given: str) -> dict[str, tuple[str, ...]]:
        return dict(wanted(tmp_path, given, tmp_path).only)

    assert only("t/test_a.py::y", "t/test_a.py::x", "./t/test_a.py::y") == {
        "t/test_a.py": ("x", "y")
    }
    assert only("t/test_a.py::x", "t/test_a.py", "t/u/test_b.py::z") == {"t/u/test_b.py": ("z",)}
    assert only("t/u", "t/u/test_b.py::z", "t/test_a.py::x") == {"t/test_a.py": ("x",)}
    assert only(".", "t/u/test_b.py::z") == {}
    assert wanted(tmp_path, ["t/test_a.py::x"], tmp_path / "t" / "..").paths == ("t/test_a.py",)
    assert targets("a.py", ("x", "y")) == ["a.py::x", "a.py::y"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
