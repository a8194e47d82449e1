"""Globs that take some files and no others, and the folders that hold tests."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.adopt.cover import cover, roots_of, taker, whole

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

ABC = ("t/a.py", "t/b.py", "t/c.py")


@pytest.mark.parametrize(
    ("wanted", "others", "globs"),
    [
        ((), ABC, ()),
        (ABC, (), ("t/**",)),
        ((*ABC, "u/x.py", "u/y.py", "v.py"), (), ("**",)),
        (ABC, ("u/x.py", "u/y.py"), ("t/**",)),
        (ABC[:1], ABC[1:], ("t/a.py",)),
        ((*ABC, "t/g/x.py"), ("u/x.py", "t/d.py"), ("t/**", "!t/d.py")),
        (ABC, ("t/g/x.py", "t/g/h/y.py", "u/v.py"), ("t/*.py",)),
        (("a/b/c/x.py", "a/b/d/x.py", "a/b/e/x.py"), ("a/o.py", "a/p.py", "z.py"), ("a/b/**",)),
        (("t/g/x.py", "t/g/y.py"), (*ABC, "u/z.py"), ("t/g/**",)),
    ],
)
def test_as_few_globs_as_there_can_be(
    wanted: tuple[str, ...], others: tuple[str, ...], globs: tuple[str, ...]
) -> None:
    assert cover(wanted, others) == globs


NAMES = st.sampled_from(["a.py", "b.py", "[x].py", "s*r.py", "q?.py", "é ü.py", "!n.py", "c:d.py"])
PATHS = st.lists(
    st.tuples(st.lists(st.sampled_from(["t", "u", "[g]", "!h"]), max_size=3), NAMES).map(
        lambda parts: "/".join([*parts[0], parts[1]])
    ),
    unique=True,
    max_size=14,
)


@given(PATHS, st.integers(0, 2**14 - 1))
def test_exactly_the_wanted_files_are_taken(paths: list[str], chosen: int) -> None:
    nested = [path for path in paths if "/" in path]  # a name alone is one of every folder
    wanted = {path for at, path in enumerate(nested) if chosen >> at & 1}
    globs = cover(wanted, set(nested) - wanted)
    assert set(filter(taker(globs), nested)) == wanted
    none_out = whole(wanted, set(nested) - wanted)
    assert not any(glob.startswith("!") for glob in none_out)
    assert set(filter(taker(none_out), nested)) == wanted


TREE = ("a/x.py", "a/y.py", "a/b/x.py", "a/b/y.py", "c/z.py")
ENTRIES = ("**", "a/**", "a/b/**", "a/*.py", "a/b/*.py", "c/**", "c/*.py", *TREE)


@pytest.mark.parametrize("chosen", range(2 ** len(TREE)))
def test_no_shorter_list_takes_the_same(chosen: int) -> None:
    wanted = {path for at, path in enumerate(TREE) if chosen >> at & 1}
    found = cover(wanted, set(TREE) - wanted)
    signed = [sign + entry for entry in ENTRIES for sign in ("", "!")]
    for length in range(min(len(found), 3)):
        for shorter in itertools.permutations(signed, length):
            assert set(filter(taker(shorter), TREE)) != wanted, shorter


@pytest.mark.parametrize(
    ("tests", "roots"),
    [
        (["tests/test_a.py", "tests/b/test_b.py"], ("tests",)),
        (["p/a/tests/x/test_a.py", "p/b/test/test_b.py"], ("p/a/tests", "p/b/test")),
        (["src/op/test_a.py", "src/op/deep/test_b.py"], ("src/op",)),
        (["test_a.py", "tests/test_b.py"], (".",)),
        ([f"p/{name}/tests/test_a.py" for name in "abcdefghij"], ("p",)),
        ([f"{name}/test_a.py" for name in "abcdefghij"], (".",)),
        (["odd:name/test_a.py"], (".",)),
    ],
)
def test_roots(tests: list[str], roots: tuple[str, ...]) -> None:
    assert roots_of(tests) == roots


def test_thousands_of_files_take_seconds_and_no_minutes() -> None:
    """Every third wanted, so that no folder is the shorter way."""
    paths = [f"t/d{folder}/test_{number}.py" for folder in range(30) for number in range(200)]
    wanted = paths[::3]
    before = time.process_time()
    globs = cover(wanted, set(paths) - set(wanted))
    takes = taker(globs)
    assert [path for path in paths if takes(path)] == wanted
    assert time.process_time() - before < 3
