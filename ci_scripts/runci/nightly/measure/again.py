"""Whether a night looks changed, so that it is measured again at once; pure.

This is no verdict: it decides only whether the doubt is worth as many minutes again.
"""

from __future__ import annotations

from runci.config.perf import Rule
from runci.nightly.decide.state import state, turns
from runci.nightly.decide.values import read_nights
from runci.nightly.figures import medians, night_value
from runci.nightly.history.lines import History, Series
from runci.nightly.record import Record

LEAST = 3  # nights that make a level; fewer are none


def level(series: Series, night: str, pin: str, rule: Rule) -> float | None:
    """The accepted level that `runci perf check` compares `night` with, by the baseline `pin`.

    None where there is none yet, and while a regression is open: more figures would not close it.
    """
    known = turns(series, night)
    usable = [one for one in read_nights(series.points, night).usable if one.pin == pin]
    here = state(usable, known, rule)
    if here is None or len(here.values) < LEAST or known.open is not None:
        return None
    return here.level


def left_level(record: Record, history: History, rule: Rule) -> tuple[str, ...]:
    """What left its level by `min_change` (relative) or more, each as a sentence."""
    found = []
    for one in record.measurements:
        series = history.series.get(record.series_id(one.metric))
        if series is None or bool(one.baseline) != bool(record.baseline_commit):
            continue  # figures without their baseline are compared with nothing
        known = level(series, record.night, record.baseline_commit, rule)
        figure = night_value(medians(one.candidate), medians(one.baseline))
        if known and figure is not None and abs(figure / known - 1) >= rule.min_change:
            found.append(f"{one.metric}: {figure / known - 1:+.1%} from its level")
    return tuple(found)
