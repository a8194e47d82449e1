"""`runci perf bisect`: a confirmed regression → the commit that made it, by paired measurements."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from runci.commands.shared import history_arguments, positive, repository_arguments
from runci.config.perf import Benchmark, Config, config_path, settings
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.core.git import run_git
from runci.nightly.bisect import (
    Pair,
    Searched,
    answered,
    found,
    known_of,
    next_commit,
    pair_noise,
)
from runci.nightly.decide.turns import choose_series, find_series, turns
from runci.nightly.decide.values import read_nights
from runci.nightly.figures import is_figure
from runci.nightly.history.lines import LAST, Event, History, Series
from runci.nightly.history.store import source_of
from runci.nightly.measure.environment import (
    baseline_variables,
    below_top,
    checked_out,
    refuse_copies,
    refuse_shared,
    resolve,
    scratch_folder,
)
from runci.nightly.measure.night import BASELINE, CANDIDATE, Night, Side, Stage
from runci.nightly.measure.show import Progress
from runci.nightly.measure.state import Probe, leased_probe
from runci.nightly.record import Output, SeriesId, encode, read_json
from runci.text.terminal import note, printable, write
from runci.text.wording import plural


@dataclass(frozen=True, slots=True)
class Search:
    """What stays the same all along; `places` are the worktrees there are, by commit."""

    root: Path
    benchmark: Benchmark
    output: Path
    scratch: Path
    probe: Probe
    variables: Mapping[str, str]
    progress: Progress
    stack: contextlib.ExitStack
    places: dict[str, Side] = field(default_factory=dict)

    def side(self, commit: str) -> Side:
        """Where a commit runs. Its worktree stays to the end: it may be measured again."""
        if commit not in self.places:
            folder = self.scratch / commit
            top = self.stack.enter_context(checked_out(self.root, commit, folder))
            startup = self.scratch / f"startup-{commit}"
            startup.mkdir()
            place = top / below_top(self.root)
            own = baseline_variables(self.root, place, startup, os.environ)
            self.places[commit] = Side(place, {**self.variables, **own})
        return self.places[commit]


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    step.add_argument("metric", metavar="METRIC")
    step.add_argument("--output", metavar="FILE", default="bisect.json", help="goes on from there")
    step.add_argument("--machine", metavar="KEY", help="where several have it open")
    step.add_argument("--good", metavar="COMMIT", help="default: the regression's last good one")
    step.add_argument("--bad", metavar="COMMIT", help="default: the regression's first bad one")
    step.add_argument("--most", type=positive, default=60, metavar="N", help="pairs in all (60)")
    step.add_argument("--device", type=int, default=0, metavar="INDEX", help="GPU (0)")


def run(options: Namespace) -> int:
    """Measure until the culprit is sure, and write it down.

    0 where it was found, be it among commits that cannot be told apart; 1 where it was not; 2 wrong
    use; 3 where there is nothing to search. A run that is stopped goes on where it was.
    """
    root, config = settings(options)
    output = Path(options.output)
    asked, noise = _asked(options, root, config)
    known = _resumed(output, asked)
    benchmark = _benchmark(options, config, known.series, root)
    with contextlib.ExitStack() as stack:
        probe, variables = leased_probe(benchmark, options.device, stack)
        _check_machine(probe, known.series)
        progress = Progress(sys.stderr)
        stack.callback(progress.close)
        scratch = stack.enter_context(scratch_folder(root))
        search = Search(root, benchmark, output, scratch, probe, variables, progress, stack)
        while len(known.pairs) < options.most and found(known_of(known, noise)) is None:
            number = next_commit(known_of(known, noise))
            if number is None:
                break
            known = _measured(search, known, known.commits[number - 1])
            replace_file(output, encode(known) + b"\n")
    known = _named(root, answered(known, noise))
    replace_file(output, encode(known) + b"\n")
    return _told(known, output)


def _asked(options: Namespace, root: Path, config: Config) -> tuple[Searched, float]:
    """What to search for, and the noise of one pair so far: later pairs show this machine's.

    Raises RunciError (3) where no regression is open.
    """
    series = _series(options, source_of(options, root, config).read())
    event = turns(series, LAST).open
    good, bad = (resolve(root, name) for name in _ends(options, event))
    listed = run_git(root, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}")
    commits = tuple(listed.decode().split())
    if not commits:
        raise RunciError(f"no commit lies after {good[:12]} up to {bad[:12]}: nothing to search")
    change = abs(event.change) if event else config.rule.min_change
    nights = read_nights(series.points, LAST).usable[-config.rule.memory :]
    noise = pair_noise(nights)
    return Searched(series.id, series.direction, good, bad, change, commits), noise


def _series(options: Namespace, history: History) -> Series:
    found = choose_series(history, find_series(history, options.metric, options.machine))
    if len(found) > 1:
        keys = ", ".join(repr(one.id.machine_key) for one in found)
        raise RunciError(f"{options.metric!r} has several machines: add --machine, of {keys}")
    return found[0]


def _ends(options: Namespace, event: Event | None) -> tuple[str, str]:
    good = options.good or (event.last_good if event else "")
    bad = options.bad or (event.since_commit if event else "")
    if not good or not bad:
        raise RunciError(
            f"{options.metric!r}: no regression is open, or its commits are not known: name --good "
            "and --bad",
            Exit.NOTHING,
        )
    return good, bad


def _benchmark(options: Namespace, config: Config, series: SeriesId, root: Path) -> Benchmark:
    path = config_path(options, root)
    benchmark = config.benchmarks.get(series.benchmark)
    if benchmark is None:
        raise RunciError(f"{path}: there is no benchmark {series.benchmark!r} to measure with")
    refuse_shared(benchmark.command, root, f"{path}: {benchmark.name}: command")
    refuse_copies(root)
    return benchmark


def _resumed(output: Path, asked: Searched) -> Searched:
    """What an earlier run left. Raises RunciError where that searched for something else."""
    if not output.exists():
        return asked
    before = read_json(output.as_posix(), Searched)
    same = replace(asked, pairs=before.pairs, broken=before.broken)
    bare = replace(before, suspects=(), confidence=0.0, author="", subject="", said="")
    if bare != same:
        raise RunciError(
            f"{output}: of another search ({before.series.metric!r}, {before.good[:12]} to "
            f"{before.bad[:12]}): name another --output, or remove it"
        )
    note(f"{output}: going on after {plural(len(before.pairs), 'pairs')}")
    return same


def _check_machine(probe: Probe, series: SeriesId) -> None:
    machine = probe.machine()
    if machine.gpu != series.gpu:
        raise RunciError(
            f"this machine has {machine.gpu}, and the regression was seen on {series.gpu}: bisect "
            "there, or choose the GPU with --device"
        )
    if machine.driver.split(".")[0] != str(series.driver_major):
        note(f"driver {machine.driver} here, and {series.driver_major} where it was seen")


def _measured(search: Search, known: Searched, commit: str) -> Searched:
    """One pair more. A commit that fails twice, while the good one runs, cannot be measured."""
    metric = known.series.metric
    sides = {CANDIDATE: search.side(commit), BASELINE: search.side(known.good)}
    place = search.scratch / f"{len(known.pairs)}-{len(known.broken)}"
    place.mkdir()
    log = search.output.with_suffix(".log")
    stage = Stage(search.benchmark, sides, place, log, search.probe, search.progress)
    night = Night(stage, random.Random())  # noqa: S311  an order, no secret
    search.progress.expect(2)
    figures: dict[str, float] = {}
    for side in random.sample([CANDIDATE, BASELINE], 2):
        name = f"{commit if side == CANDIDATE else known.good:.12}, pair {len(known.pairs) + 1}"
        figure = _figure(night, side, name, metric)
        if figure is None and side == BASELINE:
            raise RunciError(f"{known.good[:12]}, the good commit, fails: {log} says why")
        if figure is None:
            search.progress.note(f"{commit[:12]} cannot be measured: it is left out")
            return replace(known, broken=(*known.broken, commit))
        figures[side] = figure
    pair = Pair(commit, figures[CANDIDATE], figures[BASELINE])
    return replace(known, pairs=(*known.pairs, pair))


def _figure(night: Night, side: str, name: str, metric: str) -> float | None:
    """The metric's median of one process, tried twice; None where it gives none."""
    for again in (False, True):
        try:
            return _median(night.run(side, name), metric)
        except RunciError as error:  # noqa: PERF203  what failed once may have been the machine
            night.stage.progress.note(f"{'again: ' if again else ''}{error}")
    return None


def _median(output: Output, metric: str) -> float | None:
    values = next((one.values for one in output.samples if one.metric == metric), ())
    return median(values) if values and all(map(is_figure, values)) else None


def _named(root: Path, known: Searched) -> Searched:
    """With the culprit's author and subject."""
    if not known.culprit:
        return known
    said = run_git(root, "log", "-1", "--format=%an%x00%s", known.culprit)
    author, _, subject = said.decode("utf-8", "replace").strip().partition("\0")
    return replace(known, author=printable(author), subject=printable(subject))


def _told(known: Searched, output: Path) -> int:
    write(f"{known.series.metric}: {known.said}\n")
    for commit in known.suspects:
        named = f" {known.author}: {known.subject}" if commit == known.culprit else ""
        write(f"  {commit}{named}\n")
    write(f"{output} has all that was measured\n")
    return Exit.OK if known.suspects and known.confidence else Exit.FINDINGS
