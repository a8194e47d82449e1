"""What fails at once, without a second night: a check, a suite, a figure over its budget; pure."""

from __future__ import annotations

import itertools
from dataclasses import replace

from runci.config.perf import Budget
from runci.core.errors import RunciError
from runci.nightly.decide.turns import (
    Change,
    Outcome,
    Turns,
    blank,
    event_of,
    news,
    told,
    turns,
)
from runci.nightly.decide.words import short
from runci.nightly.figures import middle, ratio
from runci.nightly.history.lines import Point, Series, Turn, one_per_night
from runci.nightly.record import Direction, worse_by
from runci.nightly.verdict import Confirmed, Status, Verdict

PASSES, FAILS = 1.0, 0.0  # as a level of an event


def decide_exact(series: Series, night: str, at: str, absent: str) -> Outcome:
    """The verdict of a series whose unit is `exact`, and the event if tonight changed it.

    An accepted failure is normal until it passes again; from then on it has to pass.
    """
    points = one_per_night(series.points, night)
    known = turns(series, night)
    usable = [p for p in points if p.passed is not None and not p.unusable]
    last = usable[-1] if usable else None
    verdict = replace(blank(series, night, last.commit if last else "", known), points=len(usable))
    if last is None or last.night != night:
        return _without(verdict, known, _why(points, night) or absent), ()
    if last.passed:
        return _passed(verdict, last, known, usable, at)
    return _failed(verdict, last, known, usable, at)


def _why(points: tuple[Point, ...], night: str) -> str:
    if not points or points[-1].night != night:
        return ""
    return "; ".join(points[-1].unusable) or "it neither passed nor failed"


def _without(verdict: Verdict, known: Turns, why: str) -> Verdict:
    if known.open is not None:
        reason = f"failed on {known.open.night} and was not seen to pass since; tonight: {why}"
        return told(verdict, Status.REGRESSION, known.open, reason)
    return replace(verdict, status=Status.MISSING, reason=why)


def _passed(verdict: Verdict, last: Point, known: Turns, usable: list[Point], at: str) -> Outcome:
    turn = None
    if known.open is not None:
        turn, status = Turn.RECOVERED, Status.RECOVERED
    elif known.accepted and _fails(known, usable):
        turn, status = Turn.IMPROVEMENT, Status.IMPROVEMENT
    if turn is None:
        recent = news(known, verdict.night)
        if recent is None:
            return replace(verdict, reason=last.detail or "passes"), ()
        return told(verdict, *recent, f"passes again since {recent[1].since}"), ()
    found = _began(verdict, usable, status, f"passes again with {short(last.commit)}")
    return found, (event_of(found, at, turn, Change(0.0, 0.0, 0.0), PASSES),)


def _failed(verdict: Verdict, last: Point, known: Turns, usable: list[Point], at: str) -> Outcome:
    detail = f": {last.detail}" if last.detail else ""
    if known.open is not None:
        since = f"fails since {known.open.since} ({short(known.open.since_commit)}){detail}"
        return told(verdict, Status.REGRESSION, known.open, since), ()
    if known.accept is not None and known.accepted and _fails(known, usable):
        reason = f"fails, as accepted from {known.accept.night} on: {known.accept.reason}"
        return replace(verdict, reason=reason), ()
    reason = f"fails with {short(last.commit)}{detail}"
    found = _began(verdict, usable, Status.REGRESSION, reason)
    return found, (event_of(found, at, Turn.REGRESSION, Change(1.0, 1.0, 1.0), FAILS),)


def _fails(known: Turns, usable: list[Point]) -> bool:
    """Whether what was accepted is a failure: the first result of its segment."""
    start = known.accept.night if known.accept else ""
    return next((p.passed is False for p in usable if p.night >= start), False)


def _began(verdict: Verdict, usable: list[Point], status: Status, reason: str) -> Verdict:
    """Tonight is where it began."""
    return replace(
        verdict,
        status=status,
        reason=reason,
        since=usable[-1].night,
        since_commit=usable[-1].commit,
        last_good=usable[-2].commit if len(usable) > 1 else None,
        confirmed_by=Confirmed.EXACT,
        accepted=False,
    )


def is_over(value: float, limit: float, direction: Direction) -> bool:
    """Whether a figure is on the wrong side of its limit; the limit itself is allowed."""
    return value > limit if direction is Direction.LOWER else value < limit


def hold(verdict: Verdict, series: Series, budget: Budget | None) -> Verdict:
    """The verdict of a night, a regression where its figure is over `budget`; no history is needed.

    Nights without usable figures say nothing. What is a regression already keeps its own commits.
    Raises RunciError where the budget is in another unit than the series.
    """
    if budget is None:
        return verdict
    if budget.unit != series.unit:
        raise RunciError(
            f"perf.yml: the budget of {series.id.metric!r} is in {budget.unit}, but it is measured "
            f"in {series.unit}: write the limit in {series.unit}"
        )
    nights = [
        (point, value)
        for point in one_per_night(series.points, verdict.night)
        if not point.unusable and (value := middle(point.candidate)) is not None
    ]
    if not nights or nights[-1][0].night != verdict.night:
        return verdict
    value = nights[-1][1]
    if not is_over(value, budget.limit, series.direction):
        return verdict
    said = f"{value:.4g} {series.unit}, and its budget is {budget.limit:g} {series.unit}"
    if verdict.status is Status.REGRESSION:
        return replace(verdict, reason=f"{verdict.reason}; {said}")
    over = list(
        itertools.takewhile(
            lambda night: is_over(night[1], budget.limit, series.direction), reversed(nights)
        )
    )
    first: Point = over[-1][0]
    before = nights[-len(over) - 1][0].commit if len(over) < len(nights) else None
    return replace(
        verdict,
        status=Status.REGRESSION,
        reason=said,
        change=worse_by(ratio(value, budget.limit), series.direction),
        low=None,
        high=None,
        since=first.night,
        since_commit=first.commit,
        last_good=before,
        confirmed_by=Confirmed.BUDGET,
        watch=False,
        accepted=False,
    )
