"""Makes of matplotlib's SVG what can stand inline: small, and coloured by the style sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# What matplotlib is told to draw with, and the variable of the style sheet that it stands for.
COLOURS: Mapping[str, str] = {
    "text": "#0a0b01",
    "faint": "#0a0b02",
    "grid": "#0a0b03",
    "paper": "#0a0b04",
    "candidate": "#0a0b05",
    "baseline": "#0a0b06",
    "level": "#0a0b07",
    "band": "#0a0b08",
    "old": "#0a0b09",
    "bad": "#0a0b0a",
    "good": "#0a0b0b",
    "accept": "#0a0b0c",
}
_VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
_COLOUR = re.compile("|".join(_VARIABLES))
_HEAD = re.compile(r"^.*?<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_GROUP_ID = re.compile(r"(<(?:g|text)) id=\"[^\"]*\"")
_FONT = re.compile(r"font: ([\d.]+px) [^;\"]*|font-family: [^;\"]*; ")
_NO_TURN = re.compile(r" transform=\"rotate\(-?0 [^\"]*\"")
# A run of the same mark in the same style: the style is said once, around them.
_MARK = r"<use href=\"(#\w+)\" x=\"[^\"]*\" y=\"[^\"]*\" style=\"([^\"]*)\"/>"
_MARKS = re.compile(rf"{_MARK}(?:<use href=\"\1\" x=\"[^\"]*\" y=\"[^\"]*\" style=\"\2\"/>){{2,}}")
_DATA = re.compile(r"\b(d|x|y|points|transform|width|height)=\"([^\"]*)\"")
_NUMBER = re.compile(r"-?\d+\.\d+")
_SPACE = re.compile(r"\s+")
_EMPTY = re.compile(r"<defs>\s*</defs>|<g>\s*</g>| style=\"\"")


@dataclass(frozen=True, slots=True)
class Drawing:
    """What goes inside an <svg>, and its viewBox."""

    view_box: str
    body: str


def inline(text: str) -> Drawing:
    """Take matplotlib's whole file; numbers keep one decimal of a point.

    Ids that are referred to stay: matplotlib makes them from `svg.hashsalt`, which has to differ
    between the figures of a page.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("this SVG has no viewBox")
    body = text[head.end() : text.rindex("</svg>")]
    body = _METADATA.sub("", body)
    body = _GROUP_ID.sub(r"\1", body)
    body = _FONT.sub(lambda match: f"font-size: {match[1]}" if match[1] else "", body)
    body = _DATA.sub(_rounded, body)
    body = body.replace("xlink:href", "href")
    body = _COLOUR.sub(lambda match: _VARIABLES[match[0]], body)
    body = _NO_TURN.sub("", re.sub(r">\s+<", "><", body))
    body = _MARKS.sub(_run, body)
    for _ in range(2):  # groups of empty groups
        body = _EMPTY.sub("", body)
    return Drawing(head[1], body.strip())


def _run(match: re.Match[str]) -> str:
    marks = match[0].replace(f' style="{match[2]}"', "")
    return f'<g style="{match[2]}">{marks}</g>'


def _rounded(match: re.Match[str]) -> str:
    data = _NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), match[2])
    data = _SPACE.sub(" ", data).strip()
    if match[1] == "d" and "C" not in data and "Q" not in data:
        data = data.replace(" L ", " ")  # after M and L, further points need no letter
    return f'{match[1]}="{data}"'
