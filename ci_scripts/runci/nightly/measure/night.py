"""Runs the processes of a night, one after another, and keeps what each said and saw."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runci.config.perf import Benchmark
from runci.nightly.measure.combine import Runs
from runci.nightly.measure.environment import words
from runci.nightly.measure.outputs import read_output
from runci.nightly.measure.process import Files, Job, run_process
from runci.nightly.measure.show import Progress
from runci.nightly.measure.state import Probe, highest
from runci.nightly.record import MachineState, Output

CANDIDATE, BASELINE = "candidate", "baseline"


def order(pairs: int, chance: random.Random, with_baseline: bool = True) -> tuple[str, ...]:
    """ "candidate" or "baseline" for each process, pair after pair.

    As many pairs begin with one as with the other, and one more where the number is odd, so that
    whatever favours the first of two does not favour one side.
    """
    if not with_baseline:
        return (CANDIDATE,) * pairs
    swapped = [pair % 2 == 1 for pair in range(pairs)]
    if pairs % 2 and chance.random() < 0.5:
        swapped = [not swap for swap in swapped]
    chance.shuffle(swapped)
    sides = ((BASELINE, CANDIDATE) if swap else (CANDIDATE, BASELINE) for swap in swapped)
    return tuple(side for pair in sides for side in pair)


@dataclass(frozen=True, slots=True)
class Side:
    """Where one side runs: its folder, and its variables."""

    folder: Path
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stage:
    """All that is decided before anything runs. `scratch` is a temporary folder."""

    benchmark: Benchmark
    sides: Mapping[str, Side]
    scratch: Path
    log: Path
    probe: Probe
    progress: Progress


@dataclass
class Night:
    """What has run so far; `measure` adds to it."""

    stage: Stage
    chance: random.Random
    order: list[str] = field(default_factory=list)
    during: list[MachineState] = field(default_factory=list)

    def measure(self, pairs: int, again: str = "") -> Runs:
        """Run so many pairs, in random order. Raises RunciError where one fails."""
        stage = self.stage
        sides = order(pairs, self.chance, BASELINE in stage.sides)
        stage.progress.expect(len(sides))
        outputs: dict[str, list[Output]] = {CANDIDATE: [], BASELINE: []}
        for side in sides:
            name = f"{side} {len(outputs[side]) + 1} of {pairs}{again}"
            outputs[side].append(self._run(side, name))
        return Runs(tuple(outputs[CANDIDATE]), tuple(outputs[BASELINE]))

    def _run(self, side: str, name: str) -> Output:
        stage, place = self.stage, self.stage.sides[side]
        stem = str(len(self.order))
        result = stage.scratch / f"{stem}.json"
        command, writes = words(stage.benchmark.command, result)
        out, error = stage.scratch / f"{stem}.out", stage.scratch / f"{stem}.err"
        files = Files(out, error, result if writes else None)
        job = Job(
            name, command, place.folder, place.variables, stage.benchmark.timeout_minutes * 60
        )
        seen: list[MachineState] = []

        def look() -> None:
            if (state := stage.probe.glance()) is not None:
                seen.append(state)

        stage.progress.begin(name)
        data = run_process(job, files, stage.log, look)
        if not seen:
            look()
        stage.progress.end(name)
        self.order.append(side)
        if (state := highest(seen)) is not None:
            self.during.append(state)
        return read_output(data, f"{stage.benchmark.name}, {name}")
