"""Plain tables for a terminal, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runci.text.terminal import crop, display_width, printable

GAP = "  "
# A column is not cut below this many columns: less says nothing.
NARROWEST = 8


def render_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    align: str = "",
    width: int | None = None,
) -> str:
    """Return lines of aligned columns under a ruled heading, ending with a newline.

    `align` has one character a column, `<` (the default) or `>`. Where the table is wider than
    `width`, its widest columns are cut; None leaves it as wide as it comes.
    """
    cells = [[printable(cell) for cell in row] for row in [headers, *rows]]
    sides = _sides(align, len(headers))
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        _narrow(widths, width)
    lines = [GAP.join(map(_cell, row, widths, sides)).rstrip() for row in cells]
    lines.insert(1, GAP.join("-" * size for size in widths))
    return "\n".join(lines) + "\n"


def render_markdown(headers: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Return a Markdown table, ending with a newline; cells may hold Markdown of one line."""
    sides = _sides(align, len(headers))
    rules = ["---:" if side == ">" else "---" for side in sides]
    lines = [[_markdown_cell(cell) for cell in row] for row in [headers, *rows]]
    lines.insert(1, rules)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def path_end(path: str, width: int) -> str:
    """The end of a path that is too long for its column: the file's name says more."""
    width = max(width, NARROWEST)
    return path if len(path) <= width else "..." + path[3 - width :]


def _sides(align: str, columns: int) -> str:
    if len(align) > columns or set(align) - set("<>"):
        raise ValueError(f"align must be at most {columns} of < and >, not {align!r}")
    return align.ljust(columns, "<")


def _narrow(widths: list[int], width: int) -> None:
    """Cut the widest column, one place at a time, until the table fits or none can give way."""
    room = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _cell(text: str, width: int, side: str) -> str:
    shown = crop(text, width)
    padding = " " * (width - display_width(shown))
    return padding + shown if side == ">" else shown + padding


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
