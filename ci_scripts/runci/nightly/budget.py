"""Budgets of perf.yml: limits that a metric's own figure is held to each night; pure."""

from __future__ import annotations

import itertools
from dataclasses import replace

from runci.config.perf import Budget
from runci.core.errors import RunciError
from runci.nightly.figures import middle, ratio
from runci.nightly.history.lines import Point, Series, one_per_night
from runci.nightly.record import Direction, worse_by
from runci.nightly.verdict import Confirmed, Status, Verdict


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
