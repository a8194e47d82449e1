"""All of a history on one night: which night, verdicts, events, what is missing or ended; pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from runci.config.perf import Config
from runci.core.errors import Exit
from runci.nightly.decide.exact import hold
from runci.nightly.decide.series import decide
from runci.nightly.decide.turns import turns
from runci.nightly.history.additions import SUITES
from runci.nightly.history.lines import Event, History, Series, SuiteNight
from runci.nightly.record import EXACT, SeriesId
from runci.nightly.verdict import Ended, Status, Verdict, Verdicts
from runci.text.wording import plural

SHOWN_DAYS = 30  # missing nights before that are counted and not listed
_ORDER = list(Status)


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last night on which a series has a point, up to the night asked for."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Nights that measured nothing: the recent ones, and how many there were before."""

    nights: tuple[str, ...]
    before: int


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
) -> Decided:
    """Everything as of the night `asked`, or the newest before it that is over at `now` (UTC)."""
    nothing = decide_nights(history, config, asked, now).verdicts
    night, at = nothing.night, nothing.at
    known = spans(history, night)
    ends = ended(history, known, config, night)
    verdicts, events = [], {}
    for series_id in sorted(known.keys() - ends.keys()):
        why = absent(history, known, series_id, night)
        one = history.series[series_id]
        verdict, new = decide(one, config.rule, night, at, why, kin(history, one))
        benchmark = config.benchmarks.get(series_id.benchmark)
        budget = benchmark.budgets.get(series_id.metric) if benchmark else None
        verdicts.append(hold(verdict, one, budget))
        if new:
            events[series_id] = new
    decided = replace(
        nothing,
        verdicts=tuple(sorted(verdicts, key=_rank)),
        messages=(*nothing.messages, *end_messages(ends), *_unheld(config, verdicts)),
        ended=tuple(
            Ended(series_id, ends[series_id], heir(history, known, series_id))
            for series_id in sorted(ends)
        ),
    )
    return Decided(decided, events)


def decide_nights(
    history: History, config: Config, asked: datetime.date, now: datetime.datetime
) -> Decided:
    """As `decide_all`, of a history that has no series yet: the machine may have been dead from
    the first night on."""
    day = night_of(history, config, asked, now)
    missing = missing_nights(history, config, day)
    night, at = day.isoformat(), now.strftime("%Y-%m-%dT%H:%M:%SZ")
    older = f"{plural(missing.before, 'nights')} before those listed measured nothing either"
    messages = (older,) if missing.before else ()
    suites = _suites(history, night)
    return Decided(Verdicts(night, at, (), missing.nights, suites, messages), {})


def _unheld(config: Config, verdicts: Iterable[Verdict]) -> Iterable[str]:
    """Budgets of what has no verdict tonight: a name may be misspelt."""
    judged = {(verdict.id.benchmark, verdict.id.metric) for verdict in verdicts}
    for benchmark in config.benchmarks.values():
        for metric in benchmark.budgets:
            if (benchmark.name, metric) not in judged:
                what = f"{benchmark.name} has no such metric"
                yield f"the budget of {metric!r} was held against nothing: {what}"


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
        or any(suite.is_bad for suite in verdicts.suites)
    ):
        return Exit.FINDINGS
    return Exit.OK


def over(night: datetime.date, config: Config) -> datetime.datetime:
    """The moment from which on a night without a run is too late."""
    began = datetime.datetime.combine(night, datetime.time(), datetime.timezone.utc)
    return began + datetime.timedelta(hours=config.late_hours)


def night_of(
    history: History, config: Config, asked: datetime.date, now: datetime.datetime
) -> datetime.date:
    """The newest night up to `asked` that ran, or should have: a night to come is not missing."""
    ran = {night.night for night in history.nights}
    day = asked
    while day > config.first_night and day.isoformat() not in ran and now < over(day, config):
        day -= datetime.timedelta(days=1)
    return day


def missing_nights(history: History, config: Config, night: datetime.date) -> Missing:
    """Expected nights up to `night`, including it, that have no run that measured."""
    measured = {line.night for line in history.nights if line.measured}
    count = (night - config.first_night).days + 1
    expected = (config.first_night + datetime.timedelta(days=n) for n in range(count))
    missing = [day for day in expected if day.isoformat() not in measured]
    oldest = night - datetime.timedelta(days=SHOWN_DAYS - 1)
    recent = tuple(day.isoformat() for day in missing if day >= oldest)
    return Missing(recent, len(missing) - len(recent))


def spans(history: History, night: str) -> dict[SeriesId, Span]:
    """The series that have a point up to `night`."""
    found = {}
    for series in history.series.values():
        nights = [point.night for point in series.points if point.night <= night]
        if nights:
            found[series.id] = Span(min(nights), max(nights))
    return found


def ended(
    history: History, known: Mapping[SeriesId, Span], config: Config, night: str
) -> dict[SeriesId, str]:
    """Series that get no verdict any more, and why.

    What perf.yml no longer names ends at once. All else with an open regression stays until
    somebody accepts it, or another driver's series takes it on.
    """
    found = {}
    for series_id, span in known.items():
        series = history.series[series_id]
        if removed := _removed(series_id, config):
            found[series_id] = removed
            continue
        if span.last == night:
            continue
        goes_on = heir(history, known, series_id) is not None
        if turns(series, night).open is not None and not goes_on:
            continue
        reason = _end(series, span, known, config, night)
        if reason:
            found[series_id] = reason
    return found


def heir(history: History, known: Mapping[SeriesId, Span], series: SeriesId) -> SeriesId | None:
    """The series of another driver that goes on with one, and with what is open there."""
    others = (one.id for one in kin(history, history.series[series]) if one.id in known)
    later = [(known[one].last, one) for one in others if known[one].last > known[series].last]
    return max(later)[1] if later else None


def kin(history: History, series: Series) -> tuple[Series, ...]:
    """The series of the same metric on other drivers of the same GPU, where both have pairs."""
    if series.unit == EXACT or not _is_paired(series):
        return ()
    return tuple(
        other
        for other in history.series.values()
        if other.id != series.id
        and replace(other.id, driver_major=series.id.driver_major) == series.id
        and _is_paired(other)
    )


def _is_paired(series: Series) -> bool:
    return not series.points or bool(series.points[-1].baseline)


def absent(history: History, known: Mapping[SeriesId, Span], series: SeriesId, night: str) -> str:
    """Why a series has no point on `night`."""
    lines = [line for line in history.nights if line.night == night]
    if not lines:
        return "no run on this night"
    if not any(line.measured for line in lines):
        said = dict.fromkeys(reason for line in lines for reason in line.unusable)
        return "; ".join(said) or "the run measured nothing"
    tonight = [other for other, span in known.items() if span.last == night]
    if any(other.machine_key == series.machine_key for other in tonight):
        return (
            f"other metrics of {series.benchmark} were measured, this one was not: if it has "
            "another name now, write that into `renames` of perf.yml; if it is gone for good, "
            "`runci perf accept` ends it"
        )
    return f"the run did not measure {series.benchmark} on {series.gpu}"


def end_messages(reasons: Mapping[SeriesId, str]) -> Iterable[str]:
    """One line for each kind of end."""
    groups: dict[tuple[str, str], list[str]] = {}
    for series_id, reason in reasons.items():
        groups.setdefault((series_id.machine_key, reason), []).append(series_id.metric)
    for (machine, reason), metrics in sorted(groups.items()):
        names = ", ".join(sorted(metrics)[:3])
        more = f" and {len(metrics) - 3} more" if len(metrics) > 3 else ""
        yield f"{len(metrics)} series of {machine} ended: {reason} ({names}{more})"


def _rank(verdict: Verdict) -> tuple[int, bool, float, SeriesId]:
    """Worst first."""
    change = verdict.change or 0.0
    return _ORDER.index(verdict.status), not verdict.watch, -change, verdict.id


def _suites(history: History, night: str) -> tuple[SuiteNight, ...]:
    """The suites of the night, each as its last run left it."""
    suites = {s.suite: s for line in history.nights if line.night == night for s in line.suites}
    return tuple(suites[name] for name in sorted(suites))


def _removed(series: SeriesId, config: Config) -> str:
    """Why perf.yml no longer names a series; empty where it does."""
    if series.benchmark == SUITES:
        return ""
    benchmark = config.benchmarks.get(series.benchmark)
    if benchmark is None:
        return f"the benchmark {series.benchmark} is no longer in perf.yml"
    if not benchmark.judges(series.metric):
        return f"perf.yml no longer names it among the metrics of {series.benchmark}"
    return ""


def _end(
    series: Series, span: Span, known: Mapping[SeriesId, Span], config: Config, night: str
) -> str:
    accept = turns(series, night).accept
    if accept is not None and accept.night > span.last:
        return f"its end was accepted: {accept.reason}"
    benchmark = config.benchmarks.get(series.id.benchmark)
    if benchmark is not None and benchmark.version != series.id.version:
        return f"{series.id.benchmark} has version {benchmark.version} now"
    after = [
        (other.first, other_id)
        for other_id, other in known.items()
        if _same_metric(other_id, series.id) and other.first > span.last
    ]
    if not after:
        return ""
    first, successor = min(after)
    return f"measured on {successor.gpu}, driver {successor.driver_major} since {first}"


def _same_metric(one: SeriesId, other: SeriesId) -> bool:
    return one != other and (one.metric, one.benchmark, one.version) == (
        other.metric,
        other.benchmark,
        other.version,
    )
