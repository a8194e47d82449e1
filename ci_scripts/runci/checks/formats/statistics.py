"""How many findings each rule has, in place of the findings: for people, or as JSON.

In JSON a list of objects, the most first: `rule` and `name`, `level` (`error` or `note`), `count`,
and of these `fixable`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from runci.checks.formats import ReportContext, closing
from runci.core.errors import RunciError
from runci.core.finding import Finding, Level, Summary
from runci.text import terminal

FORMATS = ("text", "concise", "json")


def render(
    format: str,  # noqa: A002 (the name of the option)
    findings: Sequence[Finding],
    summary: Summary,
    context: ReportContext,
) -> str:
    """Return the counts in one of FORMATS. Raises RunciError for another."""
    if format not in FORMATS:
        allowed = " or ".join(FORMATS)
        raise RunciError(f"--statistics counts, which {format} has no form for: use {allowed}")
    if format == "json":
        return json.dumps(list(_objects(findings, context)), indent=2) + "\n"
    lines = [*by_rule(findings, context), *closing(findings, summary, context)]
    return "".join(f"{line}\n" for line in lines)


def by_rule(findings: Sequence[Finding], context: ReportContext) -> Iterator[str]:
    """A line for each rule that found something, the most first."""
    counts = _counts(findings)
    column = max((len(f"{number:,}") for _, _, number, _ in counts), default=0)
    for rule, level, number, _ in counts:
        shown = terminal.paint(rule, terminal.RED, context.color)
        notes = " (notes)" if level is Level.NOTE else ""
        yield f"  {number:>{column},}  {shown}  {_name(rule, context)}{notes}".rstrip()


def _objects(findings: Sequence[Finding], context: ReportContext) -> Iterator[dict[str, object]]:
    for rule, level, number, fixable in _counts(findings):
        counts = {"count": number, "fixable": fixable}
        yield {"rule": rule, "name": _name(rule, context), "level": level.value, **counts}


def _counts(findings: Sequence[Finding]) -> list[tuple[str, Level, int, int]]:
    """Rule, level, how many, and how many of them are fixable; the most first."""
    number = Counter((finding.rule, finding.level) for finding in findings)
    fixable = Counter((finding.rule, finding.level) for finding in findings if finding.fixable)
    counted = [(rule, level, n, fixable[rule, level]) for (rule, level), n in number.items()]
    return sorted(counted, key=lambda row: (-row[2], row[0], row[1].value))


def _name(rule: str, context: ReportContext) -> str:
    return context.rules[rule].name if rule in context.rules else ""
