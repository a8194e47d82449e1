"""Verdicts and events, made in one way for all series, and the regressions that stay open."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from runci.nightly.decide import wording
from runci.nightly.decide.state import Case, Change, Turns
from runci.nightly.decide.values import Value
from runci.nightly.history.lines import Event, Series, Turn
from runci.nightly.verdict import Confirmed, Status, Verdict

FRESH_NIGHTS = 7  # a recovery or an improvement is news for a week
BACK_NIGHTS = 2  # one good night is no recovery
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
    event = turns.last
    if event is None or event.turn not in _NEWS:
        return None
    age = datetime.date.fromisoformat(night) - datetime.date.fromisoformat(event.night)
    return (_NEWS[event.turn], event) if age.days < FRESH_NIGHTS else None


def without_figures(verdict: Verdict, turns: Turns, why: str) -> Verdict:
    """A night without figures says nothing new: what is open stays open."""
    if turns.open is None:
        return replace(verdict, status=Status.MISSING, reason=why)
    change = _on_record(turns.open)
    reason = f"{_begun(change, turns.open)}; tonight: {why}"
    return told(with_change(verdict, change), Status.REGRESSION, turns.open, reason)


def still_open(verdict: Verdict, case: Case, event: Event, at: str, *, noisy: bool) -> Outcome:
    """The verdict while `event` is open, and the recovery where tonight makes it sure."""
    if case.state.repinned:
        change = _on_record(event)
        tail = "; measured against another baseline since: only `runci perf accept` closes it"
        return _stays(replace(verdict, level=None), event, change, tail), ()
    recent = [value for value in case.state.values if value.night >= event.since]
    back = _back(case, recent)
    if len(back) >= BACK_NIGHTS and not noisy:
        return _recovered(verdict, case, recent, back, at)
    change = case.of_nights(recent[: len(recent) - len(back)] or recent)
    tail = "; tonight is back at the level, and a second night would close it" if back else ""
    return _stays(verdict, event, change, tail), ()


def _stays(verdict: Verdict, event: Event, change: Change, tail: str) -> Verdict:
    reason = _begun(change, event) + tail
    return told(with_change(verdict, change), Status.REGRESSION, event, reason)


def _begun(change: Change, event: Event) -> str:
    return wording.changed(change, event.since, event.since_commit, event.confirmed_by)


def _on_record(event: Event) -> Change:
    return Change(event.change, event.low, event.high)


def _back(case: Case, recent: Sequence[Value]) -> Sequence[Value]:
    """The newest nights that are within half of `min_change` of the level, or better."""
    away = case.off(recent)
    count = 0
    while count < len(away) and away[-1 - count] < case.rule.min_change / 2:
        count += 1
    return recent[len(recent) - count :]


def _recovered(
    verdict: Verdict, case: Case, recent: Sequence[Value], back: Sequence[Value], at: str
) -> Outcome:
    change = case.of_nights(back)
    bad = recent[len(recent) - len(back) - 1].commit if len(back) < len(recent) else None
    found = replace(
        with_change(verdict, change),
        status=Status.RECOVERED,
        reason=wording.back(back[0].night, back[0].commit),
        since=back[0].night,
        since_commit=back[0].commit,
        last_good=bad,
        confirmed_by=Confirmed.SECOND_NIGHT,
    )
    return found, (event_of(found, at, Turn.RECOVERED, change, case.state.level),)
