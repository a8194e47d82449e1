"""Patterns of tests: what they match, as tables, and that an escaped id matches itself alone."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.core.globs import escaped
from runci.core.patterns import check_pattern, escaped_parameters, pattern_matcher

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("pattern", "test", "does"),
    [
        # Without parameters: any; a path alone: all of the file.
        ("t/**::*may*", "t/test_x.py::Class::test_may", True),
        ("t/test_x.py", "t/test_x.py::test_any[a]", True),
        ("t/test_x.py", "t/test_x.py", True),
        ("t/test_x.py::test_a", "t/test_x.py::test_a[x/y]", True),
        ("t/test_x.py::test_a", "t/test_x.py::test_ab", False),
        ("t/test_x.py::test_a", "t/test_x.py", False),
        ("t/test_x.py::*", "t/test_x.py", False),
        ("test_x.py::test_a", "t/u/test_x.py::test_a", True),
        ("t/test_[xy].py::test_a", "t/test_y.py::test_a", True),
        # What is said of files is said of no test of another one, nor the reverse.
        ("t/*_gpu*", "t/test_x_gpu.py::test_a", True),
        ("t/*_gpu*", "t/test_x.py::test_on_gpu", False),
        ("*_gpu*", "t/test_x.py::test_on_gpu[1]", False),
        ("t/*_gpu*::*", "t/test_x.py::test_on_gpu::test_a", False),
        ("t/*::test_a", "t/test_x.py::A::test_a", False),
        ("t/*[x]::test_a", "t/test_y.py::x::test_a", False),
        ("t/*A::test_a[1]", "t/test_x.py::A::test_a[1]", False),
        # With parameters: of a function and of a class.
        ("t/test_x.py::test_a[1]", "t/test_x.py::test_a[1]", True),
        ("t/test_x.py::A::test_a[1]", "t/test_x.py::A::test_a[1]", True),
        ("t/**::test_*[1]", "t/u/test_x.py::A::test_a[1]", True),
        ("t/test_x.py::test_a[1]", "t/test_x.py::test_a[11]", False),
        ("t/test_x.py::test_a[1]", "t/test_x.py::test_a", False),
        ("t/test_x.py::test_a[1]", "t/test_x.py::test_a1", False),  # no class of characters
        ("t/test_x.py::test_a[1]", "t/test_x.py", False),
        ("t/test_x.py::test_a[]", "t/test_x.py::test_a[]", True),
        ("t/test_x.py::test_a[]", "t/test_x.py::test_a[x]", False),
        ("t/test_x.py::test_a[a-z]", "t/test_x.py::test_a[a-z]", True),
        ("t/test_x.py::test_a[a-z]", "t/test_x.py::test_a[b]", False),
        ("t/test_x.py::test_a[!b]", "t/test_x.py::test_a[c]", False),
        # Globs in them reach over all.
        ("t/test_x.py::test_a[fp8-*]", "t/test_x.py::test_a[fp8-a/b::c d]", True),
        ("t/test_x.py::test_a[fp8-*]", "t/test_x.py::test_a[bf16-fp8-1]", False),
        ("t/test_x.py::test_a[?-1]", "t/test_x.py::test_a[/-1]", True),
        ("t/test_x.py::test_a[*]", "t/test_x.py::test_a", False),
        ("t/test_x.py::test_*[*[[]*]", "t/test_x.py::test_a[x[[]y]", True),
        # What ids hold is plain: brackets, ::, spaces, unicode and what pytest writes for it.
        ("t/test_x.py::test_a[x[0]]", "t/test_x.py::test_a[x[0]]", True),
        ("t/test_x.py::test_a[x[0]]", "t/test_x.py::test_a[x0]", False),
        ("t/test_x.py::test_a[a::b]", "t/test_x.py::test_a[a::b]", True),
        ("t/test_x.py::test_a[a b-(1, 2)]", "t/test_x.py::test_a[a b-(1, 2)]", True),
        ("t/test_x.py::test_a[é😀]", "t/test_x.py::test_a[é😀]", True),
        (r"t/test_x.py::test_a[\xe9]", r"t/test_x.py::test_a[\xe9]", True),
        (r"t/test_x.py::test_a[a\*b]", "t/test_x.py::test_a[a*b]", True),
        (r"t/test_x.py::test_a[a\*b]", "t/test_x.py::test_a[axb]", False),
        (r"t/test_x.py::test_a[\?\\]", "t/test_x.py::test_a[?\\]", True),
        (r"t/test_x.py::test_a[\\*]", r"t/test_x.py::test_a[\any]", True),
        # A subtest counts as its test; a parameter may look like one.
        ("t/test_x.py::test_a", "t/test_x.py::test_a (i=1)", True),
        ("t/test_x.py::setUpClass", "t/test_x.py::setUpClass (m.C)", True),
        ("t/test_x.py::setUpClass (m.C)", "t/test_x.py::setUpClass (m.C)", True),
        ("t/test_x.py::setUpClass (m.C)", "t/test_x.py::setUpClass (m.D)", False),
        ("t (old)/test_x.py::test_a", "t (old)/test_x.py::test_a (i=1)", True),
        ("t/test_x.py::test_a[x]", "t/test_x.py::test_a (i=[x])", False),
        ("t/test_x.py::test_a[x (i=1)]", "t/test_x.py::test_a[x (i=1)]", True),
    ],
)
def test_what_a_pattern_matches(pattern: str, test: str, does: bool) -> None:
    check_pattern(pattern)
    assert pattern_matcher([pattern])(test) is does
    assert pattern_matcher(["other/**", "t/test_x.py::test_z[1]", pattern])(test) is does


@pytest.mark.parametrize(
    "pattern",
    ["t/[z-a].py", "t/test_x.py::test_[ab]c", "t/test_x.py::test_a[1", "t/test_x.py::[1]"],
)
def test_patterns_that_cannot_match(pattern: str) -> None:
    with pytest.raises(re.error):
        check_pattern(pattern)


IDS = st.text(st.one_of(st.sampled_from("*?[]\\!:-/ ()ab"), st.characters()), max_size=12)


@given(one=IDS, other=IDS)
def test_an_escaped_id_matches_itself_alone(one: str, other: str) -> None:
    pattern = f"t/test_x.py::test_a[{escaped_parameters(one)}]"
    check_pattern(pattern)
    matches = pattern_matcher([pattern])
    assert matches(f"t/test_x.py::test_a[{one}]")
    if one.isprintable() and other != one:
        assert not matches(f"t/test_x.py::test_a[{other}]")


@given(st.text(st.characters(exclude_characters="/\\:\0"), min_size=1, max_size=9))
def test_an_escaped_path_matches_itself(name: str) -> None:
    if name not in (".", ".."):
        assert pattern_matcher([f"t/{escaped(name)}::test_a"])(f"t/{name}::test_a")


def test_many_patterns_cost_little() -> None:
    patterns = [f"t/test_x.py::test_a[{number}]" for number in range(5_000)]
    matches = pattern_matcher(patterns)
    began = time.process_time()
    assert sum(matches(f"t/test_x.py::test_a[{number}]") for number in range(20_000)) == 5_000
    assert time.process_time() - began < 2  # a tenth of it; where each is tried, minutes
