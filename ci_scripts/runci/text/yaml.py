"""Texts as scalars of YAML that every parser reads alike."""

from __future__ import annotations

import re

# What no YAML takes for a number, a truth value, nothing or a date, nor for a sign of its own.
_PLAIN = re.compile(r"(?:[0-9]+-)?[A-Za-z](?:[A-Za-z0-9_./-]*[A-Za-z0-9_])?")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))


def scalar(text: str) -> str:
    """A scalar, also as a key: plain where that is safe, else in double quotes."""
    safe = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if safe else quoted(text)


def quoted(text: str) -> str:
    """A YAML scalar in double quotes, of characters that every editor shows."""
    return '"' + "".join(map(_in_quotes, text)) + '"'


def _in_quotes(char: str) -> str:
    if char in '"\\\n':
        return "\\n" if char == "\n" else f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code < 0xE000:  # a byte that was no text
        return "?"
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
