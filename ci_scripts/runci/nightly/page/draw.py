"""Draws with matplotlib what a metric has to show, as SVG that the page's style sheet colours."""

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
from runci.nightly.page.curve import Curve, Mark, Pairs, Repetition, room_around

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
_MARK_COLOURS = {"accepted": "accept", "regression": "bad"}


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


def draw_curve(curve: Curve, salt: str) -> Drawing:
    """The series: levels, band, baseline, nights, marks. `salt` is unlike any other figure's."""
    height = 52.0 if curve.exact else 210.0
    with open_axes(640, height, salt, Margins(left=44, right=78, bottom=22, top=16)) as axes:
        left, right = curve.x
        room = (right - left) * 0.012
        axes.set_xlim(left - room, right + room)
        axes.set_ylim(*curve.y)
        label_below(axes, curve.ticks)
        if curve.exact:
            _strip(axes, curve)
        else:
            scale_left(axes, curve.y, 4, curve.label)
            _levels(axes, curve)
            _nights(axes, curve)
            _names(axes, curve)
        _marks(axes, curve.marks, curve.y[1])
        return finished(axes)


def draw_times(curve: Curve, salt: str) -> Drawing | None:
    """The medians of candidate and baseline, night by night; None where there is no baseline."""
    dots = [d for d in curve.dots if d.usable]
    nights = [d for d in dots if d.candidate is not None and d.baseline is not None]
    if curve.exact or not nights:
        return None
    x = [d.x for d in nights]
    sides = {
        "baseline": [d.baseline for d in nights if d.baseline is not None],
        "candidate": [d.candidate for d in nights if d.candidate is not None],
    }
    figures = [*sides["baseline"], *sides["candidate"]]
    low, high = min(figures), max(figures)
    room = room_around(low, high, 0.1)
    with open_axes(320, 150, salt, Margins(left=48, right=26, bottom=22, top=8)) as axes:
        axes.set_xlim(x[0] - 1, x[-1] + 1)
        scale_left(axes, (low - room, high + room), 3, curve.unit)
        dates = [tick for tick in curve.ticks if tick[0] >= 0]
        label_below(axes, dates[:: max(len(dates) - 1, 1)])
        for name, values in sides.items():
            axes.plot(x, values, color=COLOURS[name], lw=1, marker="o", ms=1.8, mew=0)
        return finished(axes)


def draw_pairs(pairs: Pairs, salt: str) -> Drawing:
    """Each repetition's samples: whisker, quartiles, median; candidate left, baseline right."""
    sides = (("candidate", pairs.candidate, -0.16), ("baseline", pairs.baseline, 0.16))
    everything = [r for _, side, _ in sides for r in side if r]
    low, high = min(r.low for r in everything), max(r.high for r in everything)
    room = room_around(low, high, 0.1)
    count = max(len(pairs.candidate), len(pairs.baseline))
    with open_axes(320, 150, salt, Margins(left=48, right=12, bottom=22, top=14)) as axes:
        axes.set_xlim(0.4, count + 0.6)
        scale_left(axes, (low - room, high + room), 3, pairs.unit)
        step = max(1, round(count / 10))
        label_below(axes, [(number, str(number)) for number in range(1, count + 1, step)])
        for name, side, shift in sides:
            _repetitions(axes, side, shift if pairs.baseline else 0.0, COLOURS[name])
        if 0 < pairs.again < count:
            axes.axvline(pairs.again + 0.5, color=COLOURS["faint"], lw=0.8, ls=(0, (1, 2)))
            middle = (pairs.again + count + 1) / 2
            axes.text(
                middle, high + room, "re-run", color=COLOURS["faint"], ha="center", va="bottom"
            )
        return finished(axes)


def _levels(axes: Axes, curve: Curve) -> None:
    left, right = axes.get_xlim()
    if curve.band:
        begin, low, high = curve.band
        axes.fill_between([max(begin, left), right], low, high, color=COLOURS["band"], lw=0)
    if curve.one is not None:
        axes.plot([left, right], [curve.one] * 2, color=COLOURS["baseline"], lw=1, ls=(0, (4, 3)))
    if curve.old:
        x = [group.x for group in curve.old]
        low_high = [g.low for g in curve.old], [g.high for g in curve.old]
        axes.fill_between(x, *low_high, color=COLOURS["old"], lw=0)
        axes.plot(x, [g.middle for g in curve.old], color=COLOURS["candidate"], lw=1)
        axes.axvline(-0.5, color=COLOURS["faint"], lw=0.6, ls=(0, (1, 2)))
    lines = [(max(v.first, left), v.y, max(v.last, left), v.y) for v in curve.levels]
    draw_lines(axes, lines, COLOURS["level"], 1.6)


def _nights(axes: Axes, curve: Curve) -> None:
    usable = [(d.x, d.y) for d in curve.dots if d.usable and d.y is not None]
    low, high = curve.y
    # A night that does not count may lie anywhere: the scale is that of the others.
    odd = [(d.x, min(max(d.y, low), high)) for d in curve.dots if not d.usable and d.y is not None]
    absent = [d.x for d in curve.dots if d.y is None]
    if usable:
        x, y = zip(*usable, strict=True)
        axes.plot(x, y, color=COLOURS["candidate"], lw=0.5, alpha=0.5)
        axes.plot(x, y, "o", color=COLOURS["candidate"], ms=3.4, mew=0)
    if odd:
        x, y = zip(*odd, strict=True)
        axes.plot(x, y, "o", mfc=COLOURS["paper"], mec=COLOURS["faint"], ms=4, mew=1, clip_on=False)
    if absent:
        axes.plot(absent, [low] * len(absent), "x", color=COLOURS["faint"], ms=4, clip_on=False)


def _names(axes: Axes, curve: Curve) -> None:
    """The commits of the newest nights, in the margin, each with a line to its night."""
    dots = {dot.x: dot.y for dot in curve.dots if dot.y is not None}
    named = [(x, dots[x], commit) for x, commit in curve.named if x in dots]
    low, high = curve.y
    right = axes.get_xlim()[1]
    width = right - axes.get_xlim()[0]
    step = (high - low) / 9
    # One beside the other, as near to their nights as the height of the letters lets them.
    ordered = sorted(named, key=lambda entry: entry[1])
    places: list[float] = []
    for _, y, _ in ordered:
        places.append(max(y, places[-1] + step) if places else y)
    over = max(places[-1] - (high - step / 2), 0) if places else 0
    leaders: list[tuple[float, float, float, float]] = []
    for (x, y, commit), place in zip(ordered, places, strict=True):
        newest = x == named[-1][0]
        at = max(place - over, low)
        colour = COLOURS["text"] if newest else COLOURS["faint"]
        leaders += [(x, y, right, at), (right, at, right + width * 0.015, at)]
        axes.text(
            right + width * 0.02, at, commit, color=colour, size=7, va="center", clip_on=False
        )
    draw_lines(axes, leaders, COLOURS["faint"], 0.4)


def _strip(axes: Axes, curve: Curve) -> None:
    """Passed and failed nights of an exact metric, in one row."""
    middle = sum(curve.y) / 2
    for wanted, usable, style in (
        (True, True, {"marker": "s", "color": COLOURS["good"], "ms": 3.6, "mew": 0}),
        (None, True, {"marker": "o", "mfc": COLOURS["paper"], "mec": COLOURS["faint"], "ms": 4}),
        (False, True, {"marker": "X", "color": COLOURS["bad"], "ms": 8, "mew": 0}),
        (None, False, {"marker": "o", "mfc": COLOURS["paper"], "mec": COLOURS["faint"], "ms": 4}),
    ):
        chosen = [
            d.x for d in curve.dots if d.usable is usable and (not usable or d.passed is wanted)
        ]
        if chosen:
            axes.plot(chosen, [middle] * len(chosen), ls="none", **style)


def _marks(axes: Axes, marks: Sequence[Mark], top: float) -> None:
    for mark in marks:
        colour = COLOURS[_MARK_COLOURS.get(mark.kind, "good")]
        axes.axvline(mark.x, color=colour, lw=1)
        axes.text(mark.x, top, mark.label, color=colour, size=7, ha="center", va="bottom")


def _repetitions(axes: Axes, side: Sequence[Repetition | None], shift: float, colour: str) -> None:
    placed = [(index + shift, r) for index, r in enumerate(side, 1) if r]
    draw_lines(axes, [(x, r.low, x, r.high) for x, r in placed], colour, 0.8, alpha=0.5)
    draw_lines(axes, [(x, r.first, x, r.third) for x, r in placed], colour, 4.0, alpha=0.5)
    raw = [(x + 0.07, y) for x, r in placed for y in r.raw]
    if raw:
        xs, ys = zip(*raw, strict=True)
        axes.plot(xs, ys, "o", color=colour, ms=1.6, mew=0)
    middles = [r.middle for _, r in placed]
    axes.plot([x for x, _ in placed], middles, "o", mfc=colour, mec=COLOURS["paper"], ms=5, mew=0.8)


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
