"""Values of conditions on a machine of which some things are known."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.read.condition import UNKNOWN, condition_problem, evaluate

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

# By name, and whether it is called.
KNOWN: dict[tuple[str, bool], Any] = {
    ("yes", False): True,
    ("no", False): False,
    ("hip", False): None,
    ("cuda", False): "12.8",
    ("capability", True): (9, 0),
    ("count", True): 2,
    ("properties().major", False): 9,
    ("platform", False): "Linux",
    ("half", False): (9, UNKNOWN),
}
VALUES: list[tuple[str, Any]] = [
    # What decides stands, whatever is unknown beside it.
    *((text, False) for text in ("no and u", "u and no", "not (u or yes)", "u and u and no")),
    *((text, True) for text in ("yes or u", "u or yes", "not (no and u)", "u or no or yes")),
    *((text, UNKNOWN) for text in ("u and yes", "yes and u", "u or no", "no or u", "not u")),
    ("0 or count()", 2),
    ("count() and cuda", "12.8"),
    ("u and 0", UNKNOWN),  # either is false, but which of them is unknown
    ("yes if u else yes", True),
    ("yes if u else no", UNKNOWN),
    ("1 if yes else u", 1),
    ("u if yes else 1", UNKNOWN),
    # Capabilities.
    ("capability() == (9, 0)", True),
    ("capability() != (12, 0)", True),
    ("capability() < (10, 0)", True),
    ("capability() >= (9, 1)", False),
    ("capability()[0] in (9, 10)", True),
    ("capability()[0] * 10 + capability()[1] >= 90", True),
    ("capability()[:1] == (9,)", True),
    ("capability()[2] == 0", UNKNOWN),  # it would raise
    ("capability() < 10", UNKNOWN),
    ("properties(0).major == 9", True),
    ("properties(0).minor == 0", UNKNOWN),
    ("half[0] == 9", True),
    ("half == (9, 0)", UNKNOWN),
    ("half in [(9, 0)]", UNKNOWN),
    ("any((u, yes))", UNKNOWN),
    # Versions, counts, texts.
    ("hip is None", True),
    ("hip is not None", False),
    ("cuda is None", False),
    ("u is None", UNKNOWN),
    ("count() < 4", True),
    ("1 < count() <= 2", True),
    ("3 < count() < u", False),
    ("1 < count() < u", UNKNOWN),
    ("-count() == -2", True),
    ("count() ** 9", UNKNOWN),
    ("count() * 10000000000", UNKNOWN),
    ("count() % 0", UNKNOWN),
    ("'inu' in platform", True),
    ("'a'.upper()", "A"),
    ("capability().lower()", UNKNOWN),
    ("max(count(), 3)", 3),
    ("len(capability())", 2),
    # What is called is not what is not; of what is not evaluated nothing is known.
    ("count == 2", UNKNOWN),
    ("cuda()", UNKNOWN),
    ("f'{cuda}'", UNKNOWN),
    ("[yes for _ in (1,)]", UNKNOWN),
]


def look_up(name: str, arguments: list[Any] | None) -> Any:
    return KNOWN.get((name, arguments is not None), UNKNOWN)


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text: str, value: Any) -> None:
    found = evaluate(ast.parse(text, mode="eval").body, look_up)
    assert (type(found), found) == (type(value), value)


def test_arguments_reach_the_lookup() -> None:
    asked: list[tuple[str, list[Any] | None]] = []

    def note(name: str, arguments: list[Any] | None) -> None:
        asked.append((name, arguments))

    assert evaluate(ast.parse("find_spec('x.y') is None", mode="eval").body, note) is True
    assert asked == [("find_spec", ["x.y"])]


def test_nested_too_deeply_is_unknown() -> None:
    node: ast.expr = ast.Constant(True)
    for _ in range(5_000):
        node = ast.UnaryOp(ast.Not(), node)
    assert evaluate(node, look_up) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("backend == 'cuda' and compute_capability[0] >= 9", True),
        ("max(gpus, 1) * memory_gb > 80 if gpu else False", True),
        ("capability == (9, 0)", False),
        ("gpus >", False),
        ("gpu.lower()", False),
        ("[g for g in gpus]", False),
        ("(lambda: gpus)()", False),
    ],
)
def test_what_suites_may_ask(text: str, good: bool) -> None:
    assert (condition_problem(text) is None) is good


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
