"""Runs the processes of a night, one after another, and reads what each printed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runci.config.perf import Benchmark
from runci.core.errors import Exit, RunciError
from runci.nightly.measure.environment import words
from runci.nightly.measure.outputs import Runs
from runci.nightly.measure.show import Progress
from runci.nightly.measure.state import Probe, highest
from runci.nightly.record import EXACT, MachineState, Output, build
from runci.run.output import HEAD, TAIL
from runci.run.output import Output as Printed
from runci.run.output import last_lines
from runci.run.processes import send_group, signal_name
from runci.text.terminal import COMMANDS, note, printable

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


TICK = 1.0  # seconds between two looks at the machine
MOST = 64 << 20  # bytes that a benchmark may print, and that its JSON may have
SHOWN = 15  # lines of its output in a message
_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Job:
    """One process. `timeout` in seconds; `name` for messages; `variables` are added to ours."""

    name: str
    command: Sequence[str]
    cwd: Path
    variables: Mapping[str, str]
    timeout: float


@dataclass(frozen=True, slots=True)
class Files:
    """Where one process writes: what it prints, and the JSON where it writes that itself."""

    out: Path
    error: Path
    json: Path | None

    @property
    def result(self) -> Path:
        """The file that should hold the JSON."""
        return self.json or self.out

    def size(self) -> int:
        """Bytes of all of them."""
        paths = (path for path in (self.out, self.error, self.json) if path is not None)
        return sum(path.stat().st_size for path in paths if path.exists())


def run_process(job: Job, files: Files, log: Path, tick: Callable[[], None]) -> bytes:
    """Run it to its end, append what it printed to `log`, and return the JSON that it gave.

    `tick` is called about once a second meanwhile. Raises RunciError with the last lines of its
    output: 2 where it cannot be started or gives nothing, 1 where it fails or takes too long.
    """
    began = time.monotonic()
    problem = ""
    try:
        with _started(job, files) as process:
            problem = _wait(process, job.timeout, files, tick) or _too_much(files)
    finally:
        _append(log, job, files, problem or f"ended after {time.monotonic() - began:.1f} s")
    if problem:
        raise RunciError(f"{job.name}: {problem}{_tail(files, log)}", Exit.FINDINGS)
    if files.result.exists() and not files.result.is_file():  # reading a pipe has no end
        raise RunciError(f"{job.name}: what it wrote as {{output}} is no file{_tail(files, log)}")
    try:
        return files.result.read_bytes()
    except OSError as error:
        raise RunciError(
            f"{job.name}: ended with status 0 and wrote no {{output}}: {error.strerror}"
            f"{_tail(files, log)}"
        ) from error


@contextlib.contextmanager
def _started(job: Job, files: Files) -> Iterator[subprocess.Popen[bytes]]:
    """The process; at the end, however that comes, nothing of its group is left."""
    with files.out.open("wb") as out, files.error.open("wb") as error:
        try:
            process = subprocess.Popen(  # noqa: S603  the command of perf.yml, and no shell
                job.command,
                cwd=job.cwd,
                env={**os.environ, **job.variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error,
                start_new_session=True,
            )
        except OSError as problem:
            raise RunciError(
                f"{job.name}: cannot start {job.command[0]}: {problem.strerror}"
            ) from problem
    try:
        yield process
    finally:
        send_group(process.pid, signal.SIGKILL)
        process.wait()


def _wait(
    process: subprocess.Popen[bytes], timeout: float, files: Files, tick: Callable[[], None]
) -> str:
    """Wait for its end; what went wrong, «» for status 0."""
    until = time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        try:
            return _status(process.wait(min(max(left, 0), TICK)))
        except subprocess.TimeoutExpired:
            tick()
        if problem := _too_much(files):
            return problem
        if left <= 0:
            send_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            return f"took longer than timeout_minutes ({timeout / 60:g} min)"


def _too_much(files: Files) -> str:
    return f"printed more than {MOST >> 20} MiB" if files.size() > MOST else ""


def _status(status: int) -> str:
    if status < 0:
        return f"ended by {signal_name(-status)}"
    return f"exit status {status}" if status else ""


def _content(path: Path) -> bytes:
    """What a file holds; in the middle of a large one, how much was left out."""
    kept = Printed(HEAD, TAIL)
    with contextlib.suppress(OSError), path.open("rb") as stream:
        while data := stream.read(HEAD):
            kept.add(data)
    return kept.content()


def _append(log: Path, job: Job, files: Files, end: str) -> None:
    parts = [f"=== {job.name}: {' '.join(job.command)}\n".encode(errors="backslashreplace")]
    parts.append(_content(files.error))
    if files.json is not None:
        parts.append(_content(files.out))
    parts.append(f"=== {job.name}: {end}\n".encode())
    try:
        with log.open("ab") as stream:
            stream.write(b"".join(parts))
    except OSError as error:  # what was measured is worth more than what it printed
        note(f"{log}: cannot write the log: {error.strerror}")


def _tail(files: Files, log: Path) -> str:
    """Where to read on, and the last lines that it printed, each on a line of its own."""
    lines = last_lines(_content(files.error), SHOWN) or last_lines(_content(files.out), SHOWN)
    shown = "".join(f"\n    {printable(line)}" for line in lines)
    return f"; all that it printed is in {log}{', last:' if lines else ''}{shown}"
