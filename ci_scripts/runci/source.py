"""Positions in source text, and edits of it."""

from __future__ import annotations

import re
import tokenize
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
    lines = [line.rstrip("\r\n") + "\n" for line in split_lines(text)[:-1]]
    return [
        token.string
        for token in tokenize.generate_tokens(iter(lines).__next__)
        if token.type == tokenize.COMMENT
        and span[:2] <= (token.start[0], token.start[1] + 1) < span[2:]
    ]


def split_lines(text: str) -> list[str]:
    """Lines with their ends, as Python's tokenizer counts them (\\n, \\r\\n, \\r), and a last "".

    `str.splitlines` would also split at form feeds and Unicode separators.
    """
    return [*re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text), ""]
