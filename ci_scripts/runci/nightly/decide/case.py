"""What a decision about one night looks at: its segment, the rule, and the calculations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide.state import State
from runci.nightly.decide.values import ChangePoints, Interval, Value
from runci.nightly.record import Direction, worse_by

POOLED = 10  # newest nights whose pairs the interval of a change is made of


@dataclass(frozen=True, slots=True)
class Tools:
    """The two calculations that need libraries."""

    change_points: ChangePoints
    interval: Interval


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
