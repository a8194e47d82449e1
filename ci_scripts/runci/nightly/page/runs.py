"""A record's part of the page: the machine, versions, how to repeat it; and nights without one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runci.nightly.history.lines import Night
from runci.nightly.page import words
from runci.nightly.page.words import Link, commit_link, run_link
from runci.nightly.record import Check, Record
from runci.nightly.verdict import Verdict


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


@dataclass(frozen=True, slots=True)
class MissingNight:
    """A night without figures, or several one after the other of which nothing is known.

    `run` links to the run, where there was one; `why` is what is known.
    """

    night: str
    run: Link
    why: str


def missing_nights(missing: Sequence[str], nights: Sequence[Night]) -> tuple[MissingNight, ...]:
    """Newest first; nights without a run that follow each other as one line."""
    ran = {night.night: night for night in nights}
    groups: list[list[str]] = []
    for night in sorted(missing, reverse=True):
        before = groups[-1][-1] if groups else ""
        if night not in ran and before not in ran and _follows(night, before):
            groups[-1].append(night)
        else:
            groups.append([night])
    return tuple(_missing_night(group, ran.get(group[0])) for group in groups)


def _follows(night: str, newer: str) -> bool:
    one, other = words.day(night), words.day(newer)
    return one is not None and other is not None and other - one == 1


def _missing_night(group: Sequence[str], found: Night | None) -> MissingNight:
    if found is None:
        several = len(group) > 1
        name = f"{group[-1]} to {group[0]}, {len(group)} nights" if several else group[0]
        return MissingNight(name, Link(words.NONE), "no run")
    why = "; ".join(found.unusable) or "the run measured nothing"
    return MissingNight(found.night, run_link(found.run_url, found.run_id), why)
