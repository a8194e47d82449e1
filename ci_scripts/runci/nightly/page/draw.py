"""Draws what a metric has to show, as SVG that the page's style sheet colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from runci.nightly.page import words
from runci.nightly.page.curve import Curve, Mark, Pairs, Repetition, room_around

_MARK_COLOURS = {"accepted": "accept", "regression": "bad"}
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # of a scale, times a power of ten
_SHIFTS = {"top": 0.8, "middle": 0.35, "bottom": -0.25}  # of a text's line, in its size
Points = Iterable[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What goes inside an <svg>, and its viewBox."""

    view_box: str
    body: str


@dataclass(frozen=True, slots=True)
class Margins:
    """Around the axes of a figure."""

    left: float
    right: float
    bottom: float
    top: float


@dataclass
class Axes:
    """Axes in a figure of `width` by `height` units of the SVG; `x` and `y` are their limits.

    Colours are names of the style sheet's variables.
    """

    width: float
    height: float
    margins: Margins
    x: tuple[float, float]
    y: tuple[float, float]
    parts: list[str] = field(default_factory=list)

    @property
    def frame(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top."""
        around = self.margins
        return around.left, self.width - around.right, self.height - around.bottom, around.top

    def across(self, x: float) -> float:
        """Where data lies from the left."""
        left, right, _, _ = self.frame
        return left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (right - left)

    def down(self, y: float) -> float:
        """Where data lies from the top."""
        _, _, bottom, top = self.frame
        return bottom - (y - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top)

    def path(self, points: Points) -> str:
        """A line through data."""
        return _path((self.across(x), self.down(y)) for x, y in points)

    def line(
        self, data: str, colour: str, width: float, *, dash: str = "", alpha: float = 1
    ) -> None:
        """What `path` gave; several of them at once are smaller."""
        if data:
            more = f"; stroke-dasharray: {dash}" if dash else ""
            more += f"; opacity: {alpha}" if alpha < 1 else ""
            style = f"fill: none; stroke: var(--{colour}); stroke-width: {width}{more}"
            self.parts.append(f'<path d="{data}" style="{style}"/>')

    def area(self, points: Points, colour: str) -> None:
        """What lies within a line, as far as it is within the axes."""
        (left, right), (low, high) = self.x, self.y
        inside = ((min(max(x, left), right), min(max(y, low), high)) for x, y in points)
        self.parts.append(f'<path d="{self.path(inside)}Z" style="fill: var(--{colour})"/>')

    def dots(self, points: Points, colour: str, radius: float, *, ring: str = "") -> None:
        """Circles in one style; `ring` is the colour of their edge."""
        edge = f"; stroke: var(--{ring}); stroke-width: 1" if ring else ""
        circles = "".join(
            f'<circle cx="{_number(self.across(x))}" cy="{_number(self.down(y))}" r="{radius}"/>'
            for x, y in points
        )
        if circles:
            self.parts.append(f'<g style="fill: var(--{colour}){edge}">{circles}</g>')

    def crosses(self, points: Points, colour: str, size: float, width: float) -> None:
        """Crosses, `size` from their middle to the side."""
        found = []
        for x, y in points:
            at, off = self.across(x), self.down(y)
            found.append(_path([(at - size, off - size), (at + size, off + size)]))
            found.append(_path([(at - size, off + size), (at + size, off - size)]))
        self.line("".join(found), colour, width)

    def text(
        self,
        at: tuple[float, float],
        text: str,
        colour: str,
        *,
        anchor: str = "middle",
        level: str = "middle",
        size: float = 8,
        turned: bool = False,
    ) -> None:
        """A text at a place in the figure, `turned` upwards."""
        x, y = at
        place = f'x="{_number(x)}" y="{_number(y + _SHIFTS[level] * size)}"'
        if turned:
            place += f' transform="rotate(-90 {_number(x)} {_number(y)})"'
        style = f"fill: var(--{colour}); font-size: {size}px; text-anchor: {anchor}"
        self.parts.append(f'<text {place} style="{style}">{escape(text)}</text>')

    def finished(self) -> Drawing:
        """What was drawn; the same data give the same text."""
        return Drawing(f"0 0 {self.width:g} {self.height:g}", "".join(self.parts))


def _path(points: Points) -> str:
    """After M further points need no letter."""
    return "".join(
        f"{' ' if i else 'M'}{_number(x)} {_number(y)}" for i, (x, y) in enumerate(points)
    )


def _number(value: float) -> str:
    """One decimal of a unit is finer than a screen."""
    return f"{value:.1f}".removesuffix(".0")


def draw_curve(curve: Curve) -> Drawing:
    """The series: levels, band, baseline, nights, marks."""
    height = 52.0 if curve.exact else 210.0
    left, right = curve.x
    room = (right - left) * 0.012
    limits = (left - room, right + room)
    axes = Axes(640, height, Margins(left=44, right=78, bottom=22, top=16), limits, curve.y)
    label_below(axes, curve.ticks)
    if curve.exact:
        _strip(axes, curve)
    else:
        scale_left(axes, 4, curve.label)
        _levels(axes, curve)
        _nights(axes, curve)
        _names(axes, curve)
    _marks(axes, curve.marks)
    return axes.finished()


def draw_times(curve: Curve) -> Drawing | None:
    """The medians of candidate and baseline, night by night; None where there is no baseline."""
    dots = [d for d in curve.dots if d.usable]
    nights = [d for d in dots if d.candidate is not None and d.baseline is not None]
    if curve.exact or not nights:
        return None
    sides = {
        "baseline": [(d.x, d.baseline) for d in nights if d.baseline is not None],
        "candidate": [(d.x, d.candidate) for d in nights if d.candidate is not None],
    }
    figures = [value for points in sides.values() for _, value in points]
    low, high = min(figures), max(figures)
    room = room_around(low, high, 0.1)
    margins = Margins(left=48, right=26, bottom=22, top=8)
    limits = (nights[0].x - 1, nights[-1].x + 1)
    axes = Axes(320, 150, margins, limits, (low - room, high + room))
    scale_left(axes, 3, curve.unit)
    dates = [tick for tick in curve.ticks if tick[0] >= 0]
    label_below(axes, dates[:: max(len(dates) - 1, 1)])
    for name, points in sides.items():
        axes.line(axes.path(points), name, 1)
        axes.dots(points, name, 0.9)
    return axes.finished()


def draw_pairs(pairs: Pairs) -> Drawing:
    """Each repetition's samples: whisker, quartiles, median; candidate left, baseline right."""
    sides = (("candidate", pairs.candidate, -0.16), ("baseline", pairs.baseline, 0.16))
    everything = [r for _, side, _ in sides for r in side if r]
    low, high = min(r.low for r in everything), max(r.high for r in everything)
    room = room_around(low, high, 0.1)
    count = max(len(pairs.candidate), len(pairs.baseline))
    margins = Margins(left=48, right=12, bottom=22, top=14)
    axes = Axes(320, 150, margins, (0.4, count + 0.6), (low - room, high + room))
    scale_left(axes, 3, pairs.unit)
    step = max(1, round(count / 10))
    label_below(axes, [(number, str(number)) for number in range(1, count + 1, step)])
    for name, side, shift in sides:
        _repetitions(axes, side, shift if pairs.baseline else 0.0, name)
    if 0 < pairs.again < count:
        _upright(axes, pairs.again + 0.5, "faint", 0.8, "0.8 1.6")
        at = axes.across((pairs.again + count + 1) / 2)
        axes.text((at, axes.margins.top), "re-run", "faint", level="bottom")
    return axes.finished()


def _levels(axes: Axes, curve: Curve) -> None:
    left, right = axes.x
    if curve.band:
        begin, low, high = curve.band
        axes.area([(begin, low), (right, low), (right, high), (begin, high)], "band")
    if curve.one is not None:
        axes.line(axes.path([(left, curve.one), (right, curve.one)]), "baseline", 1, dash="4 3")
    if curve.old:
        above = [(group.x, group.high) for group in reversed(curve.old)]
        axes.area([*((group.x, group.low) for group in curve.old), *above], "old")
        axes.line(axes.path((group.x, group.middle) for group in curve.old), "candidate", 1)
        _upright(axes, -0.5, "faint", 0.6, "0.6 1.2")
    lines = (axes.path([(max(v.first, left), v.y), (max(v.last, left), v.y)]) for v in curve.levels)
    axes.line("".join(lines), "level", 1.6)


def _nights(axes: Axes, curve: Curve) -> None:
    low, high = axes.y
    usable = [(d.x, d.y) for d in curve.dots if d.usable and d.y is not None]
    # A night that does not count may lie anywhere: the scale is that of the others.
    odd = [(d.x, min(max(d.y, low), high)) for d in curve.dots if not d.usable and d.y is not None]
    absent = [(d.x, low) for d in curve.dots if d.y is None]
    axes.line(axes.path(usable), "candidate", 0.5, alpha=0.5)
    axes.dots(usable, "candidate", 1.7)
    axes.dots(odd, "paper", 2, ring="faint")
    axes.crosses(absent, "faint", 2, 1)


def _names(axes: Axes, curve: Curve) -> None:
    """The commits of the newest nights, in the margin, each with a line to its night."""
    dots = {dot.x: dot.y for dot in curve.dots if dot.y is not None}
    named = [(x, dots[x], commit) for x, commit in curve.named if x in dots]
    _, right, bottom, top = axes.frame
    step = (bottom - top) / 9
    # One beside the other, as near to their nights as the height of the letters lets them.
    ordered = sorted(((axes.down(y), x, commit) for x, y, commit in named), reverse=True)
    places: list[float] = []
    for y, _, _ in ordered:
        places.append(min(y, places[-1] - step) if places else y)
    over = max(top + step / 2 - places[-1], 0) if places else 0
    leaders = []
    for (y, x, commit), place in zip(ordered, places, strict=True):
        at = min(place + over, bottom)
        leaders.append(_path([(axes.across(x), y), (right, at), (right + 8, at)]))
        colour = "text" if x == named[-1][0] else "faint"
        axes.text((right + 10, at), commit, colour, anchor="start", size=7)
    axes.line("".join(leaders), "faint", 0.4)


def _strip(axes: Axes, curve: Curve) -> None:
    """Passed and failed nights of an exact metric, in one row."""
    middle = sum(axes.y) / 2
    usable = [d for d in curve.dots if d.usable]
    unknown = [d for d in curve.dots if not d.usable or d.passed is None]
    axes.dots([(d.x, middle) for d in usable if d.passed], "good", 1.8)
    axes.dots([(d.x, middle) for d in unknown], "paper", 2, ring="faint")
    axes.crosses([(d.x, middle) for d in usable if d.passed is False], "bad", 3.2, 2.4)


def _marks(axes: Axes, marks: Sequence[Mark]) -> None:
    for mark in marks:
        colour = _MARK_COLOURS.get(mark.kind, "good")
        _upright(axes, mark.x, colour, 1)
        axes.text(
            (axes.across(mark.x), axes.margins.top), mark.label, colour, level="bottom", size=7
        )


def _repetitions(axes: Axes, side: Sequence[Repetition | None], shift: float, colour: str) -> None:
    placed = [(index + shift, r) for index, r in enumerate(side, 1) if r]
    whiskers = (axes.path([(x, r.low), (x, r.high)]) for x, r in placed)
    axes.line("".join(whiskers), colour, 0.8, alpha=0.5)
    boxes = (axes.path([(x, r.first), (x, r.third)]) for x, r in placed)
    axes.line("".join(boxes), colour, 4, alpha=0.5)
    axes.dots([(x + 0.07, y) for x, r in placed for y in r.raw], colour, 0.8)
    axes.dots([(x, r.middle) for x, r in placed], colour, 2.5, ring="paper")


def _upright(axes: Axes, x: float, colour: str, width: float, dash: str = "") -> None:
    _, _, bottom, top = axes.frame
    axes.line(_path([(axes.across(x), bottom), (axes.across(x), top)]), colour, width, dash=dash)


def scale_left(axes: Axes, count: int, label: str) -> None:
    """The scale on the left, and a line across for each of its numbers."""
    left, right, bottom, top = axes.frame
    ticks = round_numbers(*axes.y, count)
    across = (_path([(left, axes.down(tick)), (right, axes.down(tick))]) for tick in ticks)
    axes.line("".join(across), "grid", 0.5)
    for tick, text in zip(ticks, words.scale(ticks), strict=True):
        axes.text((left - 5, axes.down(tick)), text, "faint", anchor="end")
    axes.text((6, (bottom + top) / 2), label, "faint", turned=True)


def round_numbers(low: float, high: float, count: int) -> list[float]:
    """The round numbers from `low` to `high` that divide it into about `count` parts at most."""
    least = (high - low) / count
    power = 10.0 ** math.floor(math.log10(least))
    step = next(each * power for each in _STEPS if each * power >= least * (1 - 1e-9))
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def label_below(axes: Axes, ticks: Sequence[tuple[float, str]]) -> None:
    """The labels below, and the line above them."""
    left, right, bottom, _ = axes.frame
    axes.line(_path([(left, bottom), (right, bottom)]), "faint", 0.6)
    for x, text in ticks:
        axes.text((axes.across(x), bottom + 5), text, "faint", level="top")
