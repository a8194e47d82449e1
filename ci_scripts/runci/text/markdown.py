"""Text of others in Markdown: shown as it is, on one line, notifying nobody."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from runci.text.terminal import printable

_LONGEST = 1000
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~@:])")
_WWW = re.compile(r"(www)(?=\.)", re.IGNORECASE)  # becomes a link without any mark
_NUMBER = re.compile(r"(gh-)(?=[0-9])", re.IGNORECASE)  # GH-1 is #1
_TICKS = re.compile(r"`+")


def one_line(text: str, longest: int = _LONGEST) -> str:
    """The text without anything that ends a line or drives a terminal, and not endless."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def escaped(text: str, longest: int = _LONGEST) -> str:
    """The text so that Markdown and HTML show it as it is; `@name` and `#1` reach nobody."""
    line = html.escape(one_line(text, longest), quote=False)
    # GitHub looks for names and numbers after Markdown took the backslashes away.
    plain = _MARKDOWN.sub(r"\\\1", line).replace("\\@", "@\u200b").replace("\\#", "#\u200b")
    return _WWW.sub("\\1\u200b", _NUMBER.sub("\\1\u200b", plain))


def code(text: str, longest: int = _LONGEST) -> str:
    """A code span of the text: nothing in it is a link, a mention or the span's end.

    In a table `|` must be escaped too, as `render_markdown` does. No span can hold a backslash
    before a `|` there: such a text is written with entities.
    """
    line = one_line(text, longest) or " "
    if "\\|" in line:
        plain = "".join(c if c.isalnum() else f"&#{ord(c)};" for c in line)
        return f"<code>{plain}</code>"
    fence = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    padded = f" {line} " if "`" in (line[0], line[-1]) else line
    return f"{fence}{padded}{fence}"


def block(lines: Iterable[str], language: str = "") -> str:
    """A block of code, without its last newline; each of `lines` becomes one line of it."""
    kept = [one_line(line) for line in lines]
    longest = max((len(run) for line in kept for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *kept, fence])
