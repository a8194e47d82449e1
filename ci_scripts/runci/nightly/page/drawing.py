"""Small figures of matplotlib as SVG that can stand in the page, coloured by its style sheet."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from runci.nightly.page import words

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
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,
    "font.size": 8,
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": COLOURS["text"],
}
_POINT = 1 / 72  # inches
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


@dataclass(frozen=True, slots=True)
class Margins:
    """Around the axes of a figure, in points."""

    left: float
    right: float
    bottom: float
    top: float

    def box(self, width: float, height: float) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of the axes, as shares of the figure."""
        return (
            self.left / width,
            self.bottom / height,
            1 - (self.left + self.right) / width,
            1 - (self.bottom + self.top) / height,
        )


@contextmanager
def open_axes(width: float, height: float, salt: str, margins: Margins) -> Iterator[Axes]:
    """The only axes of a figure; sizes in points. `salt` makes the ids in its SVG."""
    with rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # About letters that matplotlib's font lacks; a browser has others.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(width * _POINT, height * _POINT))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        axes = figure.add_axes(margins.box(width, height))
        axes.set_axis_off()  # ticks would take half of the time
        axes.set_autoscale_on(False)
        yield axes


def scale_left(axes: Axes, limits: tuple[float, float], count: int, label: str) -> None:
    """The scale on the left, and a line across for each of its numbers."""
    locator = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    ticks = [t for t in locator.tick_values(*limits) if limits[0] <= t <= limits[1]]
    axes.set_ylim(*limits)
    across = axes.get_yaxis_transform()
    draw_lines(
        axes, [(0.0, tick, 1.0, tick) for tick in ticks], COLOURS["grid"], 0.5, transform=across
    )
    for tick, text in zip(ticks, words.scale(ticks), strict=True):
        axes.text(
            -0.01, tick, text, color=COLOURS["faint"], ha="right", va="center", transform=across
        )
    axes.figure.text(0, 0.55, label, color=COLOURS["faint"], rotation=90, ha="left", va="center")


def label_below(axes: Axes, ticks: Sequence[tuple[float, str]]) -> None:
    """The labels below, and the line above them. Far cheaper than the ticks of an axis."""
    draw_lines(axes, [(0.0, 0.0, 1.0, 0.0)], COLOURS["faint"], 0.6, transform=axes.transAxes)
    below = axes.get_xaxis_transform()
    for x, text in ticks:
        axes.annotate(
            text, (x, 0), (0, -5), xycoords=below, textcoords="offset points",
            color=COLOURS["faint"], ha="center", va="top",
        )  # fmt: skip


def draw_lines(
    axes: Axes,
    lines: Sequence[tuple[float, float, float, float]],
    colour: str,
    width: float,
    **style: Any,
) -> None:
    """Lines from one point to another, as a single path: it is smaller and drawn faster."""
    if lines:
        x = [value for line in lines for value in (line[0], line[2], math.nan)]
        y = [value for line in lines for value in (line[1], line[3], math.nan)]
        axes.plot(x, y, color=colour, lw=width, solid_capstyle="butt", clip_on=False, **style)


def finished(axes: Axes) -> Drawing:
    """What was drawn; `inline` drops the date, so the same data give the same text."""
    text = io.StringIO()
    axes.figure.savefig(text, format="svg")
    return inline(text.getvalue())


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
