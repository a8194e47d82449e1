"""What a check is given and gives, and what the checks and the fix both look for. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from runci.checks.ws.policy import Policy
from runci.core.source import Span

BLANKS = b" \t\r"
"""What git calls a space within a line; a form feed is none."""
BOM = b"\xef\xbb\xbf"

# U+00A0, U+2007 and U+202F.
NON_BREAKING = re.compile(rb"\xc2\xa0|\xe2\x80[\x87\xaf]")


def _any_of(*ranges: tuple[int, int]) -> bytes:
    """A pattern of one character of these code points, first to last, in UTF-8."""
    last: dict[bytes, bytes] = {}
    for code in (code for first, end in ranges for code in range(first, end + 1)):
        char = chr(code).encode()
        last[char[:-1]] = last.get(char[:-1], b"") + re.escape(char[-1:])
    return b"(?:" + b"|".join(re.escape(head) + b"[%b]" % end for head, end in last.items()) + b")"


# Unicode's Default_Ignorable_Code_Point, in which all that follows is: what no font shows.
# A joiner, or what belongs to a script, is a fault only beside nothing but ASCII.
_OF_SCRIPTS = _any_of(
    *((0x34F, 0x34F), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200C, 0x200D)),
    *((0xFE00, 0xFE0E), (0xE0100, 0xE01EF)),
)
_ALWAYS = _any_of(
    *((0xAD, 0xAD), (0x115F, 0x1160), (0x200B, 0x200B), (0x2060, 0x2065), (0x206A, 0x206F)),
    *((0x3164, 0x3164), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0080, 0xE00FF)),
)
_SELECTOR = _any_of((0xFE00, 0xFE0E), (0xE0100, 0xE01EF))
_TAG = _any_of((0xE0000, 0xE007F))
# The flag of a region: a black flag, the region in tags, their end.
_FLAG, _REGION = "\U0001f3f4".encode(), _any_of((0xE0030, 0xE0039), (0xE0061, 0xE007A))
_IN_FLAG = _REGION + b"{3,6}" + "\U000e007f".encode() + b"(?!" + _TAG + b")"
# What carries a text that nobody sees, and has no other use: it is a fault in prose, too.
_CARRIES = (
    rb"(?:(?<!%b)|(?!%b))(?<!\xf3\xa0[\x80\x81][\x80-\xbf])%b+" % (_FLAG, _IN_FLAG, _TAG)
    + b"|%b{2,}" % _SELECTOR
)
CARRIER = re.compile(_CARRIES)
ZERO_WIDTH = re.compile(
    rb"%b|%b|(?<![\x80-\xff])%b+(?![\x80-\xff])" % (_ALWAYS, _CARRIES, _OF_SCRIPTS)
)
# U+202A to U+202E and U+2066 to U+2069.
BIDIRECTIONAL = re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")
# With the marks U+061C, U+200E and U+200F, which text that runs from right to left needs.
BIDIRECTIONAL_OR_MARK = re.compile(BIDIRECTIONAL.pattern + rb"|\xd8\x9c|\xe2\x80[\x8e\x8f]")
RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff"
    "\U0001e800-\U0001efff]"
)

# One of these is in every text that matches: a search for bytes is ten times as fast.
NON_BREAKING_BYTES = tuple(text.encode() for text in "\u00a0\u2007\u202f")
ZERO_WIDTH_BYTES = (
    *(b"\xc2\xad", b"\xcd\x8f", b"\xe1\x85", b"\xe1\x9e", b"\xe1\xa0", b"\xe2\x80", b"\xe2\x81"),
    *(b"\xe3\x85", b"\xef\xb8", b"\xef\xbb", b"\xef\xbe", b"\xef\xbf", b"\xf0\x9b", b"\xf0\x9d"),
    b"\xf3\xa0",
)

CRLF = re.compile(rb"\r\n")
BARE_LF = re.compile(rb"(?<!\r)\n")
LONE_RETURN = re.compile(rb"\r(?![\r\n])")

# A newline that follows blanks, with or without a CR between. It begins with the newline, which
# the search finds at the speed of memory; a long run of blanks within a line costs nothing.
_AFTER_BLANK = re.compile(rb"\n(?:(?<=[ \t]\n)|(?<=[ \t\r]\r\n))")
_CR_ENDS = (b" \r", b"\t\r", b"\r\r")


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
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    @functools.cached_property
    def code(self) -> Code | None:
        """The values in a Python or YAML file; None for others, and where nothing can be mended."""
        return read_code(self.data, self.policy)


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


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of a file, from 1, with what belongs to a value: a string, or a scalar of YAML.

    `open` end inside a value, `ends` so that their CRLF may be part of it. `kept` have part of a
    value of several lines, or a value or name with more than ASCII. `closed` is whether the last
    value ends before the file does, whatever newlines follow.
    """

    open: frozenset[int]
    ends: frozenset[int]
    kept: frozenset[int]
    closed: bool = True


def read_code(data: bytes, policy: Policy) -> Code | None:
    """Where the values of a Python or YAML file stand; None where that cannot be told."""
    if data.count(b"\r") != data.count(b"\r\n"):  # both end a line at a lone CR, we do not
        return None
    if policy.python:
        return _read_python(data)
    return _read_yaml(data) if policy.yaml else None


def _read_yaml(data: bytes) -> Code | None:
    """The scalars of a YAML file; None where it is none, or has line ends that are ours alone."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    opened: set[int] = set()
    kept: set[int] = set()
    last: Any = None
    try:
        text = data.decode("utf-8-sig")
        if any(end in text for end in "\x85\u2028\u2029"):
            return None
        events: Iterator[Any] = yaml.parse(text, loader)
        for event in events:
            start, end = event.start_mark, event.end_mark
            if end.line > start.line:
                opened.update(range(start.line + 1, end.line + 1))
            if end.line > start.line or not text[start.index : end.index].isascii():
                kept.update(range(start.line + 1, end.line + 2))
            if isinstance(event, yaml.ScalarEvent):
                last = event
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    closed = last is None or last.style not in ("|", ">")
    if last is not None and not closed:  # blank lines after it may be its own
        opened.update(range(last.start_mark.line + 1, data.count(b"\n") + 2))
    return Code(frozenset(opened), frozenset(), frozenset(kept), closed)


def _read_python(data: bytes) -> Code | None:
    """The strings of a Python file; None where its tokens cannot be told for certain.

    It is UTF-8, has no token that is an error, and no backslash at the end, which needs the blank
    lines after it.
    """
    import io
    import tokenize

    text = data.rstrip(b" \t\r\n")
    last_line, continued = text.count(b"\n") + 1, text.endswith(b"\\")
    opened: set[int] = set()
    kept: set[int] = set()
    begun: list[int] = []  # the f-strings around: from Python 3.12 they have tokens inside
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            kind, first, last = tokenize.tok_name[token.type], token.start[0], token.end[0]
            if _is_refused(kind, token.string):
                return None
            if kind == "COMMENT" and last == last_line:
                continued = False
            if "STRING" not in kind and kind != "NAME":
                continue
            if kind.endswith("_START"):
                begun.append(first)
            elif kind.endswith("_END"):
                first = begun.pop()
            opened.update(range(first, last))
            if last > first or not token.string.isascii():
                kept.update(range(first, last + 1))
    except (tokenize.TokenError, SyntaxError, ValueError, SystemError):  # the last of 3.13.0
        return None
    inside = frozenset(opened)
    return None if continued else Code(inside, inside, frozenset(kept))


def _is_refused(kind: str, text: str) -> bool:
    """Whether a token is no Python, or a declaration of another encoding."""
    if kind == "NAME":
        return not text.isidentifier()  # `tokenize` of Python 3.12 gives any character as a name
    return kind == "ERRORTOKEN" or (kind == "ENCODING" and text != "utf-8")


def blank_end(data: bytes) -> tuple[int, int]:
    """The offset at which blank lines at the end begin, and how many there are."""
    content = len(data.rstrip(b" \t\r\n"))
    if content:
        newline = data.find(b"\n", content)
        content = newline + 1 if newline >= 0 else len(data)
    count = data.count(b"\n", content)
    return content, count + (content < len(data) and not data.endswith(b"\n"))


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


_FENCE = re.compile(rb"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)


def fenced(data: bytes) -> list[tuple[int, int]]:
    """What stands between two fences of Markdown, each as the offsets of the fences."""
    found: list[tuple[int, int]] = []
    begun: re.Match[bytes] | None = None
    for match in _FENCE.finditer(data):
        if begun is None:
            begun = match
        elif match[1].startswith(begun[1]) and not match[2].strip(BLANKS):
            found.append((begun.start(), match.start()))
            begun = None
    return found


def strip_blanks(line: bytes, breaks: bool) -> bytes:
    """A line, without its newline, without the blanks at its end; its own CR stays."""
    end = b"\r" if line.endswith(b"\r") else b""
    body = line[: len(line) - len(end)]
    text = body.rstrip(BLANKS)
    if breaks and text and body.endswith(b"  "):
        text += b"  "
    return text + end
