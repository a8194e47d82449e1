"""Selected suites, registrations and times → the plan; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.config.taxonomy import Suite, Taxonomy
from runci.core.registration import Backend, Registration
from runci.plan.model import Accepted, Plan, PlannedFile, PlannedSuite, Shard
from runci.plan.partition import Item, Part, fewest, split
from runci.plan.selection import Key, Registrations, Selection
from runci.plan.times import DEFAULT_MS, Fit, Prediction, Times, fit, milliseconds, predict
from runci.text.wording import plural, some

# Percent of a suite's timeout that no shard is planned to need: files vary, machines differ.
MARGIN = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How to plan. `shards` fixes the number of a suite's shards, by its name; `only` are the tests
    to run of a file, by its path."""

    margin: int = MARGIN
    shards: Mapping[str, int] = field(default_factory=dict)
    times: Times = field(default_factory=lambda: Times({}))
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def make_plan(
    commit: str,
    selection: Selection,
    taxonomy: Taxonomy,
    registrations: Registrations,
    settings: Settings,
    notes: Iterable[str] = (),
    accepted: Iterable[Accepted] = (),
) -> Plan:
    """The plan of the selected suites that have tests; suites by backend and name."""
    tests = tests_of(registrations)
    order = list(Backend)
    suites: list[PlannedSuite] = []
    said = list(notes)
    empty = []
    for key in sorted(selection.suites, key=lambda key: (order.index(key[0]), key[1])):
        suite = taxonomy.suites[key]
        if key in tests:
            planned, remarks = _plan_suite(suite, tests[key], taxonomy, settings)
            suites.append(replace(planned, reasons=selection.suites[key]))
            said += remarks
        else:
            empty.append(f"{suite.backend.value} {suite.name}")
    if empty:
        said.append(f"{plural(len(empty), 'suites')} without tests: {some(empty)}")
    others: dict[str, list[str]] = {}
    for key in selection.other_kinds:
        if key in tests:
            kind = taxonomy.suites[key].kind.value
            others.setdefault(kind, []).append(f"{key[0].value} {key[1]}")
    for kind, names in others.items():
        said.append(f"{plural(len(names), 'suites')} of kind {kind} left out: {some(names)}")
    elsewhere = [f"{key[0].value} {key[1]}" for key in selection.elsewhere if key in tests]
    if elsewhere:
        number = plural(len(elsewhere), "suites")
        said.append(f"{number} that another service runs left out: {some(elsewhere)}")
    for why, paths in selection.idle.items():
        verb = "starts" if len(paths) == 1 else "start"
        said.append(f"{plural(len(paths), 'changed paths')} {verb} nothing ({why}): {some(paths)}")
    return Plan(commit, tuple(suites), selection.everything, tuple(said), tuple(accepted))


def _plan_suite(
    suite: Suite, tests: Mapping[str, Registration], taxonomy: Taxonomy, settings: Settings
) -> tuple[PlannedSuite, list[str]]:
    """One suite with its shards, and what is to be said of it."""
    name = f"{suite.backend.value} {suite.name}"
    cut = [_cut(suite, under, tests, settings) for under in suite.under or (None,)]
    only = {path: settings.only.get(path, item.only) for path, item in tests.items()}
    runner = taxonomy.runners.get(suite.runner) if suite.runner else None
    remarks = list(dict.fromkeys(remark for lane in cut for remark in lane.remarks))
    if suite.run_by is not None:
        remarks.append(f"no workflow of this repository runs it: {suite.run_by}")
    planned = PlannedSuite(
        backend=suite.backend.value,
        name=suite.name,
        kind=suite.kind.value,
        runner=suite.runner,
        label=runner.label if runner is not None else None,
        gpus=runner.gpus if runner is not None else 0,
        gpu=runner.gpu if runner is not None else None,
        compute_capability=runner.compute_capability if runner is not None else None,
        memory_gb=runner.memory_gb if runner is not None else None,
        timeout_minutes=suite.timeout_minutes,
        execution=taxonomy.execution(suite).value,
        max_deselected=suite.max_deselected,
        invocation=suite.invocation,
        shards=tuple(_shards(suite, cut, only)),
    )
    return planned, [f"{name}: {remark}" for remark in remarks]


@dataclass(frozen=True, slots=True)
class _Lane:
    """The parts of a suite under one tool, or under none, and what is to be said of them."""

    under: str | None
    parts: tuple[Part, ...]
    predicted: Mapping[str, Prediction]
    remarks: tuple[str, ...]


def _cut(
    suite: Suite, under: str | None, tests: Mapping[str, Registration], settings: Settings
) -> _Lane:
    """A tool has a file's process to itself, so that there are no groups under one."""
    fitted = _fit(suite, tests, settings.times, under)
    predicted = {
        path: _predict(suite, path, item, settings.times, fitted, under)
        for path, item in tests.items()
    }
    groups = {path: None if under else item.in_process_group for path, item in tests.items()}
    items = [Item(path, predicted[path].ms, groups[path]) for path in tests]
    parts, remarks = _parts(suite, items, settings)
    defaults = sorted(path for path in tests if predicted[path].source == "default")
    if defaults:
        remarks.append(f"{plural(len(defaults), 'files')} without an estimate: {some(defaults)}")
    if fitted.note is not None:
        remarks.append(fitted.note)
    named = [f"under {under}: {remark}" for remark in remarks] if under else remarks
    return _Lane(under, parts, predicted, tuple(named))


def tests_of(registrations: Registrations) -> dict[Key, dict[str, Registration]]:
    """The enabled registrations by suite and path; a file that a suite has twice runs once."""
    found: dict[Key, dict[str, Registration]] = {}
    for path in sorted(registrations):
        for item in registrations[path]:
            if item.enabled:
                found.setdefault((item.backend, item.effective_suite), {}).setdefault(path, item)
    return found


def _time_limit(suite: Suite, margin: int) -> int | None:
    """The milliseconds that a shard may be predicted to take; None without a timeout."""
    if suite.timeout_minutes is None:
        return None
    return milliseconds(suite.timeout_minutes * 60) * (100 - margin) // 100


def _parts(
    suite: Suite, items: Sequence[Item], settings: Settings
) -> tuple[tuple[Part, ...], list[str]]:
    limit = _time_limit(suite, settings.margin)
    fixed = settings.shards.get(suite.name)
    if fixed is None and limit is None:
        return split(items, 1), ["one shard, since the suite has no timeout_minutes"]
    parts = split(items, fixed) if fixed is not None else fewest(items, limit or 1)
    remarks = []
    if fixed is not None and len(parts) < fixed:
        remarks.append(f"{len(parts)} instead of {fixed} shards, so that none is empty")
    over = [part for part in parts if limit is not None and part.ms > limit]
    if over and limit is not None:
        longest = max(over, key=lambda part: part.ms)
        path = max(longest.items, key=lambda item: item.ms).path
        remarks.append(
            f"a shard of {longest.ms / 60_000:.1f} minutes exceeds the "
            f"{limit / 60_000:.1f} that the timeout leaves: split {path}, or raise timeout_minutes"
        )
    return parts, remarks


def _scaled(suite: Suite, seconds: float | None, under: str | None) -> float | None:
    """An estimate, of a run without a tool, for one under a tool."""
    return seconds * suite.under_factor if seconds is not None and under else seconds


def _fit(suite: Suite, tests: Mapping[str, Registration], times: Times, under: str | None) -> Fit:
    pairs = []
    for path, item in tests.items():
        timing = times.of(suite.backend.value, suite.name, path, under or "")
        estimate = _scaled(suite, item.est_time, under)
        if timing is not None and estimate is not None:
            pairs.append((milliseconds(estimate), timing.p90))
    return fit(pairs)


def _predict(
    suite: Suite, path: str, item: Registration, times: Times, fitted: Fit, under: str | None
) -> Prediction:
    timing = times.of(suite.backend.value, suite.name, path, under or "")
    estimate = _scaled(suite, item.est_time, under)
    default = _scaled(suite, suite.default_est_time or DEFAULT_MS / 1000, under)
    return predict(timing, estimate, default, fitted.factor)


def _shards(
    suite: Suite, lanes: Sequence[_Lane], only: Mapping[str, tuple[str, ...]]
) -> Iterable[Shard]:
    """The shards of all lanes, counted through: a workflow's matrix knows only the suite's."""
    count = sum(len(lane.parts) for lane in lanes)
    cut = ((lane, part) for lane in lanes for part in lane.parts)
    for index, (lane, part) in enumerate(cut):
        files = tuple(
            PlannedFile(
                item.path,
                item.ms / 1000,
                lane.predicted[item.path].source,
                item.group,
                only.get(item.path, ()),
            )
            for item in part.items
        )
        name = f"{suite.backend.value}-{suite.name}-{index + 1}of{count}"
        yield Shard(name, index, count, part.ms / 1000, files, lane.under)
