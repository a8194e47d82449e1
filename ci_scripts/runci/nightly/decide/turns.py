"""What is on record of a series, and how a verdict takes it up."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from runci.nightly.history.lines import Accept, Event, Series, Turn
from runci.nightly.verdict import Confirmed, Status, Verdict

FRESH_NIGHTS = 7  # a recovery or an improvement is news for a week
_NEWS = {Turn.RECOVERED: Status.RECOVERED, Turn.IMPROVEMENT: Status.IMPROVEMENT}
_BY = {by.value: by for by in Confirmed}
# A verdict, and what to write down.
Outcome = tuple[Verdict, tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class Turns:
    """The last acceptance, and the events that it has not settled, in their order."""

    accept: Accept | None
    events: tuple[Event, ...]

    @property
    def open(self) -> Event | None:
        """The regression that is open; where it got worse by another step, the last one."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last.turn is Turn.REGRESSION else None

    @property
    def accepted(self) -> bool:
        """The last turn is an acceptance."""
        return self.accept is not None and not self.events


@dataclass(frozen=True, slots=True)
class Change:
    """How far figures are from the level, above 0 is worse, with a 95 % interval."""

    change: float
    low: float
    high: float


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


def blank(series: Series, night: str, commit: str, turns: Turns) -> Verdict:
    """The verdict before anything is known: steady, without figures."""
    return Verdict(
        id=series.id,
        unit=series.unit,
        direction=series.direction,
        status=Status.STEADY,
        reason="",
        night=night,
        commit=commit,
        points=0,
        accepted=turns.accepted,
    )


def told(verdict: Verdict, status: Status, event: Event, reason: str) -> Verdict:
    """The verdict with what an event says."""
    return replace(
        verdict,
        status=status,
        reason=reason,
        since=event.since,
        since_commit=event.since_commit,
        last_good=event.last_good,
        confirmed_by=_BY.get(event.confirmed_by, Confirmed.NOT_YET),
    )


def with_change(verdict: Verdict, change: Change) -> Verdict:
    """The verdict with its figures."""
    return replace(verdict, change=change.change, low=change.low, high=change.high)


def event_of(verdict: Verdict, at: str, turn: Turn, change: Change, level: float) -> Event:
    """The event that a verdict's change is written down as."""
    return Event(
        night=verdict.night,
        at=at,
        turn=turn,
        since=verdict.since or verdict.night,
        since_commit=verdict.since_commit or verdict.commit,
        last_good=verdict.last_good or "",
        change=change.change,
        low=change.low,
        high=change.high,
        level=level,
        confirmed_by=verdict.confirmed_by.value,
    )


def news(turns: Turns, night: str) -> tuple[Status, Event] | None:
    """The status that a recent recovery or improvement still gives."""
    event = turns.events[-1] if turns.events else None
    if event is None or event.turn not in _NEWS:
        return None
    age = datetime.date.fromisoformat(night) - datetime.date.fromisoformat(event.night)
    return (_NEWS[event.turn], event) if age.days < FRESH_NIGHTS else None
