"""Mends what has one right answer, in Python and YAML: bytes in, bytes out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from runci.checks.ws.policy import Policy
from runci.checks.ws.text import (
    BOM,
    NON_BREAKING,
    WHOLE,
    ZERO_WIDTH,
    Code,
    Scope,
    blank_end,
    has_trailing,
    read_code,
    strip_blanks,
)

_TABS = re.compile(rb"^\t+", re.MULTILINE)
_SPACES_THEN_TAB = re.compile(rb"^\t* +\t", re.MULTILINE)


def mend(
    data: bytes,
    policy: Policy,
    scope: Scope = WHOLE,
    rules: Mapping[str, Collection[int]] | None = None,
) -> bytes:
    """The text with everything mended that `check_bytes` calls fixable.

    `rules` restrict it to some, each but for the lines that are given with it. Only lines in scope
    change, and nothing in a value. Mending twice is mending once.
    """
    before = data
    for ids, step in _STEPS if policy.python or policy.yaml else ():
        asked = ids if rules is None else [rule for rule in ids if rule in rules]
        if not asked:
            continue
        code = read_code(data, policy)
        if code is None:
            return before
        but = {line for rule in asked for line in rules[rule]} if rules is not None else set()
        data = step(data, policy, _without(scope, but, data), code)
    if data == before:
        return before
    meaning = _events if policy.yaml else _program
    known = meaning(before)
    return data if known is None or known == meaning(data) else before


def _without(scope: Scope, lines: Collection[int], data: bytes) -> Scope:
    if not lines:
        return scope
    every = range(1, data.count(b"\n") + 2) if scope.lines is None else scope.lines
    return replace(scope, lines=frozenset(every).difference(lines))


def can_expand_tabs(data: bytes, code: Code) -> bool:
    """Whether four spaces for each tab of the indentation leave the Python program as it is."""
    if _SPACES_THEN_TAB.search(data) or _mixes(data):
        return False
    lines = data.split(b"\n")
    if any(lines[line].startswith(b"\t") for line in code.open):  # the line after each
        return False
    program = _program(data)
    return program is not None and program == _program(_expand(data))


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


def _events(data: bytes) -> list[str] | None:
    """What a YAML file says, comments and layout left out."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [repr(event) for event in yaml.parse(data, loader)]
    except yaml.YAMLError:
        return None


def _on_lines(
    data: bytes, scope: Scope, kept: frozenset[int], change: Callable[[bytes], bytes]
) -> bytes:
    """Apply a change to each line in scope that is not to be kept, given without its newline."""
    return b"\n".join(
        change(line) if scope.has(number) and number not in kept else line
        for number, line in enumerate(data.split(b"\n"), 1)
    )


def _bom(data: bytes, policy: Policy, scope: Scope, _code: Code) -> bytes:
    while policy.invisible and scope.has(1) and data.startswith(BOM):
        data = data.removeprefix(BOM)
    return data


def _invisible(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    if not policy.invisible or policy.prose or data.isascii():
        return data
    mark = BOM if data.startswith(BOM) else b""
    return mark + _on_lines(data[len(mark) :], scope, code.kept, _without_invisible)


def _without_invisible(line: bytes) -> bytes:
    before = line
    while True:  # a joiner may lose the neighbours that it joined
        mended = NON_BREAKING.sub(b" ", ZERO_WIDTH.sub(b"", line))
        if mended == line:
            break
        line = mended
    return line if strip_blanks(before, False) != before else strip_blanks(line, False)


def _line_ends(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    crlf, every = data.count(b"\r\n"), data.count(b"\n")
    if not policy.line_ends or not crlf:
        return data
    head, newline, last = data.rpartition(b"\n")
    if not policy.cr_at_eol:
        return _on_lines(head, scope, code.ends, lambda line: line.rstrip(b"\r")) + newline + last
    if crlf == every:
        return data
    end = b"\r" if crlf * 2 > every else b""
    ended = _on_lines(head, scope, code.ends, lambda line: line.rstrip(b"\r") + end)
    return ended + newline + last


def _trailing(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    if not policy.blank_at_eol or not has_trailing(data):
        return data
    return _on_lines(data, scope, code.open, lambda line: strip_blanks(line, policy.breaks))


def _tabs(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    if (
        not policy.python
        or not policy.indent_tabs
        or scope.lines is not None
        or not _TABS.search(data)
    ):
        return data
    return _expand(data) if can_expand_tabs(data, code) else data


def _blank_end(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    start, count = blank_end(data)
    grew = policy.blank_at_eof and count > scope.old_blank_end
    return data[:start] if grew and code.closed else data


def _final_newline(data: bytes, policy: Policy, scope: Scope, code: Code) -> bytes:
    if not code.closed or not policy.incomplete_line or not data or data.endswith((b"\n", b"\r")):
        return data
    every = data.count(b"\n")
    if blank_end(data)[1] or not scope.has(every + 1):
        return data
    crlf = policy.cr_at_eol or not policy.line_ends  # else what is left of them is in strings
    return data + (b"\r\n" if crlf and data.count(b"\r\n") * 2 > every else b"\n")


# In this order: each leaves nothing to the ones before it.
_STEPS = (
    (("WS109",), _bom),
    (("WS110", "WS111"), _invisible),
    (("WS101",), _trailing),
    (("WS104", "WS105"), _line_ends),
    (("WS107",), _tabs),
    (("WS103",), _blank_end),
    (("WS102",), _final_newline),
)
