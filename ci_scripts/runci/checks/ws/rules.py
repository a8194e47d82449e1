"""Whitespace, line ends, characters that cannot be seen, conflict markers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from runci.checks.ws.mend import can_expand_tabs
from runci.checks.ws.policy import Conversion, Policy
from runci.checks.ws.text import (
    BARE_LF,
    BIDIRECTIONAL,
    BIDIRECTIONAL_OR_MARK,
    BLANKS,
    BOM,
    CARRIER,
    CRLF,
    LONE_RETURN,
    NON_BREAKING,
    NON_BREAKING_BYTES,
    RIGHT_TO_LEFT,
    WHOLE,
    ZERO_WIDTH,
    ZERO_WIDTH_BYTES,
    Hit,
    Lines,
    Scope,
    Text,
    blank_end,
    conflict_markers,
    fenced,
    has_trailing,
    indentation,
    is_break,
    trailing_ends,
)
from runci.core.finding import Finding, Level, RuleInfo
from runci.text.wording import plural

LIMIT = 1000
"""Findings of one rule in one file; the next one says how many more there are."""

_ONCE_A_FILE = frozenset({"WS102", "WS103", "WS104", "WS105", "WS109"})


@dataclass(frozen=True, slots=True)
class TextRule(RuleInfo):
    """A rule about the text of one file; `bad` and `good` are byte strings, to show all of it."""

    remedy: str = ""
    check: Callable[[Text], Iterator[Hit]] = field(kw_only=True)


def check_bytes(
    path: str, data: bytes, policy: Policy, scope: Scope = WHOLE, limit: int = LIMIT
) -> list[Finding]:
    """Every finding in one text file, by line; beyond the limit of a rule, how many more."""
    text = Text(data, policy, scope)
    findings: list[Finding] = []
    for rule in RULES:
        hits = rule.check(text)
        for hit in hits:  # nearly always there is none
            findings += _report(path, rule, text, itertools.chain((hit,), hits), limit)
    findings.sort()
    return findings


def _report(
    path: str, rule: TextRule, text: Text, hits: Iterator[Hit], limit: int
) -> Iterator[Finding]:
    lines = Lines(text.data)
    level = Level.NOTE if rule.id == "WS100" else Level.ERROR
    found = 0
    last: Hit | None = None
    fixable = False
    for hit in hits:
        if not (hit.whole_file or text.scope.has(hit.line)):
            continue
        found += 1
        last = hit
        if found <= limit:
            span = lines.span(hit.line, hit.start, hit.end)
            key = rule.name if rule.id in _ONCE_A_FILE else lines.text(hit.start)
            fixable = rule.fixable and hit.fixable and text.code is not None
            yield Finding(path, span, rule.id, hit.message, rule.remedy, key, fixable, level)
    if found > limit and last is not None:
        span = lines.span(last.line, last.start, last.end)
        message = f"{found - limit:,} more in this file, the last one here"
        yield Finding(path, span, rule.id, message, rule.remedy, message, fixable)


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
            whole = text.policy.python and text.scope.lines is None
            code = text.code if whole else None
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


def _characters(text: Text, rising: Iterator[re.Match[bytes]]) -> Iterator[Hit]:
    """One hit a line: the first such character, and how many there are."""
    import unicodedata

    lines = Lines(text.data)
    for line, group in itertools.groupby(rising, lambda match: lines.number(match.start())):
        first, *others = group
        character = first[0].decode()[0]
        known = unicodedata.name(character, "a code point without a name")
        name = f"U+{ord(character):04X} {known}"
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
        yield from _characters(text, NON_BREAKING.finditer(text.data))


def zero_width(text: Text) -> Iterator[Hit]:
    """A character that no font shows."""
    data, policy = text.data, text.policy
    if data.isascii() or not policy.invisible:
        return
    if any(c in data for c in ZERO_WIDTH_BYTES) and text.utf8:
        begin = len(BOM) if data.startswith(BOM) else 0
        pattern = CARRIER if policy.prose else ZERO_WIDTH
        yield from _characters(text, pattern.finditer(data, begin))


def bidirectional(text: Text) -> Iterator[Hit]:
    """A control that reorders text."""
    # In text of every encoding: one bad byte must not hide them.
    if not text.data.isascii():
        pattern = BIDIRECTIONAL_OR_MARK if text.invisible else BIDIRECTIONAL
        found = pattern.finditer(text.data)
        yield from _characters(text, (match for match in found if not _is_needed(text, match)))


def _is_needed(text: Text, match: re.Match[bytes]) -> bool:
    """Whether it is a mark, in a line with letters that run from right to left."""
    if BIDIRECTIONAL.fullmatch(match[0]):
        return False
    begin, end = text.data.rfind(b"\n", 0, match.start()) + 1, text.data.find(b"\n", match.end())
    line = text.data[begin : end if end >= 0 else len(text.data)]
    return RIGHT_TO_LEFT.search(line.decode("utf-8", "replace")) is not None


def conflict(text: Text) -> Iterator[Hit]:
    """A marker that a merge left."""
    size = text.policy.marker_size
    if not any(character * size in text.data for character in (b"<", b">", b"|")):
        return
    shifted = b"\n" + text.data
    if not conflict_markers(size, middle=False).search(shifted):
        return
    lines = Lines(shifted)
    found = conflict_markers(size, middle=True).finditer(shifted)
    quoted = fenced(text.data) if text.policy.fences else []
    for match in _whole_conflicts(found, quoted) if text.policy.prose else found:
        start = match.start()
        marker = match[1].decode()
        yield Hit(lines.number(start), start, start + size, f"conflict marker {marker}")


def _whole_conflicts(
    markers: Iterator[re.Match[bytes]], quoted: Sequence[tuple[int, int]]
) -> Iterator[re.Match[bytes]]:
    """The markers of which all stand there, in git's order: alone each is a quote or underlines.

    A conflict that stands within one of the `quoted` ranges as a whole is quoted, too.
    """
    begun: list[re.Match[bytes]] = []
    kinds = b""
    for match in markers:
        kind = match[1][:1]
        if kind == b"<":
            begun, kinds = [match], kind
        elif kinds + kind in (b"<|", b"<=", b"<|=", b"<=>", b"<|=>"):
            begun, kinds = [*begun, match], kinds + kind
        else:
            continue
        first, last = begun[0].start(), begun[-1].start()
        if kind == b">" and not any(begin <= first and last < end for begin, end in quoted):
            yield from begun


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
        if text.policy.patch and data.startswith((b" ", b"-"), begin):
            continue  # it has to be the line of another file
        what = "trailing whitespace" if start > begin else "whitespace on a blank line"
        line = lines.number(start)
        yield Hit(line, start, end, what, fixable=not in_string(text, line))


def in_string(text: Text, line: int) -> bool:
    """Whether the end of a line is part of a value."""
    return text.code is not None and line in text.code.open


def no_final_newline(text: Text) -> Iterator[Hit]:
    """A last line without a newline."""
    data = text.data
    if not text.policy.incomplete_line or not data or data.endswith((b"\n", b"\r")):
        return
    if blank_end(data)[1] == 0:
        end = len(data)
        line = data.count(b"\n") + 1
        yield Hit(line, end, end, "no newline at the end of the file", _closed(text))


def blank_lines_at_end(text: Text) -> Iterator[Hit]:
    """Blank lines at the end of the file."""
    if not text.policy.blank_at_eof:
        return
    start, count = blank_end(text.data)
    if count > text.scope.old_blank_end:
        line = text.data.count(b"\n", 0, start) + 1
        lines = plural(count, "blank lines")
        # Deleting the last text brings older blank lines to the end: no added line shows it.
        what = f"{lines} at the end of the file"
        yield Hit(line, start, start, what, _closed(text), whole_file=True)


def _closed(text: Text) -> bool:
    """Whether newlines at the end of the file are part of no value."""
    return text.code is not None and text.code.closed


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
        kept = text.code.ends if text.code is not None else frozenset()
        fixable = any(other not in kept for other, _ in ends)
        yield Hit(line, start, start, message.format(number), fixable)


RULES: tuple[TextRule, ...] = (
    TextRule(
        "WS100",
        "not-checked",
        "A file, or a part of its checks, could not be checked.",
        "A file that is passed over in silence looks clean. Text that is not UTF-8 is only a note: "
        "everything but non-breaking and zero-width characters is checked in it.",
        r"b'# d\xe9j\xe0 vu\n'",
        r"b'# d\xc3\xa9j\xc3\xa0 vu\n'",
        check=not_utf8,
    ),
    TextRule(
        "WS101",
        "trailing-whitespace",
        "Blanks at the end of a line (git: blank-at-eol).",
        "They cannot be seen, and they turn up in later diffs. Two spaces are allowed at the end "
        "of a Markdown line, where they mean a line break. In a patch what it keeps or removes is "
        "another file's.",
        r"b'x = 1  \n'",
        r"b'x = 1\n'",
        fixable=True,
        remedy="delete the blanks at the end of the line",
        check=trailing,
    ),
    TextRule(
        "WS102",
        "no-final-newline",
        "The last line has no newline.",
        "The next line that is added changes this one too, and tools that join files glue lines.",
        r"b'x = 1'",
        r"b'x = 1\n'",
        fixable=True,
        remedy="end the last line with a newline",
        check=no_final_newline,
    ),
    TextRule(
        "WS103",
        "blank-lines-at-end",
        "Blank lines at the end of the file (git: blank-at-eof).",
        "They grow unseen, and whoever appends to the file has to think about them.",
        r"b'x = 1\n\n'",
        r"b'x = 1\n'",
        fixable=True,
        remedy="delete the blank lines at the end",
        check=blank_lines_at_end,
    ),
    TextRule(
        "WS104",
        "carriage-return",
        "Lines end with CRLF or a lone CR, and git does not convert them.",
        "Scripts with CRLF do not start on Linux, and every line differs for a colleague whose "
        "editor writes LF. A lone CR is not mended: it may be meant. Files that "
        "need CRLF (.bat, .cmd, .eml, .vcf, .ics) may have it.",
        r"b'x = 1\r\ny = 2\r\n'",
        r"b'x = 1\ny = 2\n'",
        fixable=True,
        remedy="save the file with LF, or say in .gitattributes which files have CRLF: "
        "`*.reg text eol=crlf`",
        check=carriage_returns,
    ),
    TextRule(
        "WS105",
        "mixed-line-ends",
        "Some lines of a file end with CRLF, others with LF.",
        "An editor that makes them the same changes lines that nobody touched.",
        r"b'x = 1\r\ny = 2\n'",
        r"b'x = 1\ny = 2\n'",
        fixable=True,
        remedy="save the file with LF",
        check=mixed,
    ),
    TextRule(
        "WS106",
        "space-before-tab",
        "A space stands before a tab in the indentation (git: space-before-tab).",
        "It looks right at one tab width only. Which one is meant, only the author knows, so it is "
        "not mended.",
        r"b'case 1:\n  \tbreak\n'",
        r"b'case 1:\n\tbreak\n'",
        remedy="indent with tabs alone or spaces alone",
        check=space_before_tab,
    ),
    TextRule(
        "WS107",
        "tab-in-indentation",
        "A tab in the indentation of Python, or where the attribute tab-in-indent asks.",
        "Python refuses tabs that do not agree with spaces, and columns differ between editors. "
        "Mended where a file is indented with tabs only and stays the same program.",
        r"b'if x:\n\ty = 1\n'",
        r"b'if x:\n    y = 1\n'",
        fixable=True,
        remedy="indent with spaces",
        check=tab_in_indent,
    ),
    TextRule(
        "WS108",
        "spaces-in-indentation",
        "As many spaces as a tab, where the attribute indent-with-non-tab asks for tabs.",
        "The repository's own .gitattributes or core.whitespace forbids it.",
        r"b'int f() {\n        return 1;\n}\n'",
        r"b'int f() {\n\treturn 1;\n}\n'",
        remedy="indent with tabs",
        check=spaces_in_indent,
    ),
    TextRule(
        "WS109",
        "byte-order-mark",
        "The file starts with a byte-order mark.",
        "It hides in front of `#!` and of the first word, and UTF-8 needs none.",
        r"b'\xef\xbb\xbfx = 1\n'",
        r"b'x = 1\n'",
        fixable=True,
        remedy="save the file as UTF-8 without a byte-order mark",
        check=bom,
    ),
    TextRule(
        "WS110",
        "non-breaking-space",
        "A non-breaking space in source; prose may have them.",
        "It looks like a space and is none: Python refuses it, a shell takes it for a word. In a "
        "comment it is mended.",
        r"b'x = 1  # a\xc2\xa0b\n'",
        r"b'x = 1  # a b\n'",
        fixable=True,
        remedy="write a space, or the escape \\u00a0 where it is meant",
        check=non_breaking,
    ),
    TextRule(
        "WS111",
        "zero-width-character",
        "A character that no font shows (zero width, soft hyphen, filler, tag, a run of variation "
        "selectors). In prose only what carries a hidden text: tags and such runs.",
        "Two names that look the same are different, a search finds neither, and a text that "
        "nobody sees is read by a machine. Joiners in words and emoji, a selector behind its sign "
        "and flags are left alone. In a comment it is mended.",
        r"b'x = 1  # na\xe2\x80\x8bme\n'",
        r"b'x = 1  # name\n'",
        fixable=True,
        remedy="delete it, or write an escape where it is meant",
        check=zero_width,
    ),
    TextRule(
        "WS112",
        "bidirectional-control",
        "A control character that reorders text on the screen; in source a mark of direction, too.",
        "A reviewer sees other code than the compiler does (CVE-2021-42574). Never mended: a "
        "person must read what is there. Write it as an escape where it is meant. Marks (U+061C, "
        "U+200E, U+200F) are left alone in prose, and in lines with Arabic, Hebrew and other "
        "letters that run from right to left.",
        r"b'admin = \"\xe2\x80\xae\"\n'",
        r"b'admin = \"\\u202e\"\n'",
        remedy="read the line as bytes; delete the control or write it as an escape",
        check=bidirectional,
    ),
    TextRule(
        "WS113",
        "conflict-marker",
        "A conflict marker that a merge left.",
        "Half of a merge was committed. `=======` counts only in a file that has another marker: "
        "it also underlines headings. In prose, where `>` quotes, only all markers of a conflict "
        "count, and in Markdown not within one fence. Never mended: somebody has to choose a side.",
        r"b'<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> topic\n'",
        r"b'x = 2\n'",
        remedy="finish the merge: keep one side and delete the markers",
        check=conflict,
    ),
)
