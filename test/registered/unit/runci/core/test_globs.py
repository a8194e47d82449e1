"""Path patterns: what matches, what does not, and agreement with pathlib."""

from __future__ import annotations

import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.core.globs import compile_glob, matcher, matches

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a/**", "a/b"),
        ("a/**", "a/b/c.py"),
        ("a/**/c.py", "a/c.py"),
        ("a/**/c.py", "a/b/b/c.py"),
        ("**/c.py", "c.py"),
        ("**/c.py", "a/b/c.py"),
        ("a/*.py", "a/b.py"),
        ("a/?.py", "a/b.py"),
        ("conftest.py", "conftest.py"),
        ("conftest.py", "a/b/conftest.py"),
        ("test_*.py", "a/test_x.py"),
        ("a/[bc].py", "a/b.py"),
        ("a/[!b].py", "a/c.py"),
        ("a/[]].py", "a/].py"),
        ("a/[!]].py", "a/b.py"),
        ("a/[.py", "a/[.py"),
        ("a/[^b].py", "a/^.py"),
        ("a/x[[]1].py", "a/x[1].py"),
        ("a+b(c)/$^.|{1}.py", "a+b(c)/$^.|{1}.py"),
        ("a/**", "a/with space/ünïcode.py"),
        ("a/*", "a/line\nend"),
        ("a/**", "a/b\n"),
        ("**", "a/b/c"),
        ("*", "a/b/c"),
        ("a/**b", "a/x/yb"),
    ],
)
def test_matches(pattern: str, path: str) -> None:
    assert matches(path, (pattern,))
    assert matches(path, ("other", pattern))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a/**", "a"),
        ("a/**", "ab/c"),
        ("a/**", "b/a/c"),
        ("a/*.py", "a/b/c.py"),
        ("a/?.py", "a//.py"),
        ("a/*", "a/b/"),
        ("conftest.py", "conftest.pyc"),
        ("conftest.py", "my_conftest.py"),
        ("conftest.py", "conftest.py/x"),
        ("conftest.py", "conftest.py\n"),
        ("test_*.py", "test_a/b.py"),
        ("a/[bc].py", "a/d.py"),
        ("a/[!b].py", "a/b.py"),
        ("a/[!b].py", "a//.py"),
        ("a/[^b].py", "a/c.py"),
        ("a/b", "a/B"),
        ("a.py", "axpy"),
        ("a/**/c.py", "a/bc.py"),
        ("", "a"),
    ],
)
def test_does_not_match(pattern: str, path: str) -> None:
    assert not matches(path, (pattern,))


def test_no_pattern_matches_nothing() -> None:
    assert not matches("a", ())


def test_a_range_that_goes_backwards_is_an_error() -> None:
    with pytest.raises(re.error, match="bad character range z-a"):
        compile_glob("a/[z-a].py")


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(NAMES, min_size=1).map("/".join))
def test_a_path_without_special_characters_matches_itself(path: str) -> None:
    literal = re.sub(r"([*?[])", r"[\1]", path)
    assert matches(path, (literal,))
    assert matches(f"x/{path}", (f"x/{literal}", ""))
    assert matches(f"x/y/{path}", ("x/**",))


@given(st.text("ab/*?[]!-^\\.", max_size=12))
def test_every_pattern_compiles_or_has_a_bad_range(pattern: str) -> None:
    try:
        compile_glob(pattern)
    except re.error as error:
        assert "bad character range" in str(error)


PARTS = st.text("ab*?[]!", max_size=4)
FOLDERS = st.lists(st.one_of(PARTS, st.sampled_from(["**", "a", "b"])), min_size=1, max_size=4)


@given(
    st.lists(FOLDERS.map("/".join), max_size=5),
    st.lists(st.text("ab]", max_size=3), max_size=4).map("/".join),
)
def test_many_patterns_match_as_each_of_them(patterns: list[str], path: str) -> None:
    many = (*patterns, *(f"other/{number}/*y" for number in range(60)))
    one_by_one = any(compile_glob(pattern).fullmatch(path) for pattern in patterns)
    assert matches(path, many) == one_by_one


@pytest.mark.parametrize(
    "pattern",
    [
        "vendor/{}/x.py",
        "gen_{}.py",
        "gen_{}_*.py",
        "*_gen{}.py",
        "vendor/pkg{}/**",
        "test/**/pkg{}/*.py",
        "test/**/pkg{}_*/**",
        "test/registered/test_?{}.py",
    ],
)
def test_twenty_thousand_patterns_take_no_time(pattern: str) -> None:
    """Time of this process alone, in seconds."""
    patterns = tuple(pattern.format(number) for number in range(20_000))
    paths = [f"test/registered/pkg/test_{number}.py" for number in range(1_500)]
    start = time.process_time()
    is_excluded = matcher(patterns)
    assert not any(map(is_excluded, paths))
    assert time.process_time() - start < 2  # a tenth of that alone; 60 as one expression
    path = re.sub(r"\*+|\?", "y", pattern.format(19_999))
    assert is_excluded(path)


def test_many_stars_take_no_time() -> None:
    start = time.perf_counter()
    for pattern in ("a/" + "*" * 40 + "b", "**/" * 40 + "b", "a/*a*a*a*b", "a/**/a/**/a/**/b"):
        assert not matches("a/" + "a" * 60, (pattern,))
        assert not matches("a/" * 60, (pattern,))
    assert time.perf_counter() - start < 5


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
