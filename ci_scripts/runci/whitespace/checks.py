"""The checks: bytes in, findings out. Pure.

A clean file costs a few searches of the whole buffer and no loop over its lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from runci.finding import Finding, Level
from runci.whitespace import content, ends
from runci.whitespace.policy import Policy
from runci.whitespace.rules import BY_ID, REMEDIES
from runci.whitespace.text import WHOLE, Hit, Lines, Scope, Text

LIMIT = 1000
"""Findings of one rule in one file; the next one says how many more there are."""

_ONCE_A_FILE = frozenset({"WS102", "WS103", "WS104", "WS105", "WS109"})
Check = Callable[[Text], Iterator[Hit]]


def check_bytes(path: str, data: bytes, policy: Policy, scope: Scope = WHOLE) -> list[Finding]:
    """Every finding in one text file, by line."""
    text = Text(data, policy, scope)
    findings: list[Finding] = []
    for rule, check in CHECKS:
        hits = check(text)
        for hit in hits:  # nearly always there is none
            findings += _report(path, rule, text, itertools.chain((hit,), hits))
    findings.sort()
    return findings


def _report(path: str, rule: str, text: Text, hits: Iterator[Hit]) -> Iterator[Finding]:
    lines = Lines(text.data)
    info = BY_ID[rule]
    level = Level.NOTE if rule == "WS100" else Level.ERROR
    found = 0
    last: Hit | None = None
    fixable = False
    for hit in hits:
        if not (hit.whole_file or text.scope.has(hit.line)):
            continue
        found += 1
        last = hit
        if found <= LIMIT:
            span = lines.span(hit.line, hit.start, hit.end)
            key = "" if rule in _ONCE_A_FILE else lines.text(hit.start)
            fixable = info.fixable and hit.fixable and text.code is not None
            yield Finding(path, span, rule, hit.message, REMEDIES[rule], key, fixable, level)
    if found > LIMIT and last is not None:
        span = lines.span(last.line, last.start, last.end)
        message = f"{found - LIMIT:,} more in this file, the last one here"
        yield Finding(path, span, rule, message, REMEDIES[rule], "more", fixable)


CHECKS: tuple[tuple[str, Check], ...] = (
    ("WS100", content.not_utf8),
    ("WS101", ends.trailing),
    ("WS102", ends.no_final_newline),
    ("WS103", ends.blank_lines_at_end),
    ("WS104", ends.carriage_returns),
    ("WS105", ends.mixed),
    ("WS106", content.space_before_tab),
    ("WS107", content.tab_in_indent),
    ("WS108", content.spaces_in_indent),
    ("WS109", content.bom),
    ("WS110", content.non_breaking),
    ("WS111", content.zero_width),
    ("WS112", content.bidirectional),
    ("WS113", content.conflict),
)
