"""Runs the processes of a night, one after another, and reads what each printed."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runci.config.perf import Benchmark
from runci.core.errors import Exit, RunciError
from runci.nightly.measure.combine import Runs
from runci.nightly.measure.environment import words
from runci.nightly.measure.process import Files, Job, run_process
from runci.nightly.measure.show import Progress
from runci.nightly.measure.state import Probe, highest
from runci.nightly.record import EXACT, MachineState, Output, build
from runci.text.terminal import COMMANDS

CANDIDATE, BASELINE = "candidate", "baseline"
LONGEST_NAME = 200  # characters of a metric or check
LONGEST_UNIT = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_FORM = "see the documented form in runci/nightly/record.py"


def order(
    pairs: int, chance: random.Random, with_baseline: bool = True, arms: Sequence[str] = ()
) -> tuple[str, ...]:
    """ "candidate", "baseline" or the name of an arm for each process, round after round.

    As many pairs begin with one as with the other, and one more where the number is odd, so that
    whatever favours the first of two does not favour one side. With arms, each side takes each
    place in a round about as often as any other.
    """
    if arms:
        sides = [CANDIDATE, *([BASELINE] if with_baseline else []), *arms]
        chance.shuffle(sides)
        rounds = [sides[i % len(sides) :] + sides[: i % len(sides)] for i in range(pairs)]
        chance.shuffle(rounds)
        return tuple(side for each in rounds for side in each)
    if not with_baseline:
        return (CANDIDATE,) * pairs
    swapped = [pair % 2 == 1 for pair in range(pairs)]
    if pairs % 2 and chance.random() < 0.5:
        swapped = [not swap for swap in swapped]
    chance.shuffle(swapped)
    both = ((BASELINE, CANDIDATE) if swap else (CANDIDATE, BASELINE) for swap in swapped)
    return tuple(side for pair in both for side in pair)


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
    stopped: str = ""

    def measure(self, pairs: int, again: str = "") -> Runs:
        """Run so many pairs, in random order.

        Where a process fails, as on a full disk, the pairs that are whole are kept and `stopped`
        says why there are no more. Raises RunciError where there is none.
        """
        stage = self.stage
        compared = [side for side in (CANDIDATE, BASELINE) if side in stage.sides]
        arms = [] if again else [side for side in stage.sides if side not in compared]
        outputs: dict[str, list[Output]] = {side: [] for side in (CANDIDATE, BASELINE, *arms)}
        sides = order(pairs, self.chance, BASELINE in stage.sides, arms)
        stage.progress.expect(len(sides))
        for side in sides:
            if side not in outputs:
                continue  # an arm that failed
            name = f"{side} {len(outputs[side]) + 1} of {pairs}{again}"
            try:
                outputs[side].append(self.run(side, name))
            except (RunciError, OSError) as error:
                if side in arms:
                    stage.progress.note(f"{side} is left out: {error}")
                    del outputs[side]
                    continue
                whole = min(len(outputs[one]) for one in compared)
                if not whole:
                    raise
                first = str(error).partition("\n")[0]
                self.stopped = f"stopped after {whole} of {pairs} pairs{again}: {first}"
                stage.progress.note(self.stopped)
                return _runs(outputs, arms, whole)
        return _runs(outputs, arms, pairs)

    def run(self, side: str, name: str) -> Output:
        """Run one side once; `name` is for messages. Raises RunciError where it fails."""
        stage, place = self.stage, self.stage.sides[side]
        stem = str(len(self.order))
        result = stage.scratch / f"{stem}.json"
        result.unlink(missing_ok=True)  # of a try that failed
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


def _runs(outputs: Mapping[str, Sequence[Output]], arms: Sequence[str], whole: int) -> Runs:
    """The rounds that are whole, and arms that took part in all of them."""
    return Runs(
        tuple(outputs[CANDIDATE][:whole]),
        tuple(outputs[BASELINE][:whole]),
        {arm: tuple(outputs[arm][:whole]) for arm in arms if len(outputs.get(arm, ())) >= whole},
    )


def read_output(data: bytes, where: str) -> Output:
    """The object that a benchmark wrote; `where` names the run, for messages.

    Unlike JSON, it may hold NaN and infinities, so that they can be reported as figures that do
    not count. Raises RunciError: 2 for another form or schema, 3 where nothing was measured.
    """
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        shown = data[:60].decode("utf-8", "backslashreplace")
        raise RunciError(f"{where}: not JSON: {error}, in {shown!r}; {_FORM}") from error
    output = build(given, Output, where)
    if not output.samples:
        raise RunciError(f"{where}: no samples: nothing was measured", Exit.NOTHING)
    if problem := _problem(output):
        raise RunciError(f"{where}: {problem}; {_FORM}")
    return output


def _problem(output: Output) -> str:
    """What a schema cannot say; «» where all is well."""
    names = [one.metric for one in output.samples]
    checks = [one.name for one in output.checks]
    if twice := _twice(names):
        return f"metric {twice!r} is there twice"
    if twice := _twice(checks):
        return f"check {twice!r} is there twice"
    if both := next((name for name in names if name in checks), None):
        return f"{both!r} is both a metric and a check"
    for name in (*names, *checks):
        if not _is_plain(name) or len(name) > LONGEST_NAME:
            return f"{name[:60]!r} is no name of a metric or check"
    for one in output.samples:
        if one.unit == EXACT or not _is_plain(one.unit) or len(one.unit) > LONGEST_UNIT:
            return f"metric {one.metric!r} has the unit {one.unit[:60]!r}: give a unit such as us"
        if one.reference is not None and (
            one.reference not in names or one.reference == one.metric
        ):
            return f"metric {one.metric!r} has the reference {one.reference!r}, which is no other"
    if (text := _unwritable(output)) is not None:
        return f"{text[:60]!r} is no text"
    return ""


def _unwritable(output: Output) -> str | None:
    """A text that no file can hold: JSON's escapes can spell half of a pair of surrogates."""
    texts = [one.detail for one in output.checks]
    texts += [text for pair in output.versions.items() for text in pair]
    return next((text for text in texts if _SURROGATE.search(text)), None)


def _is_plain(text: str) -> bool:
    """What a person can read and write again: printable, and no space around it."""
    if text.startswith(COMMANDS):  # GitHub would take a line of the log for a command
        return False
    return text.isprintable() and bool(text) and text == text.strip()


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
