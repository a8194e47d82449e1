"""JSON that runci hands to itself: what is torn, edited or of another shape is refused by name."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import cpu_tests, plan_of

from runci import register_cpu_ci
from runci.core.decode import Count, Seconds, build, parse
from runci.core.errors import RunciError
from runci.plan.build import Settings
from runci.plan.model import VERSION, from_json

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@dataclass(frozen=True)
class Part:
    name: str
    seconds: Seconds = 0.0


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    count: Count = 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "."),
        (b"{", "."),
        (b"{} {}", "."),
        (b"\xff\xfe", "."),
        (b"[" * 100_000, "deep"),
        (b'{"a":' * 100_000, "deep"),
        (b"[]", "list"),
        (b"null", "NoneType"),
        (b'"a"', "str"),
        (b'{"a": 1, "b": 2, "a": 1}', "`a`"),
        (b'{"a": [{"b": {"c": 1, "c": 2}}]}', "`c`"),
        (b'{"a": 1, "\\u0061": 2}', "`a`"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [-Infinity]}', "-Infinity"),
    ],
)
def test_what_is_no_single_object_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(data)


def test_half_a_pair_of_surrogates_is_read_as_a_file_name_may_hold_it() -> None:
    assert parse(b'{"a": "\\udcff"}') == {"a": "\udcff"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`parts`"),
        ({"parts": None, "count": 0}, r"\$\.parts"),
        ({"parts": {}, "count": 0}, r"\$\.parts"),
        ({"parts": [{}], "count": 0}, "`name`"),
        ({"parts": [{"name": 1, "seconds": 0}], "count": 0}, r"\.name`"),
        ({"parts": [{"name": "a"}], "count": 0}, r"missing .*`\$\.parts\[0\]\.seconds`"),
        ({"parts": []}, r"missing .*`\$\.count`"),
        ({"parts": [], "count": 0, "more": 1}, r"unknown .*`\$\.more`"),
        ({"parts": [{"name": "a", "seconds": 1, "at": 1}], "count": 0}, r"unknown .*\[0\]\.at`"),
        ({"parts": [], "count": 1.0}, r"\$\.count"),
        ({"parts": [], "count": True}, r"\$\.count"),
        ({"parts": [], "count": -1}, r"\$\.count"),
        ({"parts": [], "count": 10**9}, r"\$\.count"),
        *(
            ({"parts": [{"name": "a", "seconds": value}], "count": 0}, r"\.seconds`")
            for value in (-1, -1e-9, 1e9, 1e308, float("nan"), float("inf"), 10**400, "1", True)
        ),
    ],
)
def test_an_object_of_another_shape_is_refused_with_the_place(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        build(given, Whole)


def test_an_object_of_the_right_shape_is_taken() -> None:
    given = {"parts": [{"name": "a", "seconds": 1}], "count": 2}
    assert build(given, Whole) == Whole((Part("a", 1.0),), 2)


PLAN = plan_of(cpu_tests(3), Settings(only={"test/registered/test_1.py": ("A::b",)}))


def signed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """plan.json changed by somebody who also made its digest right."""
    document = json.loads(PLAN.to_json())
    del document["digest"]
    change(document)
    plain = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**document, "digest": hashlib.sha256(plain).hexdigest()}).encode()


def suite(document: dict[str, Any]) -> Any:
    return document["suites"][0]


def shard(document: dict[str, Any]) -> Any:
    return suite(document)["shards"][0]


def file(document: dict[str, Any]) -> Any:
    return shard(document)["files"][0]


def top(document: dict[str, Any]) -> Any:
    return document


OBJECTS = (top, suite, shard, file)
WRONG: list[tuple[Callable[[dict[str, Any]], Any], str, object]] = [
    (top, "commit", None),
    (top, "suites", {}),
    (top, "suites", [1]),
    (top, "notes", "a"),
    (top, "everything", 1),
    (top, "version", float(VERSION)),
    (suite, "backend", "abacus"),
    (suite, "execution", None),
    (suite, "execution", "by hand"),
    (suite, "gpus", 1.5),
    (suite, "gpus", -1),
    (suite, "timeout_minutes", "15"),
    (suite, "timeout_minutes", -1),
    (suite, "timeout_minutes", True),
    (suite, "timeout_minutes", 1e308),
    (suite, "reasons", "abc"),
    (suite, "reasons", [None]),
    (suite, "label", []),
    (suite, "label", 1),
    (suite, "label", {"labels": ["a"]}),
    (suite, "shards", "s"),
    (shard, "index", 0.5),
    (shard, "index", -1),
    (shard, "count", 0),
    (shard, "seconds", -0.5),
    (shard, "seconds", 1e308),
    (shard, "id", 1),
    (file, "path", None),
    (file, "seconds", "1"),
    (file, "seconds", -1),
    (file, "source", 1),
    (file, "group", []),
    (file, "only", [[]]),
    (file, "only", {}),
]


@pytest.mark.parametrize(("place", "name", "value"), WRONG)
def test_a_wrong_value_of_a_plan_is_refused_by_name_whatever_its_digest(
    place: Callable[[dict[str, Any]], Any], name: str, value: object
) -> None:
    data = signed(lambda document: place(document).update({name: value}))
    # Of an enumeration its class is named, with a capital.
    with pytest.raises(RunciError, match=rf"(?i)^p: not a plan \(.*{name}"):
        from_json(data, "p")


@pytest.mark.parametrize("place", OBJECTS)
def test_a_plan_has_exactly_its_fields(place: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(RunciError, match=r"not a plan \(unknown field .*\.more`"):
        from_json(signed(lambda document: place(document).update(more=1)), "p")
    for name in place(json.loads(PLAN.to_json())):
        if name == "digest":
            continue
        with pytest.raises(RunciError, match=rf"not a plan \(.*{name}`"):
            from_json(signed(lambda document, name=name: place(document).pop(name)), "p")  # type: ignore[misc]


def test_a_plan_that_says_something_twice_is_refused() -> None:
    text = PLAN.to_json().replace('"commit": ', '"commit": "x", "commit": ')
    with pytest.raises(RunciError, match="`commit` stands twice"):
        from_json(text.encode(), "p")


@pytest.mark.parametrize("minutes", [30, 30.0, 0.5, None])
def test_a_plan_is_read_as_it_was_written(minutes: float | None) -> None:
    data = signed(lambda document: suite(document).update(timeout_minutes=minutes))
    plan = from_json(data, "p")
    assert json.loads(plan.to_json()) == json.loads(data)
    assert repr(plan.suites[0].timeout_minutes) == repr(minutes)
    assert from_json(PLAN.to_json().encode(), "p") == PLAN


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
