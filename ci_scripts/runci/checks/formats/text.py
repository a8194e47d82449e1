"""Findings for a person at a terminal, grouped by file, each with its source line and remedy."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from runci.checks.formats import ReportContext, summary_line
from runci.checks.formats.statistics import by_rule
from runci.core.finding import Finding, Level, Summary
from runci.core.site import rule_page
from runci.core.source import Span
from runci.text import terminal
from runci.text.terminal import char_width, display_width, escape_char, paint, printable, wrap
from runci.text.wording import plural

TAB = 4
MARK = "..."
# Prose is hard to read across a very wide terminal; source lines use all of it.
PROSE = 100
# From so many findings on, the counts by rule are shown: the first ones have scrolled away.
MANY = 20


def render(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> str:
    """Return the report: errors by file, notes by file, and what was found in all."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    notes = [finding for finding in findings if finding.level is Level.NOTE]
    lines: list[str] = []
    lines += _by_file(errors, context)
    if notes:
        lines += [_paint("notes, which do not fail the run:", terminal.YELLOW, context), ""]
        lines += _by_file(notes, context)
    lines += [] if context.quiet else _closing(findings, errors, summary, context)
    return "".join(f"{line}\n" for line in lines)


def _closing(
    findings: Sequence[Finding],
    errors: Sequence[Finding],
    summary: Summary,
    context: ReportContext,
) -> Iterator[str]:
    yield from _counts_by_rule(errors, context)
    style = terminal.RED if errors else terminal.GREEN if summary.files else terminal.YELLOW
    for line in wrap(summary_line(findings, summary), _prose(context)):
        yield _paint(line, style, context)
    yield from _more(findings, context)


def _by_file(findings: Sequence[Finding], context: ReportContext) -> Iterator[str]:
    for path, group in groupby(findings, key=lambda finding: finding.path):
        in_file = list(group)
        source = context.read_lines(path)
        places = max(len(_place(finding)) for finding in in_file)
        yield _paint(printable(path), terminal.BOLD, context)
        for finding in in_file:
            yield from _finding(finding, source, places, context)
            yield ""


def _finding(
    finding: Finding, source: Sequence[str] | None, places: int, context: ReportContext
) -> Iterator[str]:
    yield from _heading(finding, places, context)
    gutter = max(len(str(finding.line)), 5)
    shown = snippet(source, finding.span, _width(context) - gutter - 3)
    if shown:
        bar = _paint("|", terminal.BLUE, context)
        number = _paint(f"{finding.line:>{gutter}}", terminal.BLUE, context)
        caret = _paint("^" * shown.length, _style(finding), context)
        yield f"{number} {bar} {shown.text}".rstrip()
        yield f"{'':{gutter}} {bar} {'':{shown.start}}{caret}"
        if finding.span.end_line > finding.line:
            yield f"{'':{gutter}} {bar} ... to line {finding.span.end_line}"
    yield from _remedy(finding, gutter, context)


def _heading(finding: Finding, places: int, context: ReportContext) -> Iterator[str]:
    indent = 2 + places + 2 + len(finding.rule) + 2
    message = printable(finding.message)
    if finding.fixable:
        message += " [fixable]"
    first, *rest = wrap(message, _prose(context) - indent)
    place = _paint(f"{_place(finding):<{places}}", terminal.CYAN, context)
    rule = _paint(finding.rule, _style(finding), context)
    lines = [f"  {place}  {rule}  {first}", *(" " * indent + line for line in rest)]
    if finding.fixable:
        lines[-1] = lines[-1].removesuffix("[fixable]") + _paint(
            "[fixable]", terminal.GREEN, context
        )
    yield from lines


def _remedy(finding: Finding, gutter: int, context: ReportContext) -> Iterator[str]:
    if not finding.remedy:
        return
    label = "= help: "
    indent = gutter + 1 + len(label)
    lines = [
        line
        for paragraph in finding.remedy.splitlines()
        for line in wrap(printable(paragraph), _prose(context) - indent)
    ]
    yield f"{'':{gutter}} {_paint(label.rstrip(), terminal.GREEN, context)} {lines[0]}"
    for line in lines[1:]:
        yield f"{'':{indent}}{line}".rstrip()


def _counts_by_rule(errors: Sequence[Finding], context: ReportContext) -> Iterator[str]:
    if len(errors) < MANY or len({finding.rule for finding in errors}) < 2:
        return
    yield from by_rule(errors, context)
    yield ""


def _more(findings: Sequence[Finding], context: ReportContext) -> Iterator[str]:
    known = sorted({finding.rule for finding in findings if finding.rule in context.rules})
    if not known:
        return
    line = f"for the reason and an example: {context.program} rule {known[0]}"
    if len(known) > 1:
        line += f" (and {plural(len(known) - 1, 'others')})"
    yield _paint(line, terminal.DIM, context)
    yield _paint(f"or {rule_page(known[0])}", terminal.DIM, context)


def _place(finding: Finding) -> str:
    return f"{finding.line}:{finding.column}"


def _style(finding: Finding) -> str:
    return terminal.RED if finding.level is Level.ERROR else terminal.YELLOW


def _paint(text: str, style: str, context: ReportContext) -> str:
    return paint(text, style, context.color)


def _width(context: ReportContext) -> int:
    # Narrower than this, wrapping hurts more than it helps.
    return max(context.width, 40)


def _prose(context: ReportContext) -> int:
    return min(_width(context), PROSE)


@dataclass(frozen=True, slots=True)
class Snippet:
    """Printable `text` of the first line of a span, and the columns to underline below it.

    `start` counts from 0; `length` is at least 1 and may reach one column past the text.
    """

    text: str
    start: int
    length: int


def snippet(lines: Sequence[str] | None, span: Span, width: int) -> Snippet | None:
    """Return what to show of the line where `span` begins, in at most `width` columns.

    None where there is nothing to see: no source, no such line, or one place on a blank line.
    """
    if lines is None or not 1 <= span.line <= len(lines):
        return None
    line = lines[span.line - 1].rstrip("\r\n")
    empty = (span.end_line, span.end_column) <= (span.line, span.column)
    if empty and not line.strip():
        return None
    start = min(max(span.column - 1, 0), len(line))
    end = len(line) if span.end_line > span.line else min(span.end_column - 1, len(line))
    return _window(line, start, max(end, start), width)


def _window(line: str, start: int, end: int, width: int) -> Snippet:
    # Only what can be shown is rendered: a line may have millions of characters.
    low = max(0, start - 2 * width)
    high = min(len(line), start + 2 * width)
    cells = _cells(line[low:high])
    offsets = _offsets(cells)
    first, last = start - low, min(end, high) - low
    left, right = 0, len(cells)
    if low or high < len(line) or offsets[-1] > width:
        room = width - 2 * len(MARK)
        if low or offsets[last] > room:
            left = bisect_left(offsets, offsets[first] - room // 3)
        right = bisect_right(offsets, offsets[left] + room) - 1
    before = MARK if low or left else ""
    after = MARK if high < len(line) or right < len(cells) else ""
    return Snippet(
        text=before + "".join(cells[left:right]) + after,
        start=len(before) + offsets[first] - offsets[left],
        length=max(1, offsets[min(last, right)] - offsets[first]),
    )


def _cells(text: str) -> list[str]:
    """Render each character by itself: tabs to the next stop, unprintable ones escaped."""
    if text.isascii() and text.isprintable():
        return list(text)
    cells: list[str] = []
    column = 0
    for char in text:
        if char == "\t":
            cell = " " * (TAB - column % TAB)
        else:
            cell = char if char.isprintable() else escape_char(char)
        cells.append(cell)
        column += char_width(char) if cell is char else display_width(cell)
    return cells


def _offsets(cells: Sequence[str]) -> Sequence[int]:
    """Return the column of each cell, and that of the end."""
    text = "".join(cells)
    if len(text) == len(cells) and text.isascii():  # nearly always
        return range(len(cells) + 1)
    offsets = [0]
    for cell in cells:
        offsets.append(offsets[-1] + display_width(cell))
    return offsets
