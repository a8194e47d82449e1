"""The picture of a serving comparison: every boot a point, by concurrency."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from sm120_ba.validate.serving.figures import METRICS, Group

COLOURS = {"A": "#0072B2", "B": "#D55E00"}  # told apart by colour-blind people, too
MARKERS = {"A": "o", "B": "x"}
UNITS = {
    "output tokens/s": ("output tokens/s", 1),
    "TTFT P50": ("ms", 1000),
    "TTFT P90": ("ms", 1000),
}


def svg(groups: Sequence[Group], title: str) -> str:
    """One panel a metric; the same text for the same groups, without a date."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    concurrencies = list(dict.fromkeys(group.concurrency for group in groups))
    with mpl.rc_context({"svg.hashsalt": "sm120_ba", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3), layout="constrained")
        figure.suptitle(title)
        for axes, metric in zip(figure.subplots(1, len(METRICS)), METRICS, strict=True):
            _panel(axes, metric, groups, concurrencies)
        figure.legend(*_legend(figure.axes[0]), loc="outside lower center", ncols=2)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # Its paths end their lines in blanks, which a repository may refuse.
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _panel(axes: Any, metric: str, groups: Sequence[Group], concurrencies: Sequence[int]) -> None:
    unit, scale = UNITS[metric]
    for arm, offset in (("A", -0.12), ("B", 0.12)):
        points = [
            (concurrencies.index(group.concurrency) + offset, scale * value)
            for group in groups
            if group.boot[0] == arm and (value := getattr(group, METRICS[metric][0])) is not None
        ]
        places, values = zip(*points, strict=True) if points else ((), ())
        axes.plot(places, values, MARKERS[arm], color=COLOURS[arm], label=f"each boot of {arm}")
    axes.set_title(metric)
    axes.set_xticks(range(len(concurrencies)), map(str, concurrencies))
    axes.set_xlabel("requests at once")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    return handles, labels
