"""`runci perf accept`: which series is meant, and from which night its level is normal; pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from runci.config.perf import check_night
from runci.core.errors import RunciError
from runci.nightly.decide.turns import turns
from runci.nightly.history.lines import LAST, History, Series
from runci.text.wording import nearest_name


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
        _check(asked, max(today, _newest(history)))
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


def _check(night: str, latest: str) -> None:
    if check_night(night, "--night") > latest:
        raise RunciError(f"--night {night}: a night to come cannot be accepted")


def _day_after(night: str) -> str:
    return (datetime.date.fromisoformat(night) + datetime.timedelta(days=1)).isoformat()
