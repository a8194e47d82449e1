"""`runci rule`: what rules mean, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.core.finding import RuleInfo
from runci.core.site import rule_page

_NAMES = {
    "\ufeff": "<U+FEFF>",
    "\u00a0": "<U+00A0>",
    "\u200b": "<U+200B>",
    "\u202e": "<U+202E>",
    "\u2066": "<U+2066>",
    "\u2069": "<U+2069>",
    "\r": "<CR>",
    "\t": "<TAB>",
}


def as_text(rules: Sequence[RuleInfo], *, whole: bool) -> str:
    """For a terminal: all of each rule, or with `whole` one line each."""
    if whole:
        marked = [(rule, " *" if rule.fixable else "") for rule in rules]
        lines = [f"{r.id}  {r.name}{mark}\n       {r.summary}\n" for r, mark in marked]
        return "".join([*lines, "\n* mended by --fix. `runci rule RT104` says more.\n"])
    return "\n".join("\n".join(_text(rule)) + "\n" for rule in rules)


def _text(rule: RuleInfo) -> Iterator[str]:
    import textwrap

    yield f"{rule.id}  {rule.name}"
    yield f"\n{rule.summary}\n"
    yield from textwrap.wrap(rule.reason, 79)
    yield "\nFound:\n"
    yield from _indented(rule.bad)
    yield "\nMended:\n"
    yield from _indented(rule.good)
    yield "\n--fix mends it." if rule.fixable else "\n--fix does not mend it."
    yield rule_page(rule.id)


def _indented(code: str) -> list[str]:
    return [f"    {line}".rstrip() for line in shown(code).splitlines()]


def shown(code: str) -> str:
    """An example with the characters that cannot be seen spelled out."""
    return "".join(_NAMES.get(character, character) for character in code)
