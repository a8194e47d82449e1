"""Draws with matplotlib: a series, its absolute values, and a night's pairs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from runci.nightly.page.curve import Curve, Mark
from runci.nightly.page.drawing import COLOURS as C
from runci.nightly.page.drawing import (
    Drawing,
    Margins,
    draw_lines,
    finished,
    label_below,
    open_axes,
    scale_left,
)
from runci.nightly.page.pairs import Pairs, Repetition

_MARKS = {"accepted": "accept", "regression": "bad"}


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


def _levels(axes: Axes, curve: Curve) -> None:
    left, right = axes.get_xlim()
    if curve.band:
        begin, low, high = curve.band
        axes.fill_between([max(begin, left), right], low, high, color=C["band"], lw=0)
    if curve.one is not None:
        axes.plot([left, right], [curve.one] * 2, color=C["baseline"], lw=1, ls=(0, (4, 3)))
    if curve.old:
        x = [group.x for group in curve.old]
        low_high = [g.low for g in curve.old], [g.high for g in curve.old]
        axes.fill_between(x, *low_high, color=C["old"], lw=0)
        axes.plot(x, [g.middle for g in curve.old], color=C["candidate"], lw=1)
        axes.axvline(-0.5, color=C["faint"], lw=0.6, ls=(0, (1, 2)))
    lines = [(max(v.first, left), v.y, max(v.last, left), v.y) for v in curve.levels]
    draw_lines(axes, lines, C["level"], 1.6)


def _nights(axes: Axes, curve: Curve) -> None:
    usable = [(d.x, d.y) for d in curve.dots if d.usable and d.y is not None]
    low, high = curve.y
    # A night that does not count may lie anywhere: the scale is that of the others.
    odd = [(d.x, min(max(d.y, low), high)) for d in curve.dots if not d.usable and d.y is not None]
    absent = [d.x for d in curve.dots if d.y is None]
    if usable:
        x, y = zip(*usable, strict=True)
        axes.plot(x, y, color=C["candidate"], lw=0.5, alpha=0.5)
        axes.plot(x, y, "o", color=C["candidate"], ms=3.4, mew=0)
    if odd:
        x, y = zip(*odd, strict=True)
        axes.plot(x, y, "o", mfc=C["paper"], mec=C["faint"], ms=4, mew=1, clip_on=False)
    if absent:
        axes.plot(absent, [low] * len(absent), "x", color=C["faint"], ms=4, clip_on=False)


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
        colour = C["text"] if newest else C["faint"]
        leaders += [(x, y, right, at), (right, at, right + width * 0.015, at)]
        axes.text(
            right + width * 0.02, at, commit, color=colour, size=7, va="center", clip_on=False
        )
    draw_lines(axes, leaders, C["faint"], 0.4)


def _strip(axes: Axes, curve: Curve) -> None:
    """Passed and failed nights of an exact metric, in one row."""
    middle = sum(curve.y) / 2
    for wanted, usable, style in (
        (True, True, {"marker": "s", "color": C["good"], "ms": 3.6, "mew": 0}),
        (None, True, {"marker": "o", "mfc": C["paper"], "mec": C["faint"], "ms": 4}),
        (False, True, {"marker": "X", "color": C["bad"], "ms": 8, "mew": 0}),
        (None, False, {"marker": "o", "mfc": C["paper"], "mec": C["faint"], "ms": 4}),
    ):
        chosen = [
            d.x for d in curve.dots if d.usable is usable and (not usable or d.passed is wanted)
        ]
        if chosen:
            axes.plot(chosen, [middle] * len(chosen), ls="none", **style)


def _marks(axes: Axes, marks: Sequence[Mark], top: float) -> None:
    for mark in marks:
        colour = C[_MARKS.get(mark.kind, "good")]
        axes.axvline(mark.x, color=colour, lw=1)
        axes.text(mark.x, top, mark.label, color=colour, size=7, ha="center", va="bottom")


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
    room = (high - low) * 0.1 or abs(high) * 0.02 or 1.0
    with open_axes(320, 150, salt, Margins(left=48, right=26, bottom=22, top=8)) as axes:
        axes.set_xlim(x[0] - 1, x[-1] + 1)
        scale_left(axes, (low - room, high + room), 3, curve.unit)
        dates = [tick for tick in curve.ticks if tick[0] >= 0]
        label_below(axes, dates[:: max(len(dates) - 1, 1)])
        for name, values in sides.items():
            axes.plot(x, values, color=C[name], lw=1, marker="o", ms=1.8, mew=0)
        return finished(axes)


def draw_pairs(pairs: Pairs, salt: str) -> Drawing:
    """Each repetition's samples: whisker, quartiles, median; candidate left, baseline right."""
    sides = (("candidate", pairs.candidate, -0.16), ("baseline", pairs.baseline, 0.16))
    everything = [r for _, side, _ in sides for r in side if r]
    low, high = min(r.low for r in everything), max(r.high for r in everything)
    room = (high - low) * 0.1 or abs(high) * 0.02 or 1.0
    count = max(len(pairs.candidate), len(pairs.baseline))
    with open_axes(320, 150, salt, Margins(left=48, right=12, bottom=22, top=14)) as axes:
        axes.set_xlim(0.4, count + 0.6)
        scale_left(axes, (low - room, high + room), 3, pairs.unit)
        step = max(1, round(count / 10))
        label_below(axes, [(number, str(number)) for number in range(1, count + 1, step)])
        for name, side, shift in sides:
            _repetitions(axes, side, shift if pairs.baseline else 0.0, C[name])
        if 0 < pairs.again < count:
            axes.axvline(pairs.again + 0.5, color=C["faint"], lw=0.8, ls=(0, (1, 2)))
            middle = (pairs.again + count + 1) / 2
            axes.text(middle, high + room, "re-run", color=C["faint"], ha="center", va="bottom")
        return finished(axes)


def _repetitions(axes: Axes, side: Sequence[Repetition | None], shift: float, colour: str) -> None:
    placed = [(index + shift, r) for index, r in enumerate(side, 1) if r]
    draw_lines(axes, [(x, r.low, x, r.high) for x, r in placed], colour, 0.8, alpha=0.5)
    draw_lines(axes, [(x, r.first, x, r.third) for x, r in placed], colour, 4.0, alpha=0.5)
    raw = [(x + 0.07, y) for x, r in placed for y in r.raw]
    if raw:
        xs, ys = zip(*raw, strict=True)
        axes.plot(xs, ys, "o", color=colour, ms=1.6, mew=0)
    middles = [r.middle for _, r in placed]
    axes.plot([x for x, _ in placed], middles, "o", mfc=colour, mec=C["paper"], ms=5, mew=0.8)
