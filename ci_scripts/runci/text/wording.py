"""Words that many messages share: numbers with nouns, lists cut short, the nearest name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence


def nearest(word: str, known: Iterable[str]) -> str:
    """«; did you mean 'x'?», or nothing."""
    near = nearest_name(word, tuple(known))
    return f"; did you mean {near!r}?" if near is not None else ""


@functools.cache  # one wrong name often stands in many files, and comparing is slow
def nearest_name(word: str, known: tuple[str, ...]) -> str | None:
    """The one of the known names that is most like this, if any is."""
    import difflib

    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None


def plural(number: int, noun: str) -> str:
    """Return «1 file» or «1,547 files» for the noun «files»."""
    return f"{number:,} {noun.removesuffix('s') if number == 1 else noun}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few of these, and how many more there are: «A, B, C and 4 more»."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
