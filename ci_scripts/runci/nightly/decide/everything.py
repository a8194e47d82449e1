"""All of a history on one night: verdicts, events, missing nights; pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runci.config.perf import Config
from runci.core.errors import Exit
from runci.nightly.decide.case import Tools
from runci.nightly.decide.nights import (
    Missing,
    absent,
    end_messages,
    ended,
    missing_nights,
    night_of,
    spans,
)
from runci.nightly.decide.series import decide
from runci.nightly.history.lines import Event, History, SuiteNight
from runci.nightly.record import SeriesId
from runci.nightly.verdict import Status, Verdict, Verdicts
from runci.text.wording import plural

_ORDER = list(Status)


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdicts, and what to append to the history."""

    verdicts: Verdicts
    events: Mapping[SeriesId, tuple[Event, ...]]


def decide_all(
    history: History,
    config: Config,
    asked: datetime.date,
    now: datetime.datetime,
    tools: Tools,
) -> Decided:
    """Everything as of the night `asked`, or the newest before it that is over at `now` (UTC)."""
    day = night_of(history, config, asked, now)
    night, at = day.isoformat(), now.strftime("%Y-%m-%dT%H:%M:%SZ")
    known = spans(history, night)
    ends = ended(history, known, config, night)
    verdicts, events = [], {}
    for series_id in sorted(known.keys() - ends.keys()):
        why = absent(history, known, series_id, night)
        verdict, new = decide(history.series[series_id], config.rule, night, at, tools, why)
        verdicts.append(verdict)
        if new:
            events[series_id] = new
    missing = missing_nights(history, config, day)
    return Decided(
        Verdicts(
            night=night,
            at=at,
            verdicts=tuple(sorted(verdicts, key=_rank)),
            missing=missing.nights,
            suites=_suites(history, night),
            messages=(*_older(missing), *end_messages(ends)),
        ),
        events,
    )


def decide_nights(
    history: History, config: Config, asked: datetime.date, now: datetime.datetime
) -> Decided:
    """As `decide_all`, of a history that has no series yet: the machine may have been dead from
    the first night on."""
    day = night_of(history, config, asked, now)
    missing = missing_nights(history, config, day)
    night, at = day.isoformat(), now.strftime("%Y-%m-%dT%H:%M:%SZ")
    suites, messages = _suites(history, night), tuple(_older(missing))
    return Decided(Verdicts(night, at, (), missing.nights, suites, messages), {})


def _rank(verdict: Verdict) -> tuple[int, bool, float, SeriesId]:
    """Worst first."""
    change = verdict.change or 0.0
    return _ORDER.index(verdict.status), not verdict.watch, -change, verdict.id


def _older(missing: Missing) -> Iterable[str]:
    if missing.before:
        yield f"{plural(missing.before, 'nights')} before those listed measured nothing either"


def _suites(history: History, night: str) -> tuple[SuiteNight, ...]:
    """The suites of the night, each as its last run left it."""
    suites = {s.suite: s for line in history.nights if line.night == night for s in line.suites}
    return tuple(suites[name] for name in sorted(suites))


def failed(suite: SuiteNight) -> bool:
    """Whether a nightly suite needs a look: a failed test, or one that did not run."""
    return bool(suite.failed or suite.failures or suite.problems)


def status_of(verdicts: Verdicts) -> Exit:
    """What the command exits with.

    A missing night is a finding on itself and on the next night, whose run is the first that can
    tell of it; later runs only list it.
    """
    if not verdicts.verdicts:
        return Exit.FINDINGS if verdicts.missing else Exit.NOTHING
    bad = any(v.status in (Status.REGRESSION, Status.MISSING) for v in verdicts.verdicts)
    before = datetime.date.fromisoformat(verdicts.night) - datetime.timedelta(days=1)
    if (
        bad
        or max(verdicts.missing, default="") >= before.isoformat()
        or any(map(failed, verdicts.suites))
    ):
        return Exit.FINDINGS
    return Exit.OK
