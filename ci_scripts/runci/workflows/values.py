"""Values of GitHub's expressions, known or not, and how GitHub reads them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|Infinity)", re.ASCII)
_BASED = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+", re.ASCII)
MAX_CHOICES = 256  # more possible values than this are simply unknown


def number(text: str) -> float:
    """A number as GitHub reads it: '' is 0, what is none is NaN. Also 0xff, 0o17 and 1e3."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _BASED.fullmatch(text):
        return float(min(int(text, 0), 2**1023))
    return float("nan") if text else 0.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which at most some text is known: a glob. `typed`: somebody types it by hand.

    `of` says whose name it is: the names of two are never equal.
    """

    glob: str = "*"
    typed: bool = False
    of: str = ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Several possible values, in a context. Reading it gives each of them."""

    values: tuple[Value, ...]


class Partial(dict[str, "Value"]):
    """An object of which some values are known: any other key is unknown, not missing."""

    __slots__ = ()


Value: TypeAlias = Union[
    None, bool, float, str, "tuple[Value, ...]", "dict[str, Value]", Unknown, OneOf
]
Choices: TypeAlias = tuple[Value, ...]
Contexts: TypeAlias = Mapping[str, Value]

UNKNOWN: Choices = (Unknown(),)
EITHER: Choices = (True, False)


def truth(value: Value) -> bool | None:
    """Whether GitHub takes the value for true; None where that is unknown."""
    if isinstance(value, Unknown):
        return True if value.glob.strip("*") else None
    if isinstance(value, OneOf):
        return None
    if isinstance(value, (tuple, dict)):
        return True
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def text_of(value: Value) -> str:
    """The value as text; an unknown one as its glob."""
    if isinstance(value, Unknown):
        return value.glob
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:.15g}".replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, dict)):
        return "Array" if isinstance(value, tuple) else "Object"
    return "*" if isinstance(value, OneOf) else ""


def number_of(value: Value) -> float:
    """The value as a number; NaN where it is none."""
    if value is None:
        return 0.0
    if isinstance(value, str):
        return number(value)
    return float(value) if isinstance(value, (bool, int, float)) else float("nan")


def equal(left: Value, right: Value) -> bool:
    """GitHub's loose equality: text ignores case, values of different types meet as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return folded(left) == folded(right)
    if isinstance(left, (tuple, dict)) or isinstance(right, (tuple, dict)):
        return left is right
    return (left is None and right is None) or number_of(left) == number_of(right)


def folded(text: str) -> str:
    """Text to compare without case, letter by letter («ß» is not «SS»); capitals decide order."""
    if text.isascii():
        return text.upper()
    return "".join(up if len(up := letter.upper()) == 1 else letter for letter in text)


def may_equal(left: Value, right: Value) -> bool:
    """Whether values, one or both unknown, can be equal: «refs/pull/*» is no branch."""
    if isinstance(left, str):
        left, right = right, left
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        return left.of == right.of or "" in (left.of, right.of)
    if not (isinstance(left, Unknown) and isinstance(right, str)):
        return True
    pattern = ".*".join(map(re.escape, left.glob.split("*")))
    return re.fullmatch(pattern, right, re.IGNORECASE | re.DOTALL) is not None


def is_known(value: Value) -> bool:
    """Whether nothing in the value is unknown."""
    if isinstance(value, Partial):
        return False
    if isinstance(value, (tuple, dict)):
        return all(map(is_known, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, (Unknown, OneOf))


def spread(value: Value) -> Choices:
    """The possible values that a context holds as one."""
    return value.values if isinstance(value, OneOf) else (value,)


def one(choices: Choices) -> Value:
    """The possible values as one, for a context."""
    return choices[0] if len(choices) == 1 else OneOf(choices)


def bounded(values: Iterable[Value]) -> Choices:
    """Each value once (True is not 1); unknown where they are too many."""
    values = tuple(values)
    if len(values) == 1:
        return values
    found = {(type(v), repr(v)): v for v in values}
    return tuple(found.values()) if len(found) <= MAX_CHOICES else UNKNOWN


def flat(many: Iterable[Choices]) -> Choices:
    """The values of all, each once."""
    many = tuple(many)
    return many[0] if len(many) == 1 else bounded(itertools.chain.from_iterable(many))


def product(parts: Iterable[Choices]) -> Iterable[tuple[Value, ...]]:
    """Every combination; where they are too many, what varies becomes unknown."""
    parts = tuple(parts)
    if math.prod(map(len, parts)) > MAX_CHOICES:
        parts = tuple(part if len(part) == 1 else UNKNOWN for part in parts)
    return itertools.product(*parts)


def joined(parts: Iterable[Choices]) -> Choices:
    """Every text that the parts can make together."""
    return bounded(concatenated(combination) for combination in product(parts))


def concatenated(values: Iterable[Value]) -> Value:
    """One text; unknown, with its literal parts, where a part is unknown."""
    values = tuple(values)
    text = "".join(map(text_of, values))
    holes = [v for v in values if isinstance(v, (Unknown, OneOf))]
    if not holes:
        return text
    while "**" in text:
        text = text.replace("**", "*")
    return Unknown(text, any(isinstance(hole, Unknown) and hole.typed for hole in holes))
