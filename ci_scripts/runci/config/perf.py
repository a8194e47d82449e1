"""Reads perf.yml: what is measured, when a change counts, since when nights are expected."""

from __future__ import annotations

import datetime
import functools
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runci.config.repository import find_root
from runci.config.suites import load_checked
from runci.core.errors import RunciError
from runci.core.paths import read_named

_YEARS = (1970, 2999)


@functools.lru_cache(maxsize=8192)
def is_night(text: str) -> bool:
    """Whether this is a date as all lines have it: 2026-12-01.

    Of the years 1970 to 2999: a clock that was reset shows the first, and on dates near the last
    that Python knows nobody could count on.
    """
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return day.isoformat() == text and _YEARS[0] <= day.year <= _YEARS[1]


def check_night(text: str, where: str) -> str:
    """A night that somebody wrote. Raises RunciError, which names `where`, for what is none."""
    if not is_night(text):
        raise RunciError(f"{where} {text!r} is no date such as 2026-12-01")
    return text


@dataclass(frozen=True, slots=True)
class Rule:
    """When a change counts: six figures, and no others decide. Nights are usable ones.

    `min_change` is the least that matters, relative. `min_points` nights make a level and its
    noise; after fewer of them only as many in a row tell, or three of what is far off. `memory` is
    how many last nights say how a series varies by itself. What goes back within `lasting` nights
    was a visit, so no more are asked for; half of them, for an improvement, since it moves the
    level. `margin`: k nights must be 1 + `margin` / k times as far as any k were before. `chance`:
    how likely noise alone may be to tell of a step.
    """

    min_change: float = 0.03
    min_points: int = 7
    memory: int = 90
    lasting: int = 14
    margin: float = 3.0
    chance: float = 0.0001


@dataclass(frozen=True, slots=True)
class Budget:
    """What a metric may be at most, or at least where higher is better; in `unit`."""

    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A command that prints samples; `{output}` in it becomes the file to write, else stdout.

    `baseline` is the pinned commit to compare with, None for none. `gpu` is the
    device's model, as a runner's is. `max_temperature` in °C. `metrics` names the metrics and
    checks that are judged, None for all that it prints; `budgets` are by metric. `arms` are other
    commits, tags, or patterns of tags, that are measured beside the baseline, by name.
    """

    name: str
    version: str
    command: tuple[str, ...]
    baseline: str | None = None
    timeout_minutes: float = 20.0
    gpu: str | None = None
    max_temperature: float = 90.0
    metrics: tuple[str, ...] | None = None
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    arms: Mapping[str, str] = field(default_factory=dict)

    def judges(self, metric: str) -> bool:
        """Whether perf.yml names a metric, or names none."""
        return self.metrics is None or metric in self.metrics


@dataclass(frozen=True, slots=True)
class Config:
    """All of perf.yml. A night is missing `late_hours` after it began (00:00 UTC)."""

    first_night: datetime.date
    benchmarks: Mapping[str, Benchmark]
    branch: str = "perf-history"
    late_hours: float = 36.0
    rule: Rule = Rule()
    renames: Mapping[str, str] = field(default_factory=dict)


def read_config(path: Path) -> Config:
    """The file's Config. Raises RunciError where it is missing or wrong, with every fault."""
    return load_config(read_named(path, remedy="; pass --config"), path.as_posix())


def load_config(data: bytes, path: str) -> Config:
    """As `read_config`; `path` is for messages."""
    given = load_checked(data, path, "perf")
    check_night(given["first_night"], f"{path}: first_night:")
    optional = {key: given[key] for key in ("branch", "late_hours") if key in given}
    return Config(
        first_night=datetime.date.fromisoformat(given["first_night"]),
        benchmarks={name: _benchmark(name, b) for name, b in given["benchmarks"].items()},
        rule=_rule(given.get("decision", {})),
        renames=_renames(given.get("renames", ()), path),
        **optional,
    )


_WHOLE = ("min_points", "memory", "lasting")


def _rule(given: Mapping[str, Any]) -> Rule:
    whole = {key: int(given[key]) for key in _WHOLE if key in given}  # not 10.0
    return Rule(**{**given, **whole})


def _benchmark(name: str, given: Mapping[str, Any]) -> Benchmark:
    known = dict(given)
    if "metrics" in given:
        known["metrics"] = tuple(given["metrics"])
    known["budgets"] = {metric: Budget(**one) for metric, one in given.get("budgets", {}).items()}
    return Benchmark(name, **{**known, "command": tuple(given["command"])})


def _renames(given: Sequence[Mapping[str, str]], path: str) -> Mapping[str, str]:
    renames: dict[str, str] = {}
    for rename in given:
        old, new = rename["from"], rename["to"]
        if renames.setdefault(old, new) != new:
            raise RunciError(f"{path}: renames: {old!r} becomes {renames[old]!r} and {new!r}")
    return renames


DEFAULT = Path("test/perf.yml")


def settings(options: Namespace) -> tuple[Path, Config]:
    """The root and perf.yml that `--root` and `--config` name, or that are found upwards."""
    root = find_root(options.root, options.config)
    return root, read_config(config_path(options, root))


def config_path(options: Namespace, root: Path) -> Path:
    """Where perf.yml is."""
    return Path(options.config) if options.config else root / DEFAULT


def run_url(environ: Mapping[str, str]) -> str:
    """The address of GitHub's run; empty outside one."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, number = (environ.get(name, "") for name in names)
    if not (server and repository and number):
        return ""
    return f"{server}/{repository}/actions/runs/{number}"
