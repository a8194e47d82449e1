"""The lines of the history: what is appended, never changed. One JSON object a line.

`metrics/MACHINE/METRIC.jsonl` holds a header (`SeriesHeader`) and then points, acceptances and
events of one series; `nights.jsonl` holds one line for each run of the nightly, measured or not.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.perf.metric import SCHEMA, Direction, SeriesId


@dataclass(frozen=True, slots=True)
class SeriesHeader:
    """The first line of a series' file."""

    id: SeriesId
    unit: str
    direction: Direction
    kind: str = "series"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one metric: the median of each repetition, candidate and baseline in pairs.

    For a metric whose unit is `exact` there are no figures and `passed` says how it went.
    `reference` is the candidate's median over that of the reference metric (F.linear).
    `unusable` has the reasons why the figures do not count.
    """

    night: str
    at: str
    run_id: str
    commit: str
    baseline_commit: str = ""
    candidate: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    again_candidate: tuple[float, ...] = ()
    again_baseline: tuple[float, ...] = ()
    reference: float | None = None
    passed: bool | None = None
    detail: str = ""
    unusable: tuple[str, ...] = ()
    run_url: str = ""
    temperature: int | None = None
    sm_clock: int | None = None
    kind: str = "point"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Accept:
    """Somebody takes the level from `night` on as the new normal: a new segment begins there."""

    night: str
    at: str
    by: str
    reason: str
    kind: str = "accept"
    schema: int = SCHEMA


class Turn(str, enum.Enum):
    """What an event says happened to a series."""

    REGRESSION = "regression"
    RECOVERED = "recovered"
    IMPROVEMENT = "improvement"


@dataclass(frozen=True, slots=True)
class Event:
    """A confirmed change, written down when it was decided, so that no later night unsays it.

    `night` is the night of the decision, `since` the first night at the new level, `since_commit`
    its commit and `last_good` the commit of the night before. `change` is relative, above 0 worse,
    between `low` and `high` with 95 % confidence.
    """

    night: str
    at: str
    turn: Turn
    since: str
    since_commit: str
    last_good: str
    change: float
    low: float
    high: float
    level: float
    confirmed_by: str
    kind: str = "event"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class SuiteNight:
    """A nightly suite's results: counts of tests, and the tests and files that failed."""

    suite: str
    executed: int
    failed: int
    skipped: int
    failures: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what `runci verify` missed


@dataclass(frozen=True, slots=True)
class Night:
    """One run of the nightly, whatever came of it. `measured` is false where no record came."""

    night: str
    at: str
    run_id: str
    commit: str
    measured: bool
    unusable: tuple[str, ...] = ()
    suites: tuple[SuiteNight, ...] = ()
    run_url: str = ""
    machine: str = ""
    kind: str = "night"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Series:
    """A series as it is read: each kind of line in the order in which it was appended."""

    id: SeriesId
    unit: str
    direction: Direction
    points: tuple[Point, ...] = ()
    accepts: tuple[Accept, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All that the branch holds. `messages` say what was mended or looked odd while reading."""

    series: Mapping[SeriesId, Series] = field(default_factory=dict)
    nights: tuple[Night, ...] = ()
    messages: tuple[str, ...] = ()
