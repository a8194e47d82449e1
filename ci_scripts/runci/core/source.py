"""Positions in source text, and edits of it."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """A range of source text: lines and columns from 1, columns in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` by `text`; an empty span inserts."""

    span: Span
    text: str


def at(line: int, column: int = 1) -> Span:
    """The empty span at one place."""
    return Span(line, column, line, column)


def comments_in(text: str, span: Span) -> list[str]:
    """The comments of Python source that stand within a span."""
    lines = iter(lines_of_python(text))
    return [
        token.string
        for token in tokenize.generate_tokens(lines.__next__)
        if token.type == tokenize.COMMENT
        and span[:2] <= (token.start[0], token.start[1] + 1) < span[2:]
    ]


def split_lines(text: str) -> list[str]:
    """Lines with their ends, as Python's tokenizer counts them (\\n, \\r\\n, \\r), and a last "".

    `str.splitlines` would also split at form feeds and Unicode separators.
    """
    if "\r" not in text:  # nearly always
        *lines, last = text.split("\n")
        return [*(f"{line}\n" for line in lines), *([last] if last else ()), ""]
    return [*re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text), ""]


def lines_with(text: str, word: str) -> list[int]:
    """The numbers of the lines that hold a word, as Python's tokenizer counts them."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    found: list[int] = []
    line, start, at = 1, 0, text.find(word)
    while at >= 0:
        line += text.count("\n", start, at)
        found.append(line)
        start, at = at, text.find(word, at + 1)
    return found


def lines_of_python(text: str) -> list[str]:
    """Lines for `tokenize`, counted as the syntax tree does: a lone CR ends one, too."""
    return [line.rstrip("\r\n") + "\n" for line in split_lines(text)[:-1]]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made; inserted lines end as the text's own lines do.

    Edits of one fix do not overlap; of equal places the first edit comes first.
    """
    lines = split_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    newline = _newline(lines)
    placed = sorted(
        enumerate(edits), key=lambda item: (item[1].span.line, item[1].span.column, item[0])
    )
    out: list[str] = []
    done = 0
    for _, edit in placed:
        start = min(starts[min(edit.span.line, len(lines)) - 1] + edit.span.column - 1, len(text))
        end = starts[min(edit.span.end_line, len(lines)) - 1] + edit.span.end_column - 1
        out += [text[done:start], edit.text.replace("\r\n", "\n").replace("\n", newline)]
        done = max(start, min(end, len(text)))
    return "".join([*out, text[done:]])


def _newline(lines: Sequence[str]) -> str:
    ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
    return max(("\n", "\r\n", "\r"), key=ends.count)
