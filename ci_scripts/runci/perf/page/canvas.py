"""Small figures of matplotlib with axes of their own, as SVG that can stand in the page.

Figures are made without pyplot, so nothing is kept between them. Text in them is never taken for
mathematics, since commits and units come from outside.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from runci.perf.page import words
from runci.perf.page.svg import COLOURS as C
from runci.perf.page.svg import Drawing, inline

_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,
    "font.size": 8,
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": C["text"],
}
_POINT = 1 / 72  # inches


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


def scale_left(axes: Axes, limits: tuple[float, float], count: int, label: str) -> None:
    """The scale on the left, and a line across for each of its numbers."""
    locator = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    ticks = [t for t in locator.tick_values(*limits) if limits[0] <= t <= limits[1]]
    axes.set_ylim(*limits)
    across = axes.get_yaxis_transform()
    draw_lines(axes, [(0.0, tick, 1.0, tick) for tick in ticks], C["grid"], 0.5, transform=across)
    for tick, text in zip(ticks, words.scale(ticks), strict=True):
        axes.text(-0.01, tick, text, color=C["faint"], ha="right", va="center", transform=across)
    axes.figure.text(0, 0.55, label, color=C["faint"], rotation=90, ha="left", va="center")


def label_below(axes: Axes, ticks: Sequence[tuple[float, str]]) -> None:
    """The labels below, and the line above them. Far cheaper than the ticks of an axis."""
    draw_lines(axes, [(0.0, 0.0, 1.0, 0.0)], C["faint"], 0.6, transform=axes.transAxes)
    below = axes.get_xaxis_transform()
    for x, text in ticks:
        axes.annotate(
            text, (x, 0), (0, -5), xycoords=below, textcoords="offset points",
            color=C["faint"], ha="center", va="top",
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


def finished(axes: Axes) -> Drawing:
    """What was drawn; `inline` drops the date, so the same data give the same text."""
    text = io.StringIO()
    axes.figure.savefig(text, format="svg")
    return inline(text.getvalue())
