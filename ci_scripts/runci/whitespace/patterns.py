"""What the checks look for, as the checks and the fix both see it. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from runci.whitespace.text import BLANKS

BOM = b"\xef\xbb\xbf"

# U+00A0, U+2007 and U+202F.
NON_BREAKING = re.compile(rb"\xc2\xa0|\xe2\x80[\x87\xaf]")
# U+200B, U+2060 and U+FEFF; the joiners U+200C and U+200D only where no script or emoji uses them.
ZERO_WIDTH = re.compile(
    rb"\xe2\x80\x8b|\xe2\x81\xa0|\xef\xbb\xbf"
    rb"|(?<![\x80-\xff])(?:\xe2\x80[\x8c\x8d])+(?![\x80-\xff])"
)
# U+202A to U+202E and U+2066 to U+2069.
BIDIRECTIONAL = re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")

# One of these is in every text that matches: a search for bytes is ten times as fast.
NON_BREAKING_BYTES = tuple(text.encode() for text in "\u00a0\u2007\u202f")
ZERO_WIDTH_BYTES = tuple(text.encode() for text in "\u200b\u200c\u200d\u2060\ufeff")

CRLF = re.compile(rb"\r\n")
BARE_LF = re.compile(rb"(?<!\r)\n")
LONE_RETURN = re.compile(rb"\r(?![\r\n])")

# A newline that follows blanks, with or without a CR between. It begins with the newline, which
# the search finds at the speed of memory; a long run of blanks within a line costs nothing.
_AFTER_BLANK = re.compile(rb"\n(?:(?<=[ \t]\n)|(?<=[ \t\r]\r\n))")
_CR_ENDS = (b" \r", b"\t\r", b"\r\r")


def has_trailing(data: bytes) -> bool:
    """Whether `trailing_ends` may find some, by searches that run at the speed of memory."""
    if b" \n" in data or data.endswith((b" ", b"\t")):
        return True
    # One byte is found much faster than two.
    return (b"\t" in data and b"\t\n" in data) or (
        b"\r" in data and any(end in data for end in _CR_ENDS)
    )


def trailing_ends(data: bytes) -> Iterator[int]:
    """Where blanks at the end of a line end: before its newline, and its own CR if it has one."""
    for match in _AFTER_BLANK.finditer(data):
        newline = match.start()
        yield newline - data.endswith(b"\r", 0, newline)
    begin = data.rfind(b"\n") + 1
    last = data[begin:].removesuffix(b"\r")
    if last.endswith((b" ", b"\t", b"\r")):
        yield begin + len(last)


def is_break(text: bytes, blanks: bytes) -> bool:
    """Whether the blanks after `text` are a line break of Markdown: exactly two spaces."""
    return bool(text) and blanks == b"  "


@functools.cache
def indentation(core: bytes, blank_lines: bool) -> re.Pattern[bytes]:
    """Indentations that contain `core`, each after its newline; of blank lines only if asked.

    Search in a newline and the text: each match begins at the newline before its line.
    """
    ahead = b"" if blank_lines else b"(?=[ \\t\\r]*[^ \\t\\r\\n])"
    return re.compile(b"\\n(" + core + b")" + ahead)


@functools.cache
def conflict_markers(size: int, middle: bool) -> re.Pattern[bytes]:
    """Marker lines as git knows them; `=======` only if `middle`. Search as in `indentation`."""
    kinds = b"<>|=" if middle else b"<>|"
    repeated = b"|".join(re.escape(kinds[i : i + 1]) + b"{%d}" % size for i in range(len(kinds)))
    return re.compile(b"\\n(" + repeated + b")(?=[ \\t\\r\\n]|\\Z)")


def strip_blanks(line: bytes, breaks: bool) -> bytes:
    """A line, without its newline, without the blanks at its end; its own CR stays."""
    end = b"\r" if line.endswith(b"\r") else b""
    body = line[: len(line) - len(end)]
    text = body.rstrip(BLANKS)
    if breaks and text and body.endswith(b"  "):
        text += b"  "
    return text + end
