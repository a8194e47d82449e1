"""A night's record → the lines to append; pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from runci.config.perf import check_night
from runci.core.errors import RunciError
from runci.nightly.figures import LARGEST, SMALLEST, is_figure, may_be_zero, medians, middle
from runci.nightly.history.additions import Addition, Additions
from runci.nightly.history.lines import Night, Point, SeriesHeader
from runci.nightly.record import (
    EXACT,
    Check,
    Direction,
    Measurement,
    Record,
)


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
