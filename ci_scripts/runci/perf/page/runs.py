"""A record's part of the page: the machine before and after, versions, order, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from runci.perf.page import words
from runci.perf.page.links import Link, commit_link, run_link
from runci.perf.record import Record
from runci.perf.samples import Check
from runci.perf.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of `runci perf measure` said of itself."""

    benchmark: str
    machine: str
    facts: tuple[tuple[str, str], ...]
    commit: Link
    run: Link
    states: tuple[tuple[str, str, str, str], ...]  # what, before, while measuring, after
    versions: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    order: str
    command: str
    unusable: tuple[str, ...]


def run_view(record: Record) -> Run:
    """The record without its samples."""
    return Run(
        benchmark=f"{record.benchmark}, version {record.version}",
        machine=f"{record.machine.gpu}, driver {record.machine.driver}",
        facts=tuple(_facts(record)),
        commit=commit_link(record.run_url, record.commit),
        run=run_link(record.run_url, record.run_id),
        states=tuple(_states(record)),
        versions=tuple(sorted(record.versions.items())),
        checks=record.checks,
        order=" ".join(word[:1].upper() for word in record.order) or words.NONE,
        command=shlex.join(record.command),
        unusable=record.unusable,
    )


def _facts(record: Record) -> Iterable[tuple[str, str]]:
    machine = record.machine
    yield "host", machine.host or words.NONE
    yield "processor", machine.cpu or words.NONE
    if machine.capability:
        yield "compute capability", machine.capability
    yield "started", record.started
    yield "finished", record.finished
    yield "baseline commit", words.short(record.baseline_commit)
    yield "seed", str(record.seed)


def _states(record: Record) -> Iterable[tuple[str, str, str, str]]:
    before, after = record.before, record.after
    for name, unit, what in (
        ("at", "", "time"),
        ("sm_clock", " MHz", "SM clock"),
        ("memory_clock", " MHz", "memory clock"),
        ("temperature", " °C", "temperature"),
        ("power", " W", "power"),
        ("memory_used", " MiB", "memory used"),
        ("load", "", "load of the host, one minute"),
    ):
        known = [seen for state in record.during if (seen := getattr(state, name)) is not None]
        highest = _state(max(known), unit) if known and name != "at" else words.NONE
        yield what, _state(getattr(before, name), unit), highest, _state(getattr(after, name), unit)
    for name, what in (
        ("throttled", "clocks held down by"),
        ("processes", "other processes on the GPU"),
    ):
        seen = tuple(dict.fromkeys(n for state in record.during for n in getattr(state, name)))
        during = _names(seen) if record.during else words.NONE
        yield what, _names(getattr(before, name)), during, _names(getattr(after, name))


def _state(value: int | float | str | None, unit: str) -> str:
    if value is None:
        return "not known"
    if isinstance(value, float):
        return f"{value:,.1f}{unit}"
    return f"{value:,}{unit}" if isinstance(value, int) else value


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def reproduce(verdict: Verdict, record: Record | None) -> str:
    """The commands that measure a metric's benchmark again, on a machine of the same kind."""
    commit = (record.commit if record else "") or verdict.commit
    measure = ["runci", "perf", "measure", verdict.id.benchmark, "--output", "record.json"]
    if record is not None:
        pairs = max((len(m.candidate) for m in record.measurements), default=0)
        measure += ["--repetitions", str(pairs)] if pairs else []
        measure += ["--seed", str(record.seed)]
        measure += ["--baseline", record.baseline_commit] if record.baseline_commit else []
    checkout = f"git checkout {shlex.quote(commit)}\n" if commit else ""
    return checkout + shlex.join(measure)
