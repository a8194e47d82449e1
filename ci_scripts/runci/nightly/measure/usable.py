"""Why a night's figures must not enter a series, and why it is measured again at once; pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence

from runci.config.perf import Benchmark, Rule
from runci.core.machine import is_model
from runci.nightly.decide.everything import kin
from runci.nightly.decide.series import departure
from runci.nightly.decide.values import Value, read_nights
from runci.nightly.figures import LARGEST, SMALLEST, is_figure, may_be_zero, medians
from runci.nightly.history.lines import History, Point, Series
from runci.nightly.measure.combine import repetitions_text
from runci.nightly.measure.state import highest
from runci.nightly.record import Machine, MachineState, Measurement, Record
from runci.run.gpu import SLOWDOWNS

ENOUGH = 5  # repetitions: the median of fewer lets single spikes through
HELD_MIB = 1024  # more in use than a driver takes for itself

_MEANWHILE = "while it ran"


def reasons(
    record: Record, benchmark: Benchmark, after: Machine | None, commit_after: str
) -> tuple[str, ...]:
    """Why the whole night does not count, each one sentence with its remedy; empty where it does.

    `after` and `commit_after` are what the machine and the working tree were at the end.
    """
    return tuple(
        dict.fromkeys(
            [
                *sku(record.machine, benchmark),
                *_machine(record, after),
                *_states(record, benchmark),
                *_clock(record),
                *_tree(record, commit_after),
                *_repetitions(record.measurements),
            ]
        )
    )


def sku(machine: Machine, benchmark: Benchmark) -> Iterator[str]:
    """Whether this is the GPU that the benchmark is for."""
    if benchmark.gpu and not is_model(benchmark.gpu, machine.gpu):
        yield (
            f"wrong SKU: {machine.gpu}, but {benchmark.name} is for {benchmark.gpu}: "
            "choose that GPU with --device, or measure on another machine"
        )


def left_level(record: Record, history: History, rule: Rule) -> tuple[str, ...]:
    """What left its level by `min_change` (relative) or more, as `runci perf check` sees it, each
    as a sentence.

    This is no verdict: only whether the doubt is worth as many minutes again.
    """
    found = []
    for one in record.measurements:
        series_id = record.series_id(one.metric)
        series = history.series.get(series_id, Series(series_id, one.unit, one.direction))
        candidate, baseline = medians(one.candidate), medians(one.baseline)
        tonight = _tonight(record, candidate, baseline)
        if one.unusable or tonight is None or bool(one.baseline) != bool(record.baseline_commit):
            continue  # figures without their baseline are compared with nothing
        change = departure(series, kin(history, series), record.night, tonight, rule)
        if change is not None and abs(change) >= rule.min_change:
            found.append(f"{one.metric}: {change:+.1%} from its level")
    return tuple(found)


def _tonight(record: Record, candidate: Sequence[float], baseline: Sequence[float]) -> Value | None:
    """A metric's figures as they would be on record; None where they cannot be compared."""
    point = Point(
        night=record.night,
        at=record.finished,
        run_id=record.run_id,
        commit=record.commit,
        baseline_commit=record.baseline_commit,
        candidate=tuple(candidate),
        baseline=tuple(baseline),
    )
    driver = record.series_id("").driver_major
    return next(iter(read_nights([point], record.night, driver).usable), None)


def _machine(record: Record, after: Machine | None) -> Iterator[str]:
    before = record.machine
    if after is None:
        yield f"{before.gpu} could not be asked any more at the end: look at the host's log"
    elif after.gpu != before.gpu:
        yield f"another GPU at the end: {after.gpu}, and {before.gpu} at the start"
    elif after.driver != before.driver:
        yield f"another driver at the end: {after.driver}, and {before.driver} at the start"


def _states(record: Record, benchmark: Benchmark) -> Iterator[str]:
    during = highest(record.during)
    for when, seen in (("before", record.before), (_MEANWHILE, during), ("after", record.after)):
        if seen is not None:
            yield from _state(when, seen, benchmark)


def _state(when: str, seen: MachineState, benchmark: Benchmark) -> Iterator[str]:
    if seen.processes:
        who = ", ".join(seen.processes)
        yield f"other processes on the GPU {when}: {who}: end them, and measure again"
    elif when != _MEANWHILE and (seen.memory_used or 0) > HELD_MIB:
        yield (
            f"{seen.memory_used:,} MiB of the GPU in use {when}, by a process that the driver "
            "does not show here: end it, and measure again"
        )
    if slow := SLOWDOWNS.intersection(seen.throttled):
        yield f"throttled {when} ({', '.join(sorted(slow))}): look at cooling and power"
    if seen.temperature is not None and seen.temperature > benchmark.max_temperature:
        yield (
            f"too hot {when}: {seen.temperature} °C, above max_temperature "
            f"{benchmark.max_temperature:g}: look at the cooling"
        )


def _clock(record: Record) -> Iterator[str]:
    started, finished = (_time(text) for text in (record.started, record.finished))
    if finished < started:
        yield (
            f"the clock went backwards, from {record.started} to {record.finished}: "
            "look at the host's time service"
        )
    if record.night > max(started, finished).date().isoformat():
        yield f"the night {record.night} is in the future: look at the host's clock, or --night"


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).astimezone(datetime.timezone.utc)


def _tree(record: Record, commit_after: str) -> Iterator[str]:
    if record.commit.endswith("-dirty"):
        yield "uncommitted changes in the working tree: commit them, or measure a clean checkout"
    if commit_after != record.commit:
        yield (
            f"the working tree changed from {record.commit} to {commit_after} while it was "
            "measured: measure again"
        )


def _repetitions(measurements: Sequence[Measurement]) -> Iterator[str]:
    count = max((len(one.candidate) for one in measurements), default=0)
    if count == 0:
        yield "nothing was measured: mend the benchmark"
    elif count == 1:
        yield f"one repetition has no spread: pass --repetitions {ENOUGH} or more"
    elif count < ENOUGH:
        yield f"{count} repetitions are too few: pass --repetitions {ENOUGH} or more"


def impossible(one: Measurement) -> Iterator[str]:
    """Which of a metric's figures cannot be, each kind one sentence."""
    candidate = (*one.candidate, *one.again_candidate)
    baseline = (*one.baseline, *one.again_baseline)
    for side, runs in (("candidate", candidate), ("baseline", baseline)):
        wrong: dict[str, list[int]] = {}
        for number, values in enumerate(runs, 1):
            for kind in sorted({_kind(value, one.unit) for value in values} - {""}):
                wrong.setdefault(kind, []).append(number)
        for kind, numbers in wrong.items():
            yield (
                f"metric {one.metric!r} is {kind} in {repetitions_text(numbers)} of the "
                f"{side}: mend the benchmark"
            )


def _kind(value: float, unit: str) -> str:
    """What a figure is that no figure of this unit can be; empty for one that can."""
    if value == 0:
        return "" if may_be_zero(unit) else "zero"
    if is_figure(value):
        return ""
    if not math.isfinite(value):
        return str(value)
    if value < 0:
        return "negative"
    return f"below {SMALLEST:g}" if value < SMALLEST else f"above {LARGEST:g}"
