"""One series on one night: the verdict, and the events that it adds to the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide import wording
from runci.nightly.decide.exact import decide_exact
from runci.nightly.decide.outcome import (
    Outcome,
    blank,
    event_of,
    news,
    still_open,
    told,
    with_change,
    without_figures,
)
from runci.nightly.decide.state import Case, Tools, state, turns
from runci.nightly.decide.steps import Shift, creep, segments, step
from runci.nightly.decide.values import read_nights
from runci.nightly.decide.visits import past
from runci.nightly.figures import ratio
from runci.nightly.history.lines import Series, Turn
from runci.nightly.record import EXACT
from runci.nightly.verdict import Confirmed, Status, Verdict

RECENT = 10  # nights that say how a series usually spreads, and what its baseline usually takes
WILD = 2.0  # times `max_spread`: such a night is noisy in any series


def decide(
    series: Series, rule: Rule, night: str, at: str, tools: Tools, absent: str = "no run"
) -> Outcome:
    """The verdict of a series as of `night`, and the events to write down.

    `at` is the time of the decision, for the record; `absent` is why there are no figures tonight
    where the points do not say it. What is later than `night` is not looked at. The same arguments
    give the same outcome.
    """
    if series.unit == EXACT:
        return decide_exact(series, night, at, absent)
    nights = read_nights(series.points, night)
    known = turns(series, night)
    here = state(nights.usable, known, rule)
    verdict = blank(series, night, "", known)
    if here is None:
        return without_figures(verdict, known, nights.unusable.get(night, absent)), ()
    last = here.values[-1]
    verdict = replace(
        verdict,
        commit=last.commit,
        points=len(here.values),
        level=here.level,
        segments=segments(series, nights.usable, night),
    )
    if last.night != night:
        return without_figures(verdict, known, nights.unusable.get(night, absent)), ()
    verdict = replace(verdict, value=last.value)
    found, events = _judge(verdict, Case(here, series.direction, rule, tools), at)
    if events:  # tonight's page has them, too, as every later one
        known_now = replace(series, events=(*series.events, *events))
        found = replace(found, segments=segments(known_now, nights.usable, night))
    return found, events


def _judge(verdict: Verdict, case: Case, at: str) -> Outcome:
    """What is open comes first, then what is known too little, then what can be claimed."""
    change = case.compared(case.tonight.pairs)
    least = case.rule.min_change
    clear = change.low >= least or change.high <= -least  # however wide: all of it is beyond
    noisy = _spreads(case) and not clear
    if case.state.turns.open is not None:
        return still_open(verdict, case, case.state.turns.open, at, noisy=noisy)
    verdict = with_change(verdict, change)
    missing = case.rule.min_points - len(case.state.values)
    if missing > 0:
        reason = wording.too_little(len(case.state.values), missing, case.state.turns)
        return replace(verdict, status=Status.TOO_LITTLE, reason=reason), ()
    modes = _modes(case)
    shifts = [*(() if noisy else _both(step, case)), *_both(creep, case)]
    confirmed = next((s for s in shifts if s.confirmed is not Confirmed.NOT_YET), None)
    if confirmed is not None:
        return _changed(verdict, case, confirmed, at)
    doubt = modes or (wording.noisy(case.tonight, case.rule.max_spread) if noisy else "")
    if doubt:
        return replace(verdict, status=Status.NOISY, reason=doubt), ()
    return _quiet(verdict, case, next(iter(shifts), None)), ()


def _both(find: Callable[..., Shift | None], case: Case) -> Iterable[Shift]:
    """What is found on either side, the worse one first."""
    found = (find(case, worse=worse) for worse in (True, False))
    return [shift for shift in found if shift is not None]


def _spreads(case: Case) -> bool:
    """Whether tonight's pairs, too, spread more than `max_spread`, or far more than that.

    Five pairs of a quiet machine exceed the limit now and then by chance, so one such night counts
    only where the last nights are as bad, or where it is wild.
    """
    limit, tonight = case.rule.max_spread, case.tonight.spread
    usual = median([value.spread for value in case.state.values[-RECENT:]])
    return tonight > WILD * limit or (tonight > limit and usual > limit)


def _modes(case: Case) -> str:
    """The sentence about a machine with two modes; empty for one that has just one."""
    values = case.state.values
    for worse in (True, False):
        known = past(case.off(values, worse=worse), case.rule)
        if known.modes is not None:
            return wording.two_modes(known.modes, known.alike, min(len(values), case.rule.window))
    return ""


def _changed(verdict: Verdict, case: Case, shift: Shift, at: str) -> Outcome:
    """A confirmed change, and its event."""
    change, first = case.of_nights(shift.nights), shift.nights[0]
    found = replace(
        with_change(verdict, change),
        status=Status.REGRESSION if shift.worse else Status.IMPROVEMENT,
        reason=wording.changed(change, first.night, first.commit, shift.confirmed.value),
        since=first.night,
        since_commit=first.commit,
        last_good=shift.before.commit,
        confirmed_by=shift.confirmed,
        accepted=False,
    )
    turn = Turn.REGRESSION if shift.worse else Turn.IMPROVEMENT
    level = case.state.level if shift.worse else shift.level
    return found, (event_of(found, at, turn, change, level),)


def _quiet(verdict: Verdict, case: Case, shift: Shift | None) -> Verdict:
    """Nothing is claimed: news of the last week, or steady; with what is worth a look."""
    if shift is not None:
        again = case.compared(case.tonight.again) if case.tonight.again else None
        reason = wording.to_watch(median(case.off(shift.nights)), shift, again)
    else:
        reason = _machine_moved(case) or wording.WITHIN
    verdict = replace(verdict, reason=reason, watch=shift is not None)
    recent = news(case.state.turns, verdict.night)
    if recent is None:
        return verdict
    status, event = recent
    return told(verdict, status, event, f"{wording.event(event)}; tonight: {reason}")


def _machine_moved(case: Case) -> str:
    """The sentence about a baseline that reads otherwise than before; empty where it does not."""
    tonight = case.tonight.base
    before = [v.base for v in case.state.values[-RECENT - 1 : -1] if v.base is not None]
    if tonight is None or not before:
        return ""
    moved = ratio(tonight, median(before)) - 1.0
    return wording.machine_moved(moved) if abs(moved) >= case.rule.min_change else ""
