"""What is accepted and what is open: acceptances and events, folded up to a night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide.values import Value
from runci.nightly.history.lines import Accept, Event, Series, Turn


@dataclass(frozen=True, slots=True)
class Turns:
    """The last acceptance, and the events that it has not settled, in their order."""

    accept: Accept | None
    events: tuple[Event, ...]

    @property
    def last(self) -> Event | None:
        """The last event that still says something."""
        return self.events[-1] if self.events else None

    @property
    def open(self) -> Event | None:
        """The regression that is open."""
        last = self.last
        return last if last is not None and last.turn is Turn.REGRESSION else None

    @property
    def accepted(self) -> bool:
        """The last turn is an acceptance."""
        return self.accept is not None and not self.events


@dataclass(frozen=True, slots=True)
class State:
    """The current segment: comparable nights since the last acceptance, and their level.

    `old` are the figures whose median the level is. `repinned`: the open regression began against
    another baseline, so that nothing here can be compared with its level.
    """

    turns: Turns
    values: tuple[Value, ...]
    level: float
    old: tuple[float, ...]
    repinned: bool = False


def turns(series: Series, night: str) -> Turns:
    """The turns of a series up to a night.

    An acceptance settles what began before the level that it takes as normal, or with it. Only
    nights are compared: a clock may have been wrong.
    """
    accepts = [accept for accept in series.accepts if accept.night <= night]
    last = max(accepts, key=lambda accept: accept.night, default=None)
    events = [
        event
        for event in series.events
        if event.night <= night and (last is None or event.since > last.night)
    ]
    return Turns(last, tuple(sorted(events, key=lambda event: event.night)))


def state(usable: Sequence[Value], turns: Turns, rule: Rule) -> State | None:
    """The segment that the last usable night is in; None where there is none.

    Ratios to different baselines are not comparable, so another pinned commit starts a segment. An
    improvement moves the level: losing it is a regression.
    """
    start = turns.accept.night if turns.accept else ""
    pin = usable[-1].pin if usable else ""
    values = tuple(v for v in usable if v.night >= start and v.pin == pin)
    if not values:
        return None
    first = values[0].night
    old = tuple(v.value for v in values[: rule.min_points])
    for event in turns.events:
        if event.turn is Turn.IMPROVEMENT and event.since >= first:
            old = (event.level,)
    return State(
        turns, values, median(old), old, turns.open is not None and turns.open.since < first
    )
