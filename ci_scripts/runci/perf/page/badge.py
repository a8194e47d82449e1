"""A badge of two fields, as SVG: «nightly | 1 regression»."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from runci.perf.page.headline import Headline, Mood

LABEL = "nightly"
COLOURS: Mapping[Mood, str] = {
    Mood.BAD: "#c0392b",
    Mood.WARN: "#9a6700",
    Mood.GOOD: "#1a7f37",
}
_HEIGHT, _PADDING = 20, 6
_NARROW, _WIDE = frozenset("fijlrtI1.,:;'|! "), frozenset("mwMW@%")


def badge(night: str, headline: Headline) -> str:
    """A well-formed SVG file; its title says the same, and of which night."""
    left, right = _width(LABEL), _width(headline.badge)
    title = f"{LABEL}: {headline.badge} ({night})"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" \
role="img" aria-label={quoteattr(title)}>
<title>{escape(title)}</title>
<clipPath id="round"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>
<g clip-path="url(#round)">
<rect width="{left}" height="{_HEIGHT}" fill="#444d56"/>
<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{COLOURS[headline.mood]}"/>
</g>
<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
{_text(LABEL, 0, left)}
{_text(headline.badge, left, right)}
</g>
</svg>
"""


def _text(text: str, at: int, width: int) -> str:
    """Stretched to its field, whichever font the reader has."""
    room = f'x="{at + _PADDING}" y="14" textLength="{width - 2 * _PADDING}"'
    return f"<text {room}>{escape(text)}</text>"


def _width(text: str) -> int:
    """Of a field: about what 11 px Verdana takes, with a margin on both sides."""
    letters = sum(4.2 if c in _NARROW else 10.4 if c in _WIDE else 7.0 for c in text)
    return round(letters) + 2 * _PADDING
