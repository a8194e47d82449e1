"""Checkers: whether an answer to a prompt is right; and prompts for one of them.

A checker is a function of the prompt's row (what its line of the JSONL file says) and the answer's
text that returns True or False. Own ones are named as MODULE:FUNCTION.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.models import named_function

HELP = (
    "math (the last number is `expected`), json (valid for `schema`), retrieval (`expected` is in "
    "it), or MODULE:FUNCTION(row, answer), which returns whether the answer is right"
)
Checker = Callable[[Mapping[str, Any], str], bool]

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\d.])\.\d+"
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}])(?P<sign>[-+]))?(?:"
    rf"\\d?frac\{{(?P<top>[-+]?\d+)\}}\{{(?P<bottom>\d+)\}}"
    rf"|(?P<number>{_UNSIGNED})(?P<exponent>[eE][-+]?\d{{1,3}}(?!\w))?(?:\s?/\s?(?P<under>\d+))?)"
)
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


def math_answer(row: Mapping[str, Any], answer: str) -> bool:
    """Whether the last number of the answer equals `expected` (a number or its text), exactly.

    Numbers are 12, -3, 0.5, .5, 1e3, 1,234.5 (commas before each three digits are thousands; in
    1,2 they part two numbers), 3/4 and \\frac{3}{4}. What follows, such as a unit, a percent sign
    or a full stop, is not part of one; 1 1/2 ends in 1/2. No number, or one over 0, is wrong.
    """
    expected = _last_number(str(_needed(row, "expected")))
    if expected is None:
        raise UsageError(f"expected is {row['expected']!r}, which has no number")
    return _last_number(answer) == expected


def structured(row: Mapping[str, Any], answer: str) -> bool:
    """Whether the whole answer is JSON that is valid for `schema` (JSON Schema).

    White space around it and one code fence are allowed, NaN and keys that stand twice are not.
    The schema may refer to nothing outside itself.
    """
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = _needed(row, "schema")
    if not isinstance(schema, (Mapping, bool)):
        raise UsageError(f"schema is {schema!r}; give a JSON Schema")
    kind: Any = validator_for(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise UsageError(f"schema is no JSON Schema: {error.message}") from None
    fenced = _FENCE.fullmatch(answer)
    try:
        value = json.loads(
            fenced.group(1) if fenced else answer,
            parse_constant=_refuse,
            object_pairs_hook=_unique,
        )
    except (ValueError, RecursionError):
        return False
    try:
        # A registry of its own: jsonschema would fetch what a schema refers to.
        return bool(kind(schema, registry=Registry()).is_valid(value))
    except Unresolvable as error:
        raise UsageError(f"schema refers to {error}, which is not in it") from None


def planted(row: Mapping[str, Any], answer: str) -> bool:
    """Whether `expected`, a text, stands in the answer as words of its own, in any capitals."""
    expected = _needed(row, "expected")
    if not isinstance(expected, str) or not expected.strip():
        raise UsageError(f"expected is {expected!r}; give text")
    return re.search(rf"(?<!\w){re.escape(expected)}(?!\w)", answer, re.IGNORECASE) is not None


def checker(name: str) -> Checker:
    """The checker of that name. Raises UsageError."""
    shipped = {"math": math_answer, "json": structured, "retrieval": planted}
    if name in shipped:
        return shipped[name]
    if ":" not in name:
        raise UsageError(f"--checker {name}: name {HELP}")
    return named_function(name)


def is_right(name: str, check: Checker, prompt: str, row: Mapping[str, Any], answer: str) -> bool:
    """What the checker says. Raises UsageError where it fails or returns something else."""
    try:
        found = check(row, answer)
    except UsageError as error:
        raise UsageError(f"prompt {prompt}: {error}") from None
    except Exception as error:  # it is not ours
        raise UsageError(f"prompt {prompt}: {name} raised {error!r}") from error
    if not isinstance(found, bool):
        raise UsageError(f"prompt {prompt}: {name} returned {found!r}, not True or False")
    return found


def try_on(name: str, check: Checker, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise UsageError where a row lacks what the checker needs, before anything is generated."""
    for prompt, row in rows.items():
        is_right(name, check, prompt, row, "")


def retrieval_rows(
    count: int, depths: Sequence[float], sentences: int, seed: int = 0
) -> list[dict[str, Any]]:
    """For each of `count` texts a row for each depth, from 0 (its beginning) to 1 (its end).

    A text has so many other sentences; the fact is the code of a thing, which the last one asks
    for. The rows of one text are equally long. The same seed gives the same rows anywhere.
    """
    if count < 1 or sentences < 1 or not depths or not all(0 <= d <= 1 for d in depths):
        raise UsageError(
            f"{count} texts of {sentences} sentences, depths {list(depths)}: give at least one "
            "text and one sentence, and depths from 0 to 1"
        )
    draw = random.Random(seed).random  # noqa: S311 (the one method that no version changes)
    rows = []
    for i in range(count):
        thing = f"{_pick(_ADJECTIVES, draw)} {_pick(_NOUNS, draw)}"
        code = str(1000 + int(draw() * 9000))
        others = [_sentence(draw) for _ in range(sentences)]
        for depth in depths:
            at = round(depth * sentences)
            told = [*others[:at], f"the code of the {thing} is {code}.", *others[at:]]
            asked = f"what is the code of the {thing}? the code of the {thing} is "
            rows.append(
                {
                    "id": f"text-{i}-depth-{depth:g}",
                    "text": " ".join([*told, asked]),
                    "expected": code,
                    "depth": depth,
                }
            )
    return rows


_ADJECTIVES = ("red", "old", "quiet", "wooden", "northern", "small", "bright", "hollow")
_NOUNS = ("harbor", "lamp", "bridge", "garden", "engine", "letter", "tower", "river")
_VERBS = ("passes", "follows", "hides", "carries", "faces", "outlasts", "joins", "mirrors")


def _pick(words: Sequence[str], draw: Callable[[], float]) -> str:
    return words[int(draw() * len(words))]


def _sentence(draw: Callable[[], float]) -> str:
    a, b, c, d, e = (
        _pick(words, draw) for words in (_ADJECTIVES, _NOUNS, _VERBS, _ADJECTIVES, _NOUNS)
    )
    return f"the {a} {b} {c} the {d} {e}."


def _last_number(text: str) -> Fraction | None:
    matches = [*_NUMBER.finditer(text.replace("\u2212", "-"))]
    try:
        return _value(matches[-1]) if matches else None
    except ValueError:  # more digits than Python reads
        return None


def _value(match: re.Match[str]) -> Fraction | None:
    if match["top"] is not None:
        top, bottom = Fraction(match["top"]), int(match["bottom"])
    else:
        top = Fraction(match["number"].replace(",", "") + (match["exponent"] or ""))
        bottom = int(match["under"] or 1)
    if bottom == 0:
        return None
    return top / bottom * (-1 if match["sign"] == "-" else 1)


def _needed(row: Mapping[str, Any], key: str) -> Any:
    if key not in row:
        raise UsageError(f"it has no {key!r}, which this checker needs")
    return row[key]


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
