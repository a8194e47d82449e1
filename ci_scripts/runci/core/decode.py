"""Reads the JSON that runci hands to itself: every key once, every field there and what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

# What is beyond these bounds is a fault of a clock or an edit, and sums of it mean nothing.
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]
UnixTime = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
Megabytes = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=10**9)]
Positive = Annotated[int, msgspec.Meta(ge=1, lt=10**9)]


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object that these bytes are.

    Raises ValueError for anything else, for a key that stands twice, and for NaN and infinity.
    """
    # Not msgspec: of a key that stands twice it takes the last, and half a surrogate pair, which a
    # file's name may hold, it does not read.
    try:
        given = json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(given, dict):
        raise ValueError(f"a JSON object was expected, not {type(given).__name__}")  # noqa: TRY004
    return given


def build(given: dict[str, Any], kind: type[T]) -> T:
    """The dataclass `kind` from an object that has exactly its fields.

    Raises ValueError with the place of what is missing, mistyped, out of bounds or not known.
    """
    try:
        built = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    for difference in _differences(given, built, "$"):
        raise ValueError(difference)
    return built


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` stands twice in an object")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _differences(given: Any, built: object, place: str) -> Iterator[str]:
    """Where a document has other fields than the dataclasses that it became."""
    if isinstance(built, tuple):
        for number, (one, other) in enumerate(zip(given, built, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif is_dataclass(built):
        names = {field.name for field in fields(built)}
        for name in sorted(given.keys() ^ names):
            yield f"{'missing' if name in names else 'unknown'} field `{place}.{name}`"
        for name in sorted(given.keys() & names):
            yield from _differences(given[name], getattr(built, name), f"{place}.{name}")
