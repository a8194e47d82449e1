"""Where the strings of a Python file are: what is in them is its value. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of a Python file, from 1, with what belongs to a string.

    `open` end inside a string. `kept` have part of a string of several lines, or a string with more
    than ASCII.
    """

    open: frozenset[int]
    kept: frozenset[int]


def read_code(data: bytes) -> Code | None:
    """The strings of a Python file; None where its tokens cannot be told for certain.

    It is UTF-8, has no CR but in CRLF (Python ends a line there, `tokenize` does not), no token
    that is an error, and no backslash at the end, which needs the blank lines after it.
    """
    import io
    import tokenize

    if data.count(b"\r") != data.count(b"\r\n"):
        return None
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
            if "STRING" not in kind:
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
    return None if continued else Code(frozenset(opened), frozenset(kept))


def _is_refused(kind: str, text: str) -> bool:
    """Whether a token is no Python, or a declaration of another encoding."""
    if kind == "NAME":
        return not text.isidentifier()  # `tokenize` of Python 3.12 gives any character as a name
    return kind == "ERRORTOKEN" or (kind == "ENCODING" and text != "utf-8")
