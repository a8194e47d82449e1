"""Suppression comments: `# runci: ignore[RT109, RT501] reason`."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from runci.core.source import Span, lines_of_python, split_lines
from runci.read.decode import decode
from runci.read.testfile import Suppression

# The reason ends where another comment begins; `#1234` belongs to it.
COMMENT = re.compile(
    r"#\s*runci:\s*ignore\b\s*(?:\[(?P<rules>[^\]]*)\])?(?P<reason>(?:(?!\s#\s).)*)"
)
_BETWEEN = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


def find_suppressions(text: str) -> tuple[Suppression, ...]:
    """The suppression comments of Python source; text in strings is none.

    Where its tokens end before the file does, the rest is read by lines.
    """
    if "runci:" not in text:
        return ()
    lines = lines_of_python(text)
    tokens = list(_tokens(lines))
    statements, header = _statements(tokens), _header(tokens)
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    found = [_read(token, lines, statements, header) for token in comments]
    if not tokens or tokens[-1].type != tokenize.ENDMARKER:
        plain = [line.rstrip("\r\n") for line in lines]
        begin = tokens[-1].end[0] + 1 if tokens else 1
        found += [_in_line(_HASH, number, plain) for number in range(begin, len(lines) + 1)]
    return tuple(item for item in found if item is not None)


def read_comment(
    comment: str, line: int, column: int, target: int, last: int
) -> Suppression | None:
    """One comment as a suppression that speaks for some lines."""
    match = COMMENT.search(comment)
    if match is None:
        return None
    rules = re.split(r"[,\s]+", (match["rules"] or "").strip())
    start = column + match.start()
    reason = match["reason"].strip(" :-\t\u2013\u2014")
    return Suppression(
        tuple(rule for rule in rules if rule),
        reason if re.search(r"\w", reason) else "",  # «.» says nothing
        target,
        last,
        Span(line, start, line, column + len(comment.rstrip())),
    )


def suppressions_of(path: str, data: bytes) -> tuple[Suppression, ...]:
    """The suppression comments of a file of any language.

    Python is read by its tokens. Of Markdown only `<!-- … -->` counts: the rest is prose, which may
    quote such a comment. Elsewhere a comment begins with `#`, `//`, `/*` or `<!--`.
    """
    if b"runci:" not in data or not _MENTION.search(data):  # nearly always
        return ()
    text = decode(data).text
    text = data.decode("utf-8", "replace") if text is None else text
    if path.endswith(".py"):
        return find_suppressions(text)
    begin = _MARKDOWN if path.endswith((".md", ".markdown")) else _OTHERS
    lines = [line.rstrip("\r\n") for line in split_lines(text)[:-1]]
    found = (_in_line(begin, number, lines) for number in range(1, len(lines) + 1))
    return tuple(item for item in found if item is not None)


_MENTION = re.compile(rb"runci:\s*ignore")
_REST = r"[\s#]*)(?P<text>runci:\s*ignore\b.*?)(?=\s*(?:-->|\*/|$))"
_HASH = re.compile(r"(?:^|(?<=\s))(?P<open>#" + _REST)
_OTHERS = re.compile(r"(?:^|(?<=\s))(?P<open>(?:#|//|/\*|<!--)" + _REST)
_MARKDOWN = re.compile(r"(?:^|(?<=\s))(?P<open><!--" + _REST)


def _in_line(begin: re.Pattern[str], number: int, lines: Sequence[str]) -> Suppression | None:
    match = begin.search(lines[number - 1])
    if match is None:
        return None
    opened = match["open"].strip(" \t#") or "#"
    target = number
    if not lines[number - 1][: match.start()].strip():  # it speaks for what follows the comment
        while target < len(lines) and lines[target - 1].lstrip().startswith(opened):
            target += 1
        first = 1 if all(line.startswith(opened) for line in lines[: number - 1]) else target
    else:
        first = target
    # The form that all languages share, at the same place.
    text = "#" + " " * (len(match["open"]) - 1) + match["text"]
    return read_comment(text, number, match.start() + 1, first, target)


def _tokens(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(iter(lines).__next__)
    except (tokenize.TokenError, SyntaxError):
        return  # the parser reports it


def _statements(tokens: Iterable[tokenize.TokenInfo]) -> dict[int, int]:
    """First → last line of each statement (of a compound one, its head)."""
    found: dict[int, int] = {}
    first = 0
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            found[first] = token.start[0]
            first = 0
        elif token.type not in _BETWEEN:
            first = first or token.start[0]
    return found


def _header(tokens: Iterable[tokenize.TokenInfo]) -> int:
    """The first line below the comments, and the docstring, that a file begins with."""
    documented = False
    for token in tokens:
        if token.type == tokenize.STRING and not documented:
            documented = True
        elif token.type not in (*_BETWEEN, tokenize.NEWLINE):
            return token.start[0]
    return 1


def _read(
    token: tokenize.TokenInfo, lines: list[str], statements: dict[int, int], header: int
) -> Suppression | None:
    """A comment speaks for the statement it stands in; else for the statement, or line, below."""
    line, column = token.start[0], token.start[1] + 1
    around = ((first, end) for first, end in statements.items() if first <= line <= end)
    target, last = next(around, (line, line))
    if (target, last) == (line, line) and not token.line[: token.start[1]].strip():
        while target < len(lines) and lines[target - 1].lstrip().startswith("#"):
            target += 1
        last = statements.get(target, target)
        if line < header:
            target = 1  # findings of the whole file stand there
    return read_comment(token.string, line, column, target, last)
