"""Prompts as token ids: read from a file, or seeded; and the hash that identifies a set of them.

A file of prompts is JSONL. Each line is a list of token ids, or an object that has `input_ids`
(token ids) or `text` (for the tokenizer of the checkpoint), maybe `id` (a name of its own; else the
prompt's number), and whatever else a checker wants to know, such as `expected`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sm120_ba.validate.commands import UsageError

HELP = "seeded (--count prompts of --length ids), or a JSONL file with input_ids or text a line"
LARGEST = 2**32 - 1  # an unsigned 32-bit token id
# One character for each id of the small models, which have no tokenizer of their own.
_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,:;?!'\"()[]{}+-*/=<>_%#&\n$"


class Tokenizer(Protocol):
    """What makes ids of a text, and a text of ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of the text. Raises UsageError."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""


@dataclass(frozen=True)
class Prompt:
    """A request: its name, its token ids, and all that its line says (empty where it is seeded)."""

    name: str
    ids: tuple[int, ...]
    row: Mapping[str, Any] = field(default_factory=dict)


def prompt_hash(prompts: Sequence[Sequence[int]]) -> str:
    """SHA-256 (hex) over all ids one after the other, each as unsigned 32-bit little-endian.

    Nothing else is in it, no lengths either: [[1], [2]] and [[1, 2]] have the same hash.
    Raises UsageError where an id does not fit.
    """
    digest = hashlib.sha256()
    for ids in prompts:
        wrong = [one for one in ids if not is_id(one)]
        if wrong:
            raise UsageError(f"{wrong[0]!r} is no token id: ids are 0 to {LARGEST}")
        digest.update(struct.pack(f"<{len(ids)}I", *ids))
    return digest.hexdigest()


def seeded(vocabulary: int, count: int, length: int, seed: int = 0) -> list[Prompt]:
    """`count` prompts of `length` random ids below `vocabulary`; a seed gives the same anywhere."""
    if min(vocabulary, count, length) < 1:
        raise UsageError(f"{count} prompts of {length} ids below {vocabulary}: each is at least 1")
    draw = random.Random(seed).random  # noqa: S311 (the one method that no version changes)
    return [
        Prompt(f"seeded-{i}", tuple(int(draw() * vocabulary) for _ in range(length)))
        for i in range(count)
    ]


def read(path: Path, tokenizer: Tokenizer | None = None) -> list[Prompt]:
    """The prompts of a JSONL file. Raises UsageError with the file and the line."""
    return from_rows(read_rows(path, "prompt"), tokenizer)


def load_prompts(path: Path) -> list[list[int]]:
    """The ids alone, of a file that has no texts. Raises UsageError with the file and the line."""
    return [list(prompt.ids) for prompt in read(path)]


def read_rows(path: Path, what: str = "line") -> list[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with its place (`FILE:LINE`); a list is one of token ids.

    Raises UsageError, also where there is no `what` in it.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; name a JSONL file in UTF-8") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{place}: {_short(line)} is no JSON: {error}") from None
        if isinstance(row, list):
            row = {"input_ids": row}
        if not isinstance(row, dict):
            raise UsageError(f"{place}: {_short(line)} is no JSON object")
        rows.append((place, row))
    if not rows:
        raise UsageError(f"{path}: there is no {what} in it; write a JSON object a line")
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which prompts are used."""
    parser.add_argument("--prompts", default="seeded", help=f"{HELP} (default: seeded)")
    parser.add_argument("--count", type=int, default=8, help="seeded prompts (default: 8)")
    parser.add_argument("--length", type=int, default=16, help="ids of each (default: 16)")
    parser.add_argument("--seed", type=int, default=0, help="of seeded prompts (default: 0)")
    parser.add_argument(
        "--batch", type=int, default=4, help="prompts of one length at once (default: 4)"
    )


def chosen(arguments: argparse.Namespace, tokenizer: Tokenizer | None) -> list[Prompt] | None:
    """What a file has, or None where the prompts are seeded, which needs the vocabulary."""
    if arguments.batch < 1:
        raise UsageError(f"--batch {arguments.batch}: give at least 1")
    return None if arguments.prompts == "seeded" else read(Path(arguments.prompts), tokenizer)


def from_rows(
    rows: Iterable[tuple[str, Mapping[str, Any]]], tokenizer: Tokenizer | None = None
) -> list[Prompt]:
    """The prompts of objects that were read, each with its place. Raises UsageError."""
    prompts: dict[str, Prompt] = {}
    for number, (place, row) in enumerate(rows, 1):
        name = name_of(place, row, str(number))
        if name in prompts:
            raise UsageError(f"{place}: a second prompt has the id {name!r}; ids are unique")
        prompts[name] = Prompt(name, _ids_of(place, row, tokenizer), row)
    return list(prompts.values())


def name_of(place: str, row: Mapping[str, Any], default: str | None = None) -> str:
    """The `id` of a line as text. Raises UsageError where it is neither text nor a number."""
    name = row.get("id", default)
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise UsageError(f"{place}: id is {name!r}; give text or a number")
    return str(name)


def check_vocabulary(prompts: Sequence[Prompt], vocabulary: int) -> None:
    """Raise UsageError for an id that the model does not have."""
    for prompt in prompts:
        for one in prompt.ids:
            if one >= vocabulary:
                raise UsageError(f"{prompt.name}: id {one}; the model has ids below {vocabulary}")


def batches(prompts: Sequence[Prompt], size: int) -> list[tuple[Prompt, ...]]:
    """At most `size` prompts of one length together, in the given order: nothing is padded."""
    by_length: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        by_length.setdefault(len(prompt.ids), []).append(prompt)
    return [
        tuple(same[start : start + size])
        for same in by_length.values()
        for start in range(0, len(same), size)
    ]


def tokenizer_of(model: str) -> Tokenizer | None:
    """The tokenizer of a model by its name; None where it has none."""
    if model in ("small", "small-2048"):
        return Characters()
    folder = Path(model)
    if any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        return Checkpoint(folder)
    return None


class Characters:
    """The tokenizer of the small models: one id a character, capitals as small letters."""

    def encode(self, text: str) -> list[int]:
        """The ids of the characters. Raises UsageError for one that has none."""
        for character in text.lower():
            if character not in _CHARACTERS:
                raise UsageError(
                    f"{character!r} is no character of the small models: {_CHARACTERS!r}"
                )
        return [_CHARACTERS.index(character) for character in text.lower()]

    def decode(self, ids: Sequence[int]) -> str:
        """The characters of the ids."""
        return "".join(_CHARACTERS[one] for one in ids)


class Checkpoint:
    """The tokenizer that lies in a checkpoint's folder; special tokens are not in its texts."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def encode(self, text: str) -> list[int]:
        """The ids, with the special tokens that the tokenizer adds."""
        return list(self._tokenizer.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


def _ids_of(place: str, row: Mapping[str, Any], tokenizer: Tokenizer | None) -> tuple[int, ...]:
    if ("input_ids" in row) == ("text" in row):
        raise UsageError(f"{place}: {_short(row)} needs input_ids or text, one of them")
    if "text" in row:
        if not isinstance(row["text"], str):
            raise UsageError(f"{place}: text is {_short(row['text'])}, which is no text")
        if tokenizer is None:
            raise UsageError(f"{place}: this model has no tokenizer; give input_ids")
        ids = tokenizer.encode(row["text"])
    else:
        ids = row["input_ids"]
    if not isinstance(ids, list) or not ids:
        raise UsageError(f"{place}: {_short(ids)} is no list of token ids, such as [1, 5]")
    for one in ids:
        if not is_id(one):
            raise UsageError(f"{place}: {one!r} is no token id: ids are 0 to {LARGEST}")
    return tuple(ids)


def is_id(value: Any) -> bool:
    """Whether it is a whole number from 0 to LARGEST."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text[:60])
