"""What is on record of a series, how a verdict takes it up, what an acceptance settles; pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from runci.config.perf import check_night
from runci.core.errors import RunciError
from runci.nightly.history.lines import LAST, Accept, Event, History, Series, Turn
from runci.nightly.verdict import Confirmed, Status, Verdict
from runci.text.wording import nearest_name

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


@dataclass(frozen=True, slots=True)
class Chosen:
    """The night from which on the level is normal, and what that settles, for a person."""

    night: str
    settles: str


def find_series(history: History, metric: str, machine: str | None) -> tuple[Series, ...]:
    """The series of a metric, on `machine` or on every one. Raises RunciError where none is."""
    found = {s.id: s for s in history.series.values() if s.id.metric == metric}
    if not found:
        names = tuple(sorted({series_id.metric for series_id in history.series}))
        near = nearest_name(metric, names)
        known = f"did you mean {near!r}?" if near else "`runci perf history` lists the metrics"
        raise RunciError(f"no metric {metric!r} in the history: {known}")
    if machine is not None:
        keys = ", ".join(repr(series_id.machine_key) for series_id in found)
        found = {key: series for key, series in found.items() if key.machine_key == machine}
        if not found:
            raise RunciError(f"{metric!r} was never measured on {machine!r}: it has {keys}")
    return tuple(found.values())


def choose_series(history: History, series: Sequence[Series]) -> tuple[Series, ...]:
    """Which of a metric's series an acceptance is about: those with an open regression.

    Without any those that are still measured, and without such all: a new driver or another GPU
    starts a series, and the one before it stays as it is.
    """
    newest = _newest(history)
    opened = [one for one in series if turns(one, LAST).open is not None]
    alive = [one for one in series if any(point.night == newest for point in one.points)]
    return tuple(opened or alive or series)


def choose_night(history: History, series: Series, asked: str | None, today: str) -> Chosen:
    """From which night on. Raises RunciError where nothing is there to accept."""
    known = turns(series, LAST)
    last = max((point.night for point in series.points), default="")
    if asked is not None:
        _check_accepted(asked, max(today, _newest(history)))
        if known.accept is not None and asked < known.accept.night:
            raise RunciError(
                f"--night {asked}: the level from {known.accept.night} on is accepted already"
            )
        if known.open is not None and asked < known.open.since:
            raise RunciError(
                f"--night {asked}: the open regression began later, on {known.open.since}: "
                "accept from then on, or leave --night out"
            )
    if known.open is not None:
        event = known.open
        settles = f"settles the regression since {event.since} ({event.change:+.1%})"
        return Chosen(asked or event.since, settles)
    if asked is not None:
        return Chosen(asked, "nothing was open; a new segment begins")
    if last < _newest(history):
        return Chosen(_day_after(last), f"last measured on {last}; its end is accepted")
    raise RunciError(
        f"{series.id.metric!r}: no regression is open, so there is nothing to accept; "
        "to start a new segment anyway, name its first night with --night"
    )


def _newest(history: History) -> str:
    """The newest night that measured anything."""
    return max((night.night for night in history.nights if night.measured), default="")


def _check_accepted(night: str, latest: str) -> None:
    if check_night(night, "--night") > latest:
        raise RunciError(f"--night {night}: a night to come cannot be accepted")


def _day_after(night: str) -> str:
    return (datetime.date.fromisoformat(night) + datetime.timedelta(days=1)).isoformat()
