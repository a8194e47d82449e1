"""A night's record, or its suites' results → the lines to append, and the files with them; pure.

What is there already is not appended again.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from runci.config.perf import check_night
from runci.core.errors import Exit, RunciError
from runci.core.result import FileResult
from runci.nightly.figures import LARGEST, SMALLEST, is_figure, may_be_zero, medians, middle
from runci.nightly.history.lines import (
    FORMAT,
    NIGHTS,
    Accept,
    Event,
    History,
    Line,
    Night,
    Point,
    SeriesFile,
    SeriesHeader,
    SuiteNight,
    format_text,
    is_readable,
    path_of,
)
from runci.nightly.history.read import Files, list_files
from runci.nightly.record import EXACT, Check, Direction, Measurement, Record, SeriesId, encode
from runci.plan.model import Plan, PlannedSuite
from runci.results.read import Found
from runci.results.verify import Kind, Verdict, verify

SUITES = "suites"  # the benchmark of their series, which no command of perf.yml measures
SUITES_VERSION = "1"
_Added = TypeVar("_Added", Line, Night)


@dataclass(frozen=True, slots=True)
class Addition:
    """Lines of one series; the header is written where the series is new."""

    header: SeriesHeader
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Additions:
    """Everything that one command appends."""

    series: tuple[Addition, ...] = ()
    nights: tuple[Night, ...] = ()


@dataclass(frozen=True, slots=True)
class Changed:
    """The files that an append writes, whole; how many lines are new; what to tell."""

    files: Mapping[str, bytes]
    lines: int
    messages: tuple[str, ...] = ()


def known_series(history: History, lines: Mapping[SeriesId, Sequence[Accept | Event]]) -> Additions:
    """Lines of series that the history has. Raises RunciError for one that it has not."""
    additions = []
    for series_id, those in lines.items():
        series = history.series.get(series_id)
        if series is None:
            raise RunciError(
                f"no series {series_id.metric!r} on {series_id.machine_key}: "
                "`runci perf history` lists them"
            )
        header = SeriesHeader(series_id, series.unit, series.direction)
        additions.append(Addition(header, tuple(those)))
    return Additions(tuple(additions))


def append_to(files: Files, additions: Additions) -> Changed:
    """The files with the additions, torn ends removed; only those that change.

    Raises RunciError where a metric's unit or direction is not that of its series.
    """
    changed: dict[str, bytes] = {}
    series = dict(files.series)
    nights = files.nights
    messages: list[str] = []
    count = 0
    for addition in _merged(additions.series):
        header, path = addition.header, path_of(addition.header.id)
        file = series.get(header.id) or SeriesFile(path, header, (), encode(header) + b"\n")
        _same_kind(header, file.header)
        new = _new(addition.lines, file.lines, header.id.metric, messages)
        if new:
            changed[path] = file.whole + _text(new)
            series[header.id] = replace(file, lines=(*file.lines, *new), whole=changed[path])
            count += len(new)
    if new_nights := _new(additions.nights, nights.nights, NIGHTS, messages):
        known = len(files.listed.keys() | {NIGHTS, *(file.path for file in series.values())})
        after = files.listed[NIGHTS].lines if NIGHTS in files.listed else 0
        new_nights = [replace(night, files=known, after=after) for night in new_nights]
        # After the series, so that where files are written one by one a night is there when its
        # points are; and then the list, so that a file is never shorter than it says.
        changed[NIGHTS] = nights.whole + _text(new_nights)
        nights = replace(nights, nights=(*nights.nights, *new_nights))
    listed = format_text({**files.listed, **list_files(series.values(), nights)})
    if listed != files.format:
        changed[FORMAT] = listed
    return Changed(changed, count + len(new_nights), tuple(messages))


def _merged(additions: Iterable[Addition]) -> Iterable[Addition]:
    """One addition a series: two records of one call may have the same."""
    merged: dict[SeriesId, Addition] = {}
    for one in additions:
        before = merged.get(one.header.id)
        if before is not None:
            _same_kind(one.header, before.header)
            one = Addition(one.header, before.lines + one.lines)  # noqa: PLW2901
        merged[one.header.id] = one
    return merged.values()


def _same_kind(new: SeriesHeader, old: SeriesHeader) -> None:
    if (new.unit, new.direction) != (old.unit, old.direction):
        raise RunciError(
            f"{new.id.metric!r} is in {new.unit} ({new.direction.value} is better), but its series "
            f"has {old.unit} ({old.direction.value}): give the benchmark a new version in perf.yml"
        )


def _new(
    lines: Iterable[_Added], known: Iterable[_Added], name: str, messages: list[str]
) -> list[_Added]:
    lines = tuple(lines)
    nights = {line.night for line in lines}
    seen = {_identity(line) for line in known if line.night in nights}
    new = []
    for line in lines:
        identity = _identity(line)
        if identity in seen:
            messages.append(f"{name}: the {line.kind} of {line.night} is there already")
        else:
            new.append(line)
        seen.add(identity)
    return new


def _identity(line: Line | Night) -> Hashable:
    """What makes two lines the same, however often and with whatever clock they are made.

    A run that was repeated in part has the same number and other contents: both are kept.
    """
    if isinstance(line, Event):
        return line.night, line.turn, line.since
    if isinstance(line, Night):
        line = replace(line, files=0, after=0)
    if isinstance(line, Accept) or line.run_id:
        return replace(line, at="")
    return line


def _text(lines: Iterable[Line | Night]) -> bytes:
    """Raises RunciError for a line that nobody could read again: it would close the history."""
    texts = []
    for line in lines:
        text = encode(line)
        if not is_readable(text):
            said = f"the {line.kind} of {line.night} could not be read again: {text[:200]!r}"
            raise RunciError(f"{said}: nothing was written; please report it", Exit.FAULT)
        texts.append(text + b"\n")
    return b"".join(texts)


def additions_of(record: Record, where: str) -> Additions:
    """A point for each metric and each check, and the night. `where` is the record's file.

    Raises RunciError for a record whose figures cannot be: no values, not above 0, pairs that do
    not match, a metric twice, a night or a time that is none.
    """
    _check_record(record, where)
    middles = {one.metric: middle(medians(one.candidate)) for one in record.measurements}
    series = [_measured(record, one, middles) for one in record.measurements]
    series += [_checked(record, check) for check in _once(record.checks)]
    night = Night(
        record.night,
        record.finished,
        record.run_id,
        record.commit,
        measured=bool(series),
        unusable=record.unusable,
        run_url=record.run_url,
        machine=record.series_id("").machine_key,
    )
    return Additions(tuple(series), (night,))


def _measured(record: Record, one: Measurement, middles: Mapping[str, float | None]) -> Addition:
    ours, reference = middles[one.metric], middles.get(one.reference or "")
    point = replace(
        _bare_point(record),
        candidate=medians(one.candidate),
        baseline=medians(one.baseline),
        again_candidate=medians(one.again_candidate),
        again_baseline=medians(one.again_baseline),
        reference=ours / reference if ours is not None and reference else None,
        unusable=(*record.unusable, *one.unusable),
        temperature=record.after.temperature,
        sm_clock=record.after.sm_clock,
        arms=tuple((name, medians(runs)) for name, runs in one.arms.items()),
    )
    header = SeriesHeader(record.series_id(one.metric), one.unit, one.direction)
    return Addition(header, (point,))


def _checked(record: Record, check: Check) -> Addition:
    """A check's point. It counts even where the figures do not: a busy GPU changes no bit."""
    header = SeriesHeader(record.series_id(check.name), EXACT, Direction.HIGHER)
    point = replace(_bare_point(record), passed=check.passed, detail=check.detail)
    return Addition(header, (point,))


def _bare_point(record: Record) -> Point:
    return Point(
        record.night,
        record.finished,
        record.run_id,
        record.commit,
        record.baseline_commit,
        run_url=record.run_url,
    )


def _once(checks: Iterable[Check]) -> Sequence[Check]:
    """Each check by its name once; failed where it failed at all."""
    found: dict[str, Check] = {}
    for check in checks:
        known = found.get(check.name)
        if known is None or (known.passed and not check.passed):
            found[check.name] = check
    return tuple(found.values())


def _check_record(record: Record, where: str) -> None:
    check_night(record.night, f"{where}: night")
    for name, text in (("started", record.started), ("finished", record.finished)):
        if not is_time(text):
            raise RunciError(f"{where}: {name} {text!r} is no time such as 2026-12-01T03:10:00Z")
    try:
        record.series_id("")
    except ValueError as error:
        driver = record.machine.driver
        raise RunciError(f"{where}: driver {driver!r} is no version such as 580.159.04") from error
    if not (record.measurements or record.checks or record.unusable):
        raise RunciError(f"{where}: no measurement, no check and no reason why: nothing to record")
    names: set[str] = set()
    for one in record.measurements:
        if one.metric in names:
            raise RunciError(f"{where}: the metric {one.metric!r} twice")
        names.add(one.metric)
        _check_measurement(one, where)
    for check in record.checks:
        if check.name in names:
            raise RunciError(f"{where}: {check.name!r} is both a metric and a check")


def _check_measurement(one: Measurement, where: str) -> None:
    if one.unit == EXACT:
        raise RunciError(f"{where}: {one.metric!r}: {EXACT} is no unit of figures, but of checks")
    if not one.candidate and not one.unusable:
        raise RunciError(f"{where}: {one.metric!r}: no repetition")
    for name, runs in one.arms.items():
        _check_values(f"{where}: {one.metric!r}: arms.{name}", runs, one.unit)
    pairs = (
        ("", one.candidate, one.baseline),
        ("again_", one.again_candidate, one.again_baseline),
    )
    for prefix, candidate, baseline in pairs:
        _check_values(f"{where}: {one.metric!r}: {prefix}candidate", candidate, one.unit)
        _check_values(f"{where}: {one.metric!r}: {prefix}baseline", baseline, one.unit)
        if baseline and len(baseline) != len(candidate):
            raise RunciError(
                f"{where}: {one.metric!r}: {len(candidate)} {prefix}candidate repetitions, "
                f"but {len(baseline)} of the baseline: they come in pairs"
            )


def _check_values(where: str, repetitions: Iterable[Sequence[float]], unit: str) -> None:
    for number, values in enumerate(repetitions):
        if not values:
            raise RunciError(f"{where}[{number}]: no value")
        for value in values:
            if not is_figure(value) or (value == 0 and not may_be_zero(unit)):
                raise RunciError(
                    f"{where}[{number}]: {value} is no figure from {SMALLEST:g} to {LARGEST:g} "
                    f"in {unit}"
                )


def is_time(text: str) -> bool:
    """Whether this is a time in UTC, as all lines have it."""
    # Z for UTC is read from Python 3.11 on only.
    spelled = f"{text[:-1]}+00:00" if text.endswith("Z") else text
    try:
        at = datetime.datetime.fromisoformat(spelled)
    except ValueError:
        return False
    return at.utcoffset() == datetime.timedelta(0)


@dataclass(frozen=True, slots=True)
class RunOf:
    """Which run of the nightly these results are of."""

    night: str
    at: str
    run_id: str
    run_url: str = ""


def suite_nights(
    plan: Plan, found: Found, run: RunOf
) -> tuple[tuple[SuiteNight, ...], tuple[Addition, ...]]:
    """Each planned suite's night, and its point; `runci verify`'s own function judges each.

    A suite none of whose files has a result did not run: its point says so and does not count, as
    for a night without figures. One that ran in part has failed.
    """
    often = Counter(suite.name for suite in plan.suites)
    nights, additions = [], []
    for suite in plan.suites:
        results = _results_of(suite, plan, found.results)
        verdict = _suite_verdict(suite, plan, results, found.broken)
        name = suite.name if often[suite.name] == 1 else f"{suite.name} ({suite.backend})"
        nights.append(_suite_night(name, verdict, [result for _, result in results]))
        additions.append(_suite_addition(name, suite, verdict, plan, run))
    return tuple(nights), tuple(additions)


def series_of(name: str, runner: str | None) -> SeriesId:
    """The series of a suite. Its machine is the kind of runner, which is known even when none ran.

    Bits and tests do not depend on the driver's version, so that a new one starts no new series.
    """
    return SeriesId(f"suite {name}", SUITES, SUITES_VERSION, runner or "cpu", 0)


def _results_of(
    suite: PlannedSuite, plan: Plan, results: Iterable[tuple[str, FileResult]]
) -> list[tuple[str, FileResult]]:
    """This suite's results, and those of no suite of the plan: each suite has to explain them."""
    planned = {(one.backend, one.name) for one in plan.suites}
    own = (suite.backend, suite.name)
    return [
        (path, result)
        for path, result in results
        if (result.backend, result.suite) == own or (result.backend, result.suite) not in planned
    ]


def _suite_verdict(
    suite: PlannedSuite,
    plan: Plan,
    results: Iterable[tuple[str, FileResult]],
    broken: tuple[str, ...],
) -> Verdict:
    alone = replace(plan, suites=(suite,))
    # A result names its plan by digest: those of this plan become results of the smaller one.
    moved = tuple(
        (path, replace(result, plan=alone.digest) if result.plan == plan.digest else result)
        for path, result in results
    )
    return verify(alone, Found(moved, broken))


def _suite_night(name: str, verdict: Verdict, results: Sequence[FileResult]) -> SuiteNight:
    last: dict[str, FileResult] = {}
    for result in sorted(results, key=lambda result: result.attempt):
        last[result.path] = result
    # A file that failed otherwise, such as by a crash, counts as one.
    failed = sum(result.failed or int(not result.outcome.green) for result in last.values())
    return SuiteNight(
        name,
        executed=verdict.tests,
        failed=failed,
        skipped=verdict.skipped,
        failures=tuple(p.text for p in verdict.problems if p.kind is Kind.FAILED),
        problems=tuple(
            f"{p.kind.value}: {p.text}" for p in verdict.problems if p.kind is not Kind.FAILED
        ),
    )


def _suite_addition(
    name: str, suite: PlannedSuite, verdict: Verdict, plan: Plan, run: RunOf
) -> Addition:
    ran = verdict.files > 0
    problems = [problem.text for problem in verdict.problems]
    said = f"{verdict.tests} tests in {verdict.files} files"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    point = Point(
        run.night,
        run.at,
        run.run_id,
        plan.commit,
        passed=verdict.green if ran else None,
        detail=f"{problems[0]}{more}" if problems else said,
        unusable=() if ran else ("none of the suite's files has a result",),
        run_url=run.run_url,
    )
    return Addition(SeriesHeader(series_of(name, suite.runner), EXACT, Direction.HIGHER), (point,))
