"""`runci perf measure`: perf.yml's benchmark → one night's record."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import platform
import random
import secrets
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci import __version__
from runci.commands.shared import repository_arguments
from runci.config.perf import Benchmark, Config, check_night, config_path, run_url, settings
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.nightly.history.lines import History
from runci.nightly.measure import outputs
from runci.nightly.measure.environment import (
    baseline_variables,
    below_top,
    checked_out,
    head,
    refuse_copies,
    refuse_shared,
    resolve,
    resolve_arm,
    scratch_folder,
)
from runci.nightly.measure.night import BASELINE, CANDIDATE, Night, Side, Stage
from runci.nightly.measure.outputs import Runs
from runci.nightly.measure.show import Progress, summarize, table, title
from runci.nightly.measure.state import Probe, leased_probe, now
from runci.nightly.record import Machine, Measurement, Record, encode
from runci.text.terminal import note, write

_ROOM = 4 << 20  # bytes; a record of 50 metrics, 40 samples each, has 0.5 MiB


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for, checked. `baseline` and `arms` are full commits."""

    root: Path
    config: Config
    benchmark: Benchmark
    baseline: str | None
    arms: Mapping[str, str]
    pairs: int
    seed: int
    night: str
    output: Path
    history: History | None


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    step.add_argument("benchmark", metavar="BENCHMARK", help="its name in perf.yml")
    step.add_argument("--output", metavar="FILE", required=True, help="the record, as JSON")
    step.add_argument("--repetitions", type=int, default=5, metavar="N", help="pairs (5)")
    step.add_argument("--seed", type=int, metavar="N", help="of the order (default: random)")
    step.add_argument("--baseline", metavar="COMMIT", help="instead of the pinned one")
    step.add_argument("--night", metavar="DATE", help="default: today, UTC")
    step.add_argument("--device", type=int, default=0, metavar="INDEX", help="GPU (0)")
    step.add_argument(
        "--history", metavar="DIR", help="measure again at once where a metric left its level"
    )


def run(options: Namespace) -> int:
    """Measure a benchmark against its baseline and write the record.

    0 where the record may be used; 1 where it may not, or a process failed; 2 wrong use; 3 where
    the benchmark measures nothing.
    """
    request = _request(options)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_room(request.output))
        probe, variables = leased_probe(request.benchmark, options.device, stack)
        record = _measured(request, probe, variables)
    replace_file(request.output, encode(record) + b"\n")
    return _told(record, request.output)


def _request(options: Namespace) -> Request:
    """All of it. Raises RunciError (2) for wrong use."""
    root, config = settings(options)
    path = config_path(options, root)
    benchmark = config.benchmarks.get(options.benchmark)
    if benchmark is None:
        known = ", ".join(config.benchmarks) or "none"
        raise RunciError(f"{path}: there is no benchmark {options.benchmark!r}; there are: {known}")
    if options.repetitions < 1:
        raise RunciError(f"--repetitions {options.repetitions}: at least one pair must run")
    name = options.baseline or benchmark.baseline
    if name or benchmark.arms:
        refuse_shared(benchmark.command, root, f"{path}: {benchmark.name}: command")
        refuse_copies(root)
    return Request(
        root=root,
        config=config,
        benchmark=benchmark,
        baseline=resolve(root, name) if name else None,
        arms={arm: resolve_arm(root, given) for arm, given in benchmark.arms.items()},
        pairs=options.repetitions,
        seed=secrets.randbelow(1 << 32) if options.seed is None else options.seed,
        night=_night(options.night),
        output=_output(Path(options.output)),
        history=_known(options.history, config),
    )


def _night(given: str | None) -> str:
    if given is None:
        return datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return check_night(given, "--night")


def _output(path: Path) -> Path:
    """Checked now: after half an hour it would be late."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise RunciError(
            f"--output {path}: cannot write: it is a folder, or its folder is not there"
        )
    if path.exists() and not path.is_file():
        raise RunciError(f"--output {path}: not a file")
    if path.suffix == ".log":
        raise RunciError(
            f"--output {path}: the log stands there: name another, such as record.json"
        )
    if (log := path.with_suffix(".log")).exists() and not log.is_file():
        raise RunciError(f"--output {path}: its log would be {log}, which is not a file")
    return path


@contextlib.contextmanager
def _room(output: Path) -> Iterator[None]:
    """Hold room for the record where the disk may fill meanwhile; a kill gives it back, too."""
    with tempfile.TemporaryFile(dir=output.parent) as held:
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.posix_fallocate(held.fileno(), 0, _ROOM)
        yield


def _known(given: str | None, config: Config) -> History | None:
    if given is None:
        return None
    from runci.nightly.history.store import read_folder

    return read_folder(Path(given), config.renames)


def _measured(request: Request, probe: Probe, variables: Mapping[str, str]) -> Record:
    """Run everything; the record, with the reasons why its figures do not count."""
    machine, started, commit = probe.machine(), now(), head(request.root)
    before = probe.state()
    draft = Record(
        night=request.night,
        started=started,
        finished=started,
        benchmark=request.benchmark.name,
        version=request.benchmark.version,
        command=request.benchmark.command,
        commit=commit,
        baseline_commit=request.baseline or "",
        seed=request.seed,
        order=(),
        machine=machine,
        before=before,
        after=before,
        measurements=(),
        run_id=_run_id(started),
        run_url=run_url(os.environ),
        arms=request.arms,
    )
    if wrong := tuple(outputs.sku(machine, request.benchmark)):
        return dataclasses.replace(draft, unusable=wrong)  # its benchmark may refuse to run
    with _stage(request, probe, variables) as stage:
        night = Night(stage, random.Random(request.seed))  # noqa: S311  an order, no secret
        runs = night.measure(request.pairs)
        draft = _filled(night, draft, runs)
        if night.stopped:
            draft = dataclasses.replace(draft, unusable=(night.stopped, *draft.unusable))
        again = _again(request, night, draft)
        if again is not None:
            draft = _filled(night, draft, runs, again)
        draft = dataclasses.replace(draft, after=probe.state(), finished=now())
    found = outputs.reasons(draft, request.benchmark, _machine(probe), head(request.root))
    kept = tuple(map(outputs.kept, draft.measurements))
    return dataclasses.replace(
        draft,
        measurements=kept,
        summary=summarize(kept),
        unusable=(*found, *draft.unusable),
    )


@contextlib.contextmanager
def _stage(request: Request, probe: Probe, variables: Mapping[str, str]) -> Iterator[Stage]:
    """Everything in its place; the worktree and the temporary folder go at the end."""
    below = below_top(request.root)
    progress = Progress(sys.stderr)
    log = request.output.with_suffix(".log")
    with contextlib.ExitStack() as stack:
        stack.callback(progress.close)
        scratch = stack.enter_context(scratch_folder(request.root))
        sides = {CANDIDATE: Side(request.root, variables)}
        others = {BASELINE: request.baseline} if request.baseline else {}
        for number, (side, commit) in enumerate({**others, **request.arms}.items()):
            folder = scratch / f"{number}-{commit[:12]}"
            top = stack.enter_context(checked_out(request.root, commit, folder))
            startup = scratch / f"startup-{number}"
            startup.mkdir()
            own = baseline_variables(request.root, top / below, startup, os.environ)
            sides[side] = Side(top / below, {**variables, **own})
        replace_file(log, b"", durable=False)
        yield Stage(request.benchmark, sides, scratch, log, probe, progress)


def _filled(night: Night, draft: Record, runs: Runs, again: Runs | None = None) -> Record:
    """With what the processes printed.

    What is wrong with a metric stands in its own `unusable`, all else in the record's.
    """
    whole = runs if again is None else runs.joined(again)
    for name in outputs.only_in_baseline(whole):
        night.stage.progress.note(f"{name} is measured in the baseline only")
    measured = outputs.measurements(runs, again)
    said = outputs.disagreements(whole)
    metrics = {one.metric for one in measured}
    own = {"runci": __version__, "python": platform.python_version()}
    return dataclasses.replace(
        draft,
        order=tuple(night.order),
        during=tuple(night.during),
        measurements=tuple(_doubted(one, said) for one in measured),
        checks=outputs.checks(whole.candidate),
        unusable=tuple(text for name, text in said if name not in metrics),
        versions=outputs.versions(whole.candidate, own),
    )


def _doubted(one: Measurement, said: Sequence[tuple[str, str]]) -> Measurement:
    why = [text for name, text in said if name == one.metric]
    return dataclasses.replace(one, unusable=(*why, *outputs.impossible(one)))


def _again(request: Request, night: Night, draft: Record) -> Runs | None:
    """The same once more, where a metric left its level: a step, or only this night's noise?"""
    if request.history is None or draft.unusable:
        return None
    if outputs.reasons(draft, request.benchmark, draft.machine, draft.commit):
        return None  # more of the same would not count either
    found = outputs.left_level(draft, request.history, request.config.rule)
    if not found:
        return None
    for sentence in found:
        night.stage.progress.note(sentence)
    night.stage.progress.note(f"measuring {request.pairs} pairs again at once")
    try:
        return night.measure(request.pairs, ", again")
    except RunciError as error:  # what was measured before stands
        night.stage.progress.note(str(error))
        return None


def _machine(probe: Probe) -> Machine | None:
    try:
        return probe.machine()
    except RunciError:
        return None


def _run_id(started: str) -> str:
    """GitHub's number of the run and its attempt; elsewhere the time, so that no two are equal."""
    number, attempt = os.environ.get("GITHUB_RUN_ID"), os.environ.get("GITHUB_RUN_ATTEMPT", "1")
    if not number:
        return f"local-{started}"
    return number if attempt == "1" else f"{number}.{attempt}"


def _told(record: Record, output: Path) -> int:
    """Show what came of it."""
    if record.measurements:
        write(title(record) + table(record))
    for check in record.checks:
        if not check.passed:
            write(f"FAILED {check.name}: {check.detail}\n")
    for reason in (*record.unusable, *(why for one in record.measurements for why in one.unusable)):
        note(f"unusable: {reason}")
    alone = [one.metric for one in record.measurements if one.unusable]
    if record.unusable:
        note(f"{output} says so; its figures enter no series")
    elif alone:
        note(f"{output} says so; what it holds of other metrics counts")
    return Exit.FINDINGS if record.unusable or alone else Exit.OK
