"""Reads the JSON of these stages into their dataclasses, or says what is wrong and where."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from runci.errors import RunciError
from runci.perf.metric import SCHEMA

T = TypeVar("T")


def decode(data: bytes, kind: type[T], where: str) -> T:
    """One object of the dataclass `kind`; `where` (a file, or a file and its line) is for messages.

    JSON has no NaN and no infinity, so neither gets in. Raises RunciError for what is not JSON,
    for a missing or mistyped field (with its place), and for another schema version.
    """
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunciError(f"{where}: not JSON: {error}") from error
    return build(given, kind, where)


def build(given: Any, kind: type[T], where: str) -> T:
    """As `decode`, from what the JSON held."""
    schema = given.get("schema") if isinstance(given, dict) else None
    if schema != SCHEMA:
        raise RunciError(f"{where}: schema {schema!r}, but this runci reads {SCHEMA}")
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RunciError(f"{where}: {error}") from error


def encode(value: Any) -> bytes:
    """A dataclass as one line of JSON, keys sorted, without the newline.

    Raises RunciError where a text holds what no file can: half of a pair of surrogates.
    """
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError as error:
        raise RunciError(f"{error.object!r} is no text that a file can hold, in UTF-8") from error
