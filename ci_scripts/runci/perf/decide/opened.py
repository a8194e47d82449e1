"""A regression that is open: it stays so until the level is back, or somebody accepts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runci.perf.decide import wording
from runci.perf.decide.case import Case, Change
from runci.perf.decide.outcome import Outcome, event_of, told, with_change
from runci.perf.decide.state import Turns
from runci.perf.decide.values import Value
from runci.perf.lines import Event, Turn
from runci.perf.verdict import Confirmed, Status, Verdict

BACK_NIGHTS = 2  # one good night is no recovery


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
    by = Confirmed.SECOND_NIGHT
    return found, (event_of(found, at, Turn.RECOVERED, change, case.state.level, by),)
