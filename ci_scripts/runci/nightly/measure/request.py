"""The command line and perf.yml → what is measured; everything is checked before anything runs."""

from __future__ import annotations

import datetime
import os
import secrets
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from runci.config.perf import Benchmark, Config, config_path, is_night, settings
from runci.core.errors import RunciError
from runci.nightly.history.lines import History
from runci.nightly.measure.environment import refuse_copies, refuse_shared
from runci.nightly.measure.tree import resolve


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for, checked. `baseline` is a full commit, or None."""

    root: Path
    config: Config
    benchmark: Benchmark
    baseline: str | None
    pairs: int
    seed: int
    night: str
    output: Path
    history: History | None


def read_request(options: Namespace) -> Request:
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
    if name:
        refuse_shared(benchmark.command, root, f"{path}: {benchmark.name}: command")
        refuse_copies(root)
    return Request(
        root=root,
        config=config,
        benchmark=benchmark,
        baseline=resolve(root, name) if name else None,
        pairs=options.repetitions,
        seed=secrets.randbelow(1 << 32) if options.seed is None else options.seed,
        night=_night(options.night),
        output=_output(Path(options.output)),
        history=_history(options.history, config),
    )


def _night(given: str | None) -> str:
    if given is None:
        return datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    if not is_night(given):
        raise RunciError(f"--night {given}: not a date such as 2026-12-01")
    return given


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


def _history(given: str | None, config: Config) -> History | None:
    if given is None:
        return None
    from runci.nightly.history.store import read_folder

    return read_folder(Path(given), config.renames)
