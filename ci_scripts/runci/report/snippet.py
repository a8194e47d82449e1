"""The source line that a finding points at, with its span underlined."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from runci.report.terminal import char_width, display_width, escape_char
from runci.source import Span

TAB = 4
MARK = "..."


@dataclass(frozen=True, slots=True)
class Snippet:
    """Printable `text` of the first line of a span, and the columns to underline below it.

    `start` counts from 0; `length` is at least 1 and may reach one column past the text.
    """

    text: str
    start: int
    length: int


def snippet(lines: Sequence[str] | None, span: Span, width: int) -> Snippet | None:
    """Return what to show of the line where `span` begins, in at most `width` columns.

    None where there is nothing to see: no source, no such line, or one place on a blank line.
    """
    if lines is None or not 1 <= span.line <= len(lines):
        return None
    line = lines[span.line - 1].rstrip("\r\n")
    empty = (span.end_line, span.end_column) <= (span.line, span.column)
    if empty and not line.strip():
        return None
    start = min(max(span.column - 1, 0), len(line))
    end = len(line) if span.end_line > span.line else min(span.end_column - 1, len(line))
    return _window(line, start, max(end, start), width)


def _window(line: str, start: int, end: int, width: int) -> Snippet:
    # Only what can be shown is rendered: a line may have millions of characters.
    low = max(0, start - 2 * width)
    high = min(len(line), start + 2 * width)
    cells = _cells(line[low:high])
    offsets = _offsets(cells)
    first, last = start - low, min(end, high) - low
    left, right = 0, len(cells)
    if low or high < len(line) or offsets[-1] > width:
        room = width - 2 * len(MARK)
        if low or offsets[last] > room:
            left = bisect_left(offsets, offsets[first] - room // 3)
        right = bisect_right(offsets, offsets[left] + room) - 1
    before = MARK if low or left else ""
    after = MARK if high < len(line) or right < len(cells) else ""
    return Snippet(
        text=before + "".join(cells[left:right]) + after,
        start=len(before) + offsets[first] - offsets[left],
        length=max(1, offsets[min(last, right)] - offsets[first]),
    )


def _cells(text: str) -> list[str]:
    """Render each character by itself: tabs to the next stop, unprintable ones escaped."""
    if text.isascii() and text.isprintable():
        return list(text)
    cells: list[str] = []
    column = 0
    for char in text:
        if char == "\t":
            cell = " " * (TAB - column % TAB)
        else:
            cell = char if char.isprintable() else escape_char(char)
        cells.append(cell)
        column += char_width(char) if cell is char else display_width(cell)
    return cells


def _offsets(cells: Sequence[str]) -> list[int]:
    """Return the column of each cell, and that of the end."""
    offsets = [0]
    for cell in cells:
        offsets.append(offsets[-1] + display_width(cell))
    return offsets
