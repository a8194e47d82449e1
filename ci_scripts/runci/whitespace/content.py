"""Checks inside lines: indentation, characters that cannot be seen, conflict markers. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from runci.whitespace.mend import can_expand_tabs
from runci.whitespace.patterns import (
    BIDIRECTIONAL,
    BOM,
    NON_BREAKING,
    NON_BREAKING_BYTES,
    ZERO_WIDTH,
    ZERO_WIDTH_BYTES,
    conflict_markers,
    indentation,
)
from runci.whitespace.policy import Policy
from runci.whitespace.text import Hit, Lines, Text

_NAMES = {
    "\u00a0": "NO-BREAK SPACE",
    "\u2007": "FIGURE SPACE",
    "\u202f": "NARROW NO-BREAK SPACE",
    "\u200b": "ZERO WIDTH SPACE",
    "\u200c": "ZERO WIDTH NON-JOINER",
    "\u200d": "ZERO WIDTH JOINER",
    "\u2060": "WORD JOINER",
    "\ufeff": "ZERO WIDTH NO-BREAK SPACE",
    "\u202a": "LEFT-TO-RIGHT EMBEDDING",
    "\u202b": "RIGHT-TO-LEFT EMBEDDING",
    "\u202c": "POP DIRECTIONAL FORMATTING",
    "\u202d": "LEFT-TO-RIGHT OVERRIDE",
    "\u202e": "RIGHT-TO-LEFT OVERRIDE",
    "\u2066": "LEFT-TO-RIGHT ISOLATE",
    "\u2067": "RIGHT-TO-LEFT ISOLATE",
    "\u2068": "FIRST STRONG ISOLATE",
    "\u2069": "POP DIRECTIONAL ISOLATE",
}


def _indentation(data: bytes, core: bytes, policy: Policy) -> Iterator[tuple[int, int, bytes]]:
    """Line, offset and indentation of each line that begins with `core`."""
    text = b"\n" + data
    lines = Lines(text)
    for match in indentation(core, not policy.blank_at_eol).finditer(text):
        # The newline in front shifts everything by one: offsets are those of the line itself.
        yield lines.number(match.start()), match.start(), match[1]


def space_before_tab(text: Text) -> Iterator[Hit]:
    """A space before a tab in the indentation."""
    # One byte is found much faster than two.
    if not text.policy.space_before_tab or b"\t" not in text.data or b" \t" not in text.data:
        return
    for line, offset, indent in _indentation(text.data, rb"\t* +\t", text.policy):
        yield Hit(line, offset, offset + len(indent), "a space before a tab in the indentation")


def tab_in_indent(text: Text) -> Iterator[Hit]:
    """A tab in the indentation."""
    data = text.data
    if not text.policy.indent_tabs or b"\t" not in data:
        return
    fixable: bool | None = None
    for line, offset, indent in _indentation(data, rb"[ \t]*\t", text.policy):
        # As in git, a tab after a space is reported as that alone.
        if text.policy.space_before_tab and not re.search(rb"\A\t|\t\t", indent):
            continue
        if fixable is None:
            code = text.code if text.scope.lines is None else None
            fixable = code is not None and can_expand_tabs(data, code)
        start = offset + indent.index(b"\t")
        yield Hit(line, start, offset + len(indent), "a tab in the indentation", fixable)


def spaces_in_indent(text: Text) -> Iterator[Hit]:
    """Spaces where tabs are asked for."""
    if not text.policy.indent_with_non_tab:
        return
    core = rb"(?:[ \t]*\t)? {%d,}(?![ \t])" % text.policy.tab_width
    for line, offset, indent in _indentation(text.data, core, text.policy):
        message = f"{text.policy.tab_width} or more spaces in the indentation: tabs are asked for"
        yield Hit(line, offset, offset + len(indent), message)


def bom(text: Text) -> Iterator[Hit]:
    """A byte-order mark."""
    if text.policy.invisible and text.data.startswith(BOM):
        yield Hit(1, 0, 0, "the file starts with a byte-order mark (U+FEFF)")


def _characters(text: Text, pattern: re.Pattern[bytes], begin: int = 0) -> Iterator[Hit]:
    """One hit a line: the first such character, and how many there are."""
    lines = Lines(text.data)
    rising = pattern.finditer(text.data, begin)
    for line, group in itertools.groupby(rising, lambda match: lines.number(match.start())):
        first, *others = group
        character = first[0].decode()[0]
        name = f"U+{ord(character):04X} {_NAMES[character]}"
        more = f" and {len(others)} more in this line" if others else ""
        fixable = text.code is None or line not in text.code.kept
        yield Hit(line, first.start(), first.end(), name + more, fixable)


def not_utf8(text: Text) -> Iterator[Hit]:
    """Text that is not UTF-8."""
    data = text.data
    if not text.invisible or text.utf8:
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = error.start
        message = f"not UTF-8 (byte 0x{data[start]:02x}): invisible characters are not checked"
        yield Hit(data.count(b"\n", 0, start) + 1, start, start + 1, message, whole_file=True)


def non_breaking(text: Text) -> Iterator[Hit]:
    """A space that does not break the line."""
    if text.invisible and any(c in text.data for c in NON_BREAKING_BYTES) and text.utf8:
        yield from _characters(text, NON_BREAKING)


def zero_width(text: Text) -> Iterator[Hit]:
    """A character without width."""
    data = text.data
    if text.invisible and any(c in data for c in ZERO_WIDTH_BYTES) and text.utf8:
        begin = len(BOM) if data.startswith(BOM) else 0
        yield from _characters(text, ZERO_WIDTH, begin)


def bidirectional(text: Text) -> Iterator[Hit]:
    """A control that reorders text."""
    # In text of every encoding: one bad byte must not hide them.
    if not text.data.isascii():
        yield from _characters(text, BIDIRECTIONAL)


def conflict(text: Text) -> Iterator[Hit]:
    """A marker that a merge left."""
    size = text.policy.marker_size
    if not any(character * size in text.data for character in (b"<", b">", b"|")):
        return
    shifted = b"\n" + text.data
    if not conflict_markers(size, middle=False).search(shifted):
        return
    lines = Lines(shifted)
    for match in conflict_markers(size, middle=True).finditer(shifted):
        start = match.start()
        marker = match[1].decode()
        yield Hit(lines.number(start), start, start + size, f"conflict marker {marker}")
