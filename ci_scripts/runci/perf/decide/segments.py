"""The levels of a series over time, for its plot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median

from runci.perf.decide.values import Value
from runci.perf.lines import Series
from runci.perf.verdict import Segment


def segments(series: Series, usable: Sequence[Value], night: str) -> tuple[Segment, ...]:
    """Usable nights between acceptances, changes on record, and other pinned baselines."""
    starts = {accept.night for accept in series.accepts if accept.night <= night}
    starts |= {event.since for event in series.events if event.night <= night}
    starts |= {b.night for a, b in itertools.pairwise(usable) if a.pin != b.pin}
    waiting = sorted(starts, reverse=True)
    groups: list[list[Value]] = []
    for value in usable:
        begins = not groups
        while waiting and waiting[-1] <= value.night:
            waiting.pop()
            begins = True
        if begins:
            groups.append([])
        groups[-1].append(value)
    return tuple(
        Segment(group[0].night, group[-1].night, len(group), median([v.value for v in group]))
        for group in groups
    )
