"""Which tests of one backend go to which of its machines, by what jobs run there today. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runci.adopt.machines import Machine
from runci.core.marks import compiled
from runci.workflows.runs import PathRun

WHOLE = ""  # of a file: in place of an expression of marks


@dataclass(frozen=True, slots=True)
class OnMachine:
    """The tests of one machine: whole files, and by expressions of marks the files."""

    files: list[str] = field(default_factory=list)
    marked: dict[str, list[str]] = field(default_factory=dict)


def spread(
    files: Iterable[str],
    runs: Iterable[tuple[str, PathRun]],
    machines: Sequence[Machine],
    marks: Mapping[str, Iterable[Collection[str]]],
) -> dict[Machine, OnMachine]:
    """The machines that get tests, the first of them what no job names.

    `runs` are (workflow, run); those count that surely run files, or tests of them by marks, in a
    job that is on one machine. Where these are not of several machines, all goes to the first.
    """
    first = machines[0]
    of_job = _of_jobs(machines)
    placed = [
        (run, of_job[workflow, run.job], expression)
        for workflow, run in runs
        if (workflow, run.job) in of_job and (expression := _expression(run)) is not None
    ]
    found: dict[Machine, OnMachine] = {first: OnMachine()}
    several = len({machine for _, machine, _ in placed}) > 1
    for path in files:
        on: dict[Machine, list[str]] = {}
        for run, machine, expression in placed if several else ():
            if run.covers(path) and _may_have(path, expression, marks):
                on.setdefault(machine, []).append(expression)
        if not any(WHOLE in expressions for expressions in on.values()):
            on.pop(first, None)  # it has what no other has, so that no test is without one
            rest = _neither([one for expressions in on.values() for one in expressions])
            if _may_have(path, rest, marks):
                on[first] = [rest]
        for machine, expressions in on.items():
            _put(path, expressions, found.setdefault(machine, OnMachine()))
    return {machine: one for machine, one in found.items() if one.files or one.marked}


def _put(path: str, expressions: Sequence[str], on: OnMachine) -> None:
    if WHOLE in expressions:
        on.files.append(path)
    else:
        on.marked.setdefault(_either(expressions), []).append(path)


def _of_jobs(machines: Sequence[Machine]) -> dict[tuple[str, str], Machine]:
    """The machine of each job that is on no other, whatever its matrix is."""
    found: dict[tuple[str, str], list[Machine]] = {}
    for machine in machines:
        for job in machine.jobs:
            found.setdefault(job, []).append(machine)
    return {job: one[0] for job, one in found.items() if len(one) == 1}


def _expression(run: PathRun) -> str | None:
    """By which marks a command selects tests; None where it does so otherwise, or may not run."""
    words = shlex.split(run.part)
    if not run.certain or (words and (len(words) != 2 or words[0] != "-m")):
        return None
    try:
        compiled(words[1]) if words else None
    except ValueError:
        return None
    return words[1] if words else WHOLE


def _may_have(path: str, expression: str, marks: Mapping[str, Iterable[Collection[str]]]) -> bool:
    fits = compiled(expression) if expression else None
    return fits is None or any(fits(one) is not False for one in marks.get(path, ((),)))


def _either(expressions: Sequence[str]) -> str:
    """One expression for tests that any of these takes."""
    different = list(dict.fromkeys(expressions))
    return different[0] if len(different) == 1 else " or ".join(f"({one})" for one in different)


def _neither(expressions: Sequence[str]) -> str:
    """For tests that none of these takes."""
    return f"not ({_either(expressions)})" if expressions else WHOLE
