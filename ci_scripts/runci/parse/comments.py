"""Suppression comments: `# runci: ignore[RT109, RT501] reason`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from runci.parse.model import Suppression
from runci.source import Span

COMMENT = re.compile(r"#\s*runci:\s*ignore\b\s*(?:\[(?P<rules>[^\]]*)\])?(?P<reason>[^#]*)")


def find_suppressions(text: str) -> tuple[Suppression, ...]:
    """The suppression comments of Python source; text in strings is none."""
    if "runci:" not in text:
        return ()
    return tuple(_read(text))


def read_comment(comment: str, line: int, column: int, own_line: bool) -> Suppression | None:
    """One comment as a suppression; on a line of its own it speaks for the next line."""
    match = COMMENT.search(comment)
    if match is None:
        return None
    rules = re.split(r"[,\s]+", (match["rules"] or "").strip())
    start = column + match.start()
    return Suppression(
        tuple(rule for rule in rules if rule),
        match["reason"].strip(" :-\t\u2013\u2014"),
        line + 1 if own_line else line,
        Span(line, start, line, column + len(comment.rstrip())),
    )


def _read(text: str) -> Iterator[Suppression]:
    try:
        for item in tokenize.generate_tokens(io.StringIO(text).readline):
            if item.type == tokenize.COMMENT:
                own_line = not item.line[: item.start[1]].strip()
                found = read_comment(item.string, item.start[0], item.start[1] + 1, own_line)
                if found is not None:
                    yield found
    except (tokenize.TokenError, SyntaxError):
        return  # the parser reports it
