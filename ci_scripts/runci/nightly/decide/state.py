"""A series up to a night: what is accepted, what is open, and its last night against the level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide.values import ChangePoints, Interval, Value
from runci.nightly.history.lines import Accept, Event, Series, Turn
from runci.nightly.record import Direction, worse_by

POOLED = 10  # newest nights whose pairs the interval of a change is made of


@dataclass(frozen=True, slots=True)
class Tools:
    """The two calculations that need libraries."""

    change_points: ChangePoints
    interval: Interval


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


@dataclass(frozen=True, slots=True)
class Change:
    """How far figures are from the level, above 0 is worse, with a 95 % interval."""

    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Case:
    """A night that has figures: the last one of `state`'s."""

    state: State
    direction: Direction
    rule: Rule
    tools: Tools

    @property
    def tonight(self) -> Value:
        """The night to decide about."""
        return self.state.values[-1]

    def off(self, values: Sequence[Value], *, worse: bool = True) -> list[float]:
        """How far each night is from the level, above 0 on the side asked for."""
        sign = 1.0 if worse else -1.0
        return [sign * worse_by(v.value / self.state.level, self.direction) for v in values]

    def compared(self, figures: Sequence[float]) -> Change:
        """Figures against the level."""
        low, high = self.tools.interval(figures, self.state.old)
        ends = sorted((worse_by(low, self.direction), worse_by(high, self.direction)))
        return Change(worse_by(median(figures) / self.state.level, self.direction), *ends)

    def of_nights(self, nights: Sequence[Value]) -> Change:
        """The pairs of the newest of these nights against the level."""
        return self.compared([pair for night in nights[-POOLED:] for pair in night.pairs])

    @property
    def settled(self) -> str:
        """The night at which the last change on record began: what was before it is settled."""
        return self.state.turns.last.since if self.state.turns.last else ""


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
