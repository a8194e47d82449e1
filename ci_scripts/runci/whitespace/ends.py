"""Checks of the ends: of lines, and of the file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.whitespace.patterns import (
    BARE_LF,
    CRLF,
    LONE_RETURN,
    has_trailing,
    is_break,
    trailing_ends,
)
from runci.whitespace.policy import Conversion
from runci.whitespace.text import BLANKS, Hit, Lines, Text, blank_end


def trailing(text: Text) -> Iterator[Hit]:
    """Blanks at the end of a line."""
    data = text.data
    if not text.policy.blank_at_eol or not has_trailing(data):
        return
    lines = Lines(data)
    for end in trailing_ends(data):
        begin = data.rfind(b"\n", 0, end) + 1
        start = begin + len(data[begin:end].rstrip(BLANKS))
        if text.policy.breaks and is_break(data[begin:start], data[start:end]):
            continue
        what = "trailing whitespace" if start > begin else "whitespace on a blank line"
        line = lines.number(start)
        yield Hit(line, start, end, what, fixable=not in_string(text, line))


def in_string(text: Text, line: int) -> bool:
    """Whether the end of a line is part of a Python string."""
    return text.code is not None and line in text.code.open


def no_final_newline(text: Text) -> Iterator[Hit]:
    """A last line without a newline."""
    data = text.data
    if not text.policy.incomplete_line or not data or data.endswith((b"\n", b"\r")):
        return
    if blank_end(data)[1] == 0:
        end = len(data)
        yield Hit(data.count(b"\n") + 1, end, end, "no newline at the end of the file")


def blank_lines_at_end(text: Text) -> Iterator[Hit]:
    """Blank lines at the end of the file."""
    if not text.policy.blank_at_eof:
        return
    start, count = blank_end(text.data)
    if count > text.scope.old_blank_end:
        line = text.data.count(b"\n", 0, start) + 1
        lines = "1 blank line" if count == 1 else f"{count:,} blank lines"
        # Deleting the last text brings older blank lines to the end: no added line shows it.
        yield Hit(line, start, start, f"{lines} at the end of the file", whole_file=True)


def _lone_returns(text: Text) -> Iterator[Hit]:
    data = text.data
    lines = Lines(data)
    offsets = [
        m.start() for m in LONE_RETURN.finditer(data) if text.scope.has(lines.number(m.start()))
    ]
    if offsets:
        line = Lines(data).number(offsets[0])
        what = "1 lone CR" if len(offsets) == 1 else f"{len(offsets):,} lone CRs, the first here"
        yield Hit(line, offsets[0], offsets[0] + 1, what, fixable=False)


def carriage_returns(text: Text) -> Iterator[Hit]:
    """CRLF in every line, or a CR that ends none."""
    data = text.data
    if b"\r" not in data or text.policy.conversion is Conversion.FORBIDDEN:
        return
    crlf, every = data.count(b"\r\n"), data.count(b"\n")
    if crlf != data.count(b"\r"):
        yield from _lone_returns(text)
    if crlf and crlf == every and text.policy.line_ends and not text.policy.cr_at_eol:
        yield from _first_end(text, CRLF, "{} with CRLF")


def mixed(text: Text) -> Iterator[Hit]:
    """Both CRLF and LF."""
    data = text.data
    if b"\r" not in data or not text.policy.line_ends:
        return
    crlf, every = data.count(b"\r\n"), data.count(b"\n")
    if crlf in (0, every):
        return
    other = every - crlf
    faulty = BARE_LF if text.policy.cr_at_eol and crlf > other else CRLF
    counts = f"{crlf:,} with CRLF, {other:,} with LF"
    if crlf > other and faulty is CRLF:
        # The odd one out is what a reader looks for.
        counts += f", the first LF in line {Lines(data).number(_first(BARE_LF, data))}"
    yield from _first_end(text, faulty, f"mixed line ends: {counts}")


def _first(pattern: re.Pattern[bytes], data: bytes) -> int:
    match = pattern.search(data)
    return match.start() if match else 0


def _first_end(text: Text, pattern: re.Pattern[bytes], message: str) -> Iterator[Hit]:
    """One hit at the first line of these line ends that counts."""
    lines = Lines(text.data)
    starts = (match.start() for match in pattern.finditer(text.data))
    ends = [(lines.number(start), start) for start in starts]
    ends = [end for end in ends if text.scope.has(end[0])]
    if ends:
        line, start = ends[0]
        number = "1 line ends" if len(ends) == 1 else f"{len(ends):,} lines end"
        fixable = not all(in_string(text, other) for other, _ in ends)
        yield Hit(line, start, start, message.format(number), fixable)
