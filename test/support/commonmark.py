"""Markdown as its reader takes it, for tests of what is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markdown_it import MarkdownIt


def rendered(markdown: str) -> Any:
    return MarkdownIt("commonmark").enable("table").parse(markdown)


def leaves(tokens: Iterable[Any]) -> Iterable[Any]:
    for token in tokens:
        yield token
        yield from leaves(token.children or ())
