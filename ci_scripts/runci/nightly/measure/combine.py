"""From what each process printed to the measurements and checks of the record; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.nightly.figures import is_figure, may_be_zero
from runci.nightly.record import Check, Measurement, Output, Sampled
from runci.text.markdown import one_line

LONGEST_DETAIL = 1000  # characters of what a check says; it is kept for ever


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
