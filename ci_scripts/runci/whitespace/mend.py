"""Mends what has one right answer: bytes in, bytes out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from runci.whitespace.patterns import (
    BOM,
    NON_BREAKING,
    ZERO_WIDTH,
    has_trailing,
    strip_blanks,
)
from runci.whitespace.policy import Policy
from runci.whitespace.text import WHOLE, Scope, blank_end, is_utf8

_TABS = re.compile(rb"^\t+", re.MULTILINE)
_SPACES_THEN_TAB = re.compile(rb"^\t* +\t", re.MULTILINE)


def mend(data: bytes, policy: Policy, scope: Scope = WHOLE) -> bytes:
    """The text with everything mended that `check_bytes` calls fixable.

    Only lines in scope change. Mending twice is mending once.
    """
    for step in _STEPS:
        data = step(data, policy, scope)
    return data


def can_expand_tabs(data: bytes) -> bool:
    """Whether four spaces for each tab of the indentation leave the Python program as it is."""
    if _SPACES_THEN_TAB.search(data) or _mixes(data):
        return False
    program = _program(data)
    return program is not None and program == _program(_expand(data))


def can_drop_invisible(data: bytes) -> bool:
    """Whether a Python program stays as it is without invisible characters: none is in a string.

    A program that cannot be compiled, perhaps for them, has nothing to lose.
    """
    program = _program(data)
    return program is None or program == _program(_everywhere(data, WHOLE))


def _mixes(data: bytes) -> bool:
    """Whether spaces indent too: how wide a tab is meant to be is then unknown."""
    return re.search(rb"^\t+ |^ +[^\s#]", data, re.MULTILINE) is not None


def _expand(data: bytes) -> bytes:
    return _TABS.sub(lambda match: b"    " * len(match[0]), data)


def _program(data: bytes) -> str | None:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _on_lines(data: bytes, scope: Scope, change: Callable[[bytes], bytes]) -> bytes:
    """Apply a change to each line in scope, given without its newline."""
    lines = data.split(b"\n")
    return b"\n".join(change(line) if scope.has(n) else line for n, line in enumerate(lines, 1))


def _bom(data: bytes, policy: Policy, scope: Scope) -> bytes:
    while policy.invisible and scope.has(1) and data.startswith(BOM):
        data = data.removeprefix(BOM)
    return data


def _invisible(data: bytes, policy: Policy, scope: Scope) -> bytes:
    if not policy.invisible or policy.prose or data.isascii() or not is_utf8(data):
        return data
    if not NON_BREAKING.search(data) and not ZERO_WIDTH.search(data):
        return data
    return data if policy.python and not can_drop_invisible(data) else _everywhere(data, scope)


def _everywhere(data: bytes, scope: Scope) -> bytes:
    mark = BOM if data.startswith(BOM) else b""
    body = data[len(mark) :]
    return mark + _on_lines(body, scope, _without_invisible)


def _without_invisible(line: bytes) -> bytes:
    while True:  # a joiner may lose the neighbours that it joined
        mended = NON_BREAKING.sub(b" ", ZERO_WIDTH.sub(b"", line))
        if mended == line:
            return mended
        line = mended


def _old_line_ends(data: bytes, policy: Policy, scope: Scope) -> bytes:
    if not policy.line_ends or policy.cr_at_eol or b"\n" in data or not scope.has(1):
        return data
    return data.replace(b"\r", b"\n")


def _line_ends(data: bytes, policy: Policy, scope: Scope) -> bytes:
    crlf, every = data.count(b"\r\n"), data.count(b"\n")
    if not policy.line_ends or not crlf:
        return data
    # A CR after the last newline is a lone one.
    head, newline, last = data.rpartition(b"\n")
    if not policy.cr_at_eol:
        return _on_lines(head, scope, lambda line: line.rstrip(b"\r")) + newline + last
    if crlf == every:
        return data
    end = b"\r" if crlf * 2 > every else b""
    return _on_lines(head, scope, lambda line: line.rstrip(b"\r") + end) + newline + last


def _trailing(data: bytes, policy: Policy, scope: Scope) -> bytes:
    if not policy.blank_at_eol or not has_trailing(data):
        return data
    return _on_lines(data, scope, lambda line: strip_blanks(line, policy.breaks))


def _tabs(data: bytes, policy: Policy, scope: Scope) -> bytes:
    if not (policy.indent_tabs and policy.python) or scope.lines is not None or b"\t" not in data:
        return data
    return _expand(data) if _TABS.search(data) and can_expand_tabs(data) else data


def _blank_end(data: bytes, policy: Policy, scope: Scope) -> bytes:
    start, count = blank_end(data)
    return data[:start] if policy.blank_at_eof and count > scope.old_blank_end else data


def _final_newline(data: bytes, policy: Policy, scope: Scope) -> bytes:
    if not policy.incomplete_line or not data or data.endswith((b"\n", b"\r")):
        return data
    every = data.count(b"\n")
    if blank_end(data)[1] or not scope.has(every + 1):
        return data
    return data + (b"\r\n" if data.count(b"\r\n") * 2 > every else b"\n")


# In this order: each leaves nothing to the ones before it.
_STEPS = (
    _bom,
    _invisible,
    _old_line_ends,
    _trailing,
    _line_ends,
    _tabs,
    _blank_end,
    _final_newline,
)
