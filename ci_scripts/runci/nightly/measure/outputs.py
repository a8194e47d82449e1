"""What processes printed → measurements, checks, and why they do not count; pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.config.perf import Benchmark, Rule
from runci.core.machine import is_model
from runci.nightly.decide.everything import kin
from runci.nightly.decide.series import departure
from runci.nightly.decide.values import Value, read_nights
from runci.nightly.figures import LARGEST, SMALLEST, is_figure, may_be_zero, medians
from runci.nightly.history.lines import History, Point, Series
from runci.nightly.measure.state import highest
from runci.nightly.record import Check, Machine, MachineState, Measurement, Output, Record, Sampled
from runci.run.gpu import SLOWDOWNS
from runci.text.markdown import one_line

LONGEST_DETAIL = 1000  # characters of what a check says; it is kept for ever
ENOUGH = 5  # repetitions: the median of fewer lets single spikes through
HELD_MIB = 1024  # more in use than a driver takes for itself

_MEANWHILE = "while it ran"


@dataclass(frozen=True, slots=True)
class Runs:
    """What the processes printed: repetition i of each side is pair i; no baseline, no pairs."""

    candidate: tuple[Output, ...]
    baseline: tuple[Output, ...] = ()
    arms: Mapping[str, tuple[Output, ...]] = field(default_factory=dict)

    def joined(self, others: Runs) -> Runs:
        """These and then others; the numbers of repetitions go on."""
        return Runs(self.candidate + others.candidate, self.baseline + others.baseline)


def measurements(first: Runs, again: Runs | None = None) -> tuple[Measurement, ...]:
    """Every metric of the candidate, in the order of its first mention.

    A repetition that lacks a metric has no values there; a baseline that never had it is empty.
    """
    known: dict[str, Sampled] = {}
    for output in (*first.candidate, *(again.candidate if again else ())):
        for one in output.samples:
            known.setdefault(one.metric, one)
    return tuple(
        Measurement(
            metric=one.metric,
            unit=one.unit,
            direction=one.direction,
            candidate=_values(one.metric, first.candidate),
            baseline=_values(one.metric, first.baseline),
            reference=one.reference,
            again_candidate=_values(one.metric, again.candidate) if again else (),
            again_baseline=_values(one.metric, again.baseline) if again else (),
            arms={
                name: values
                for name, outputs in first.arms.items()
                if (values := _values(one.metric, outputs))
            },
        )
        for one in known.values()
    )


def _values(metric: str, outputs: Sequence[Output]) -> tuple[tuple[float, ...], ...]:
    found = [
        next((one.values for one in output.samples if one.metric == metric), ())
        for output in outputs
    ]
    return tuple(found) if any(found) else ()


def disagreements(runs: Runs) -> tuple[tuple[str, str], ...]:
    """Where the repetitions are not the same measurement: metrics, units, directions, checks.

    Each is a name and a sentence.
    """
    return (
        *_within("candidate", runs.candidate),
        *_within("baseline", runs.baseline),
        *_both(runs.candidate),
        *_between(runs),
    )


def _within(side: str, outputs: Sequence[Output]) -> Iterable[tuple[str, str]]:
    metrics = [{one.metric: one for one in output.samples} for output in outputs]
    named = [[one.name for one in output.checks] for output in outputs]
    for kind, runs in (("metric", [list(run) for run in metrics]), ("check", named)):
        for name in dict.fromkeys(name for run in runs for name in run):
            if lacking := [number for number, run in enumerate(runs, 1) if name not in run]:
                where = f"{repetitions_text(lacking)} of the {side}"
                yield name, f"{kind} {name!r} is missing in {where}"
    for name in dict.fromkeys(name for run in metrics for name in run):
        if len(_kinds(name, outputs)) > 1:
            said = f"metric {name!r} changes its unit, direction or reference within the {side}"
            yield name, said
        found = enumerate((run.get(name) for run in metrics), 1)
        if empty := [number for number, one in found if one is not None and not one.values]:
            where = f"{repetitions_text(empty)} of the {side}"
            yield name, f"metric {name!r} has no values in {where}"


def _both(outputs: Sequence[Output]) -> Iterable[tuple[str, str]]:
    """One run has no name twice; `outputs` sees to that."""
    for name in sorted(_metrics(outputs) & {one.name for run in outputs for one in run.checks}):
        yield name, f"{name!r} is a metric in one repetition and a check in another"


def _metrics(outputs: Sequence[Output]) -> set[str]:
    return {one.metric for output in outputs for one in output.samples}


def repetitions_text(numbers: Sequence[int]) -> str:
    """«repetition 1, 3»."""
    return f"repetition {', '.join(map(str, numbers))}"


def _between(runs: Runs) -> Iterable[tuple[str, str]]:
    for one in runs.candidate[0].samples if runs.candidate else ():
        ours = {kind[:2] for kind in _kinds(one.metric, runs.candidate)}
        theirs = {kind[:2] for kind in _kinds(one.metric, runs.baseline)}
        if theirs and ours != theirs:
            said = f"metric {one.metric!r} has another unit or direction in the baseline"
            yield one.metric, said


def _kinds(metric: str, outputs: Sequence[Output]) -> set[tuple[str, str, str | None]]:
    return {
        (one.unit, one.direction.value, one.reference)
        for output in outputs
        for one in output.samples
        if one.metric == metric
    }


def only_in_baseline(runs: Runs) -> tuple[str, ...]:
    """Metrics that the candidate no longer has."""
    ours = _metrics(runs.candidate)
    theirs = {one.metric: None for output in runs.baseline for one in output.samples}
    return tuple(name for name in theirs if name not in ours)


def checks(outputs: Sequence[Output]) -> tuple[Check, ...]:
    """One of each name, failed ones first; their details say in which repetitions they failed.

    Without what is a metric in another repetition: no series could hold it.
    """
    metrics = _metrics(outputs)
    found: dict[str, Check] = {}
    failed: dict[str, list[int]] = {}
    for number, output in enumerate(outputs, 1):
        for one in output.checks:
            if one.name in metrics:
                continue
            if not one.passed:
                failed.setdefault(one.name, []).append(number)
            if one.name not in found or (found[one.name].passed and not one.passed):
                found[one.name] = one
    said = [_with_repetitions(one, failed.get(one.name), len(outputs)) for one in found.values()]
    return tuple(sorted(said, key=lambda one: one.passed))


def _with_repetitions(check: Check, failed: Sequence[int] | None, total: int) -> Check:
    detail = one_line(check.detail, LONGEST_DETAIL)
    if failed:
        where = f"{repetitions_text(failed)} of {total}"
        detail = f"{where}: {detail}" if detail else where
    return replace(check, detail=detail)


def versions(outputs: Sequence[Output], own: Mapping[str, str]) -> dict[str, str]:
    """What the candidate's figures depend on, and what measured them."""
    said = outputs[0].versions if outputs else {}
    return {**own, **said}


def kept(measurement: Measurement) -> Measurement:
    """Without values that no series can hold; without any where pairs are then broken.

    `usable` says which: JSON has no NaN, and of huge ones no median can be had.
    """
    one = replace(
        measurement,
        candidate=_possible(measurement.candidate, measurement.unit),
        baseline=_possible(measurement.baseline, measurement.unit),
        again_candidate=_possible(measurement.again_candidate, measurement.unit),
        again_baseline=_possible(measurement.again_baseline, measurement.unit),
    )
    arms = {name: _possible(runs, one.unit) for name, runs in measurement.arms.items()}
    whole_arms = {n: r for n, r in arms.items() if all(r) and len(r) == len(one.candidate)}
    one = replace(one, arms=whole_arms)
    sides = (one.candidate, one.baseline, one.again_candidate, one.again_baseline)
    whole = bool(one.candidate) and all(all(runs) for runs in sides)
    pairs = (sides[:2], sides[2:])
    if whole and all(len(t) in (0, len(o)) for o, t in pairs):
        return one
    return replace(one, candidate=(), baseline=(), again_candidate=(), again_baseline=(), arms={})


def _possible(runs: tuple[tuple[float, ...], ...], unit: str) -> tuple[tuple[float, ...], ...]:
    zero = may_be_zero(unit)
    return tuple(tuple(v for v in values if is_figure(v) and (v or zero)) for values in runs)


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
