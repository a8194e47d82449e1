"""What the nightly says: one verdict a metric, which of them share a cause, and their file."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from runci.config.perf import check_night
from runci.nightly.history.lines import SuiteNight
from runci.nightly.record import SCHEMA, Direction, SeriesId, read_json


class Status(str, enum.Enum):
    """The verdicts, worst first."""

    REGRESSION = "regression"
    MISSING = "missing night"
    NOISY = "noisy"
    TOO_LITTLE = "too little history"
    RECOVERED = "recovered"
    IMPROVEMENT = "improvement"
    STEADY = "steady"


class Confirmed(str, enum.Enum):
    """What makes a change certain."""

    SECOND_NIGHT = "a second night"
    PAIRED = "a paired re-run"
    BASELINE = "the pinned baseline"  # a creep: no step, but far from the accepted level
    BUDGET = "its budget"  # a limit of perf.yml, judged each night
    EXACT = "exact"  # bits and tests need no second night
    NOT_YET = "not confirmed"


@dataclass(frozen=True, slots=True)
class Segment:
    """Nights at one level: from `first` to `last`, of `points` usable ones."""

    first: str
    last: str
    points: int
    level: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an open regression: from the level before it, so by `change`, relative.

    `driver` says which one came on the same night, and which was before; empty where none did.
    """

    since: str
    since_commit: str
    last_good: str
    change: float
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One series on one night.

    `value` is the night's median ratio to the pinned baseline, `level` the accepted one, `change`
    the relative difference (above 0 is worse) between `low` and `high` with 95 % confidence; None
    where there are no figures. `since` and its commits say where a change began, the last of the
    `steps` where an open regression has several. `reason` is one sentence for a person. `watch`:
    looks changed, but nothing has confirmed it yet.
    """

    id: SeriesId
    unit: str
    direction: Direction
    status: Status
    reason: str
    night: str
    commit: str
    points: int
    value: float | None = None
    level: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    since: str | None = None
    since_commit: str | None = None
    last_good: str | None = None
    confirmed_by: Confirmed = Confirmed.NOT_YET
    watch: bool = False
    accepted: bool = False  # the last turn of this series is an acceptance
    segments: tuple[Segment, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A series that gets no verdict any more, why, and the one that goes on with its metric."""

    id: SeriesId
    reason: str
    heir: SeriesId | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """`runci perf check --output`: all verdicts of a night, worst first."""

    night: str
    at: str
    verdicts: tuple[Verdict, ...]
    missing: tuple[str, ...] = ()  # nights without a run, or whose run measured nothing
    suites: tuple[SuiteNight, ...] = ()
    messages: tuple[str, ...] = ()
    ended: tuple[Ended, ...] = ()
    schema: int = SCHEMA


def read_verdicts(path: str) -> Verdicts:
    """What `runci perf check --output` wrote.

    Raises RunciError where it cannot be read, or names a night that is no date.
    """
    verdicts = read_json(path, Verdicts)
    nights = [verdicts.night, *verdicts.missing]
    for one in verdicts.verdicts:
        nights += [one.night, *([one.since] if one.since else [])]
        nights += [night for part in one.segments for night in (part.first, part.last)]
    for night in nights:
        check_night(night, f"{path}: night")
    return verdicts


def cause(verdict: Verdict) -> tuple[str, str, str] | None:
    """The machine and the commits between which it got worse; equal for what has one cause.

    None where the commits are not known, or are the same one.
    """
    bad, good = verdict.since_commit, verdict.last_good
    return (verdict.id.machine_key, bad, good) if bad and good and bad != good else None


def grouped(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Regressions of one cause together, where the first of them stands; all others alone."""
    groups: dict[object, list[Verdict]] = {}
    for i, verdict in enumerate(verdicts):
        shared = cause(verdict) if verdict.status is Status.REGRESSION else None
        groups.setdefault(shared or i, []).append(verdict)
    return list(groups.values())
