"""Verdicts and events, made in one way for measured and for exact series."""

from __future__ import annotations

import datetime
from dataclasses import replace

from runci.perf.decide.case import Change
from runci.perf.decide.state import Turns
from runci.perf.lines import Event, Series, Turn
from runci.perf.verdict import Confirmed, Status, Verdict

FRESH_NIGHTS = 7  # a recovery or an improvement is news for a week
_NEWS = {Turn.RECOVERED: Status.RECOVERED, Turn.IMPROVEMENT: Status.IMPROVEMENT}

_BY = {by.value: by for by in Confirmed}

# A verdict, and what to write down.
Outcome = tuple[Verdict, tuple[Event, ...]]


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


def news(turns: Turns, night: str) -> tuple[Status, Event] | None:
    """The status that a recent recovery or improvement still gives."""
    event = turns.last
    if event is None or event.turn not in _NEWS:
        return None
    age = datetime.date.fromisoformat(night) - datetime.date.fromisoformat(event.night)
    return (_NEWS[event.turn], event) if age.days < FRESH_NIGHTS else None


def event_of(
    verdict: Verdict, at: str, turn: Turn, change: Change, level: float, by: Confirmed
) -> Event:
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
        confirmed_by=by.value,
    )
