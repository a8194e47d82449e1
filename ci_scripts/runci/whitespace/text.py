"""What a check is given and gives, and where in a text an offset lies. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from runci.source import Span
from runci.whitespace.code import Code, read_code
from runci.whitespace.policy import Policy

BLANKS = b" \t\r"
"""What git calls a space within a line; a form feed is none."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a file that counts.

    `lines` are the added lines, from 1, or None for every line; `old_blank_end` is how many blank
    lines the file ended with before.
    """

    lines: frozenset[int] | None = None
    old_blank_end: int = 0

    def has(self, line: int) -> bool:
        """Whether this line counts."""
        return self.lines is None or line in self.lines


WHOLE = Scope()


@dataclass(frozen=True)
class Text:
    """One text file, what is wanted of it, and which part of it counts."""

    data: bytes
    policy: Policy
    scope: Scope = WHOLE

    @property
    def invisible(self) -> bool:
        """Whether characters that cannot be seen may be here, and are a fault."""
        return not self.data.isascii() and self.policy.invisible and not self.policy.prose

    @functools.cached_property
    def utf8(self) -> bool:
        """Whether the bytes are UTF-8."""
        return is_utf8(self.data)

    @functools.cached_property
    def code(self) -> Code | None:
        """The strings of a Python file; None for any other, and where nothing can be mended."""
        return read_code(self.data) if self.policy.python else None


class Hit(NamedTuple):
    """A fault, as offsets: `end` is exclusive, and in the same line as `start`."""

    line: int
    start: int
    end: int
    message: str
    fixable: bool = True
    whole_file: bool = False  # counts even if none of the added lines is at fault


class Lines:
    """Line numbers and spans of rising offsets, without splitting the text."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0
        self._line = 1

    def number(self, offset: int) -> int:
        """The line, from 1, of an offset that is not before the last one asked for."""
        self._line += self._data.count(b"\n", self._offset, offset)
        self._offset = offset
        return self._line

    def span(self, line: int, start: int, end: int) -> Span:
        """The span of a range within one line; columns in characters."""
        begin = self._data.rfind(b"\n", 0, start) + 1
        column = _characters(self._data[begin:start]) + 1
        return Span(line, column, line, column + _characters(self._data[start:end]))

    def text(self, offset: int) -> str:
        """The line around an offset, at most 80 characters, without the blanks around it."""
        begin = self._data.rfind(b"\n", 0, offset) + 1
        end = self._data.find(b"\n", offset)
        line = self._data[begin : min(end if end >= 0 else len(self._data), begin + 400)]
        return line.decode("utf-8", "backslashreplace").strip()[:80]


def _characters(data: bytes) -> int:
    return len(data) if data.isascii() else len(data.decode("utf-8", "replace"))


def blank_end(data: bytes) -> tuple[int, int]:
    """The offset at which blank lines at the end begin, and how many there are."""
    content = len(data.rstrip(b" \t\r\n"))
    if content:
        newline = data.find(b"\n", content)
        content = newline + 1 if newline >= 0 else len(data)
    count = data.count(b"\n", content)
    return content, count + (content < len(data) and not data.endswith(b"\n"))


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
