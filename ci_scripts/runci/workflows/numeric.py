"""Numbers as GitHub reads them in expressions."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|Infinity)", re.ASCII)
_BASED = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+", re.ASCII)


def number(text: str) -> float:
    """A number as GitHub reads it: '' is 0, what is none is NaN. Also 0xff, 0o17 and 1e3."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _BASED.fullmatch(text):
        return float(min(int(text, 0), 2**1023))
    return float("nan") if text else 0.0
