"""Small records, points and histories for the tests of what the nightly remembers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runci.nightly.history.additions import Addition, Additions, Changed, append_to
from runci.nightly.history.lines import (
    FORMAT,
    NIGHTS,
    Accept,
    Event,
    History,
    Night,
    Point,
    SeriesHeader,
    Turn,
    first_files,
    path_of,
)
from runci.nightly.history.read import history_of, parse_files
from runci.nightly.record import (
    EXACT,
    Check,
    Direction,
    Machine,
    MachineState,
    Measurement,
    Record,
    SeriesId,
    encode,
)

COMMIT, BASELINE = "c" * 40, "b" * 40
KERNEL, LINEAR, BITS = "this kernel M=4 warm", "F.linear M=4 warm", "bits of the frozen form"


def date(number: int) -> str:
    """Night `number` of October 2026, from 1."""
    return f"2026-10-{number:02d}"


def series_id(metric: str = KERNEL, **changed: Any) -> SeriesId:
    known = {"benchmark": "gemm", "version": "1", "gpu": "NVIDIA GeForce RTX 5090"}
    return SeriesId(metric, **{**known, "driver_major": 580, **changed})


def header(metric: str = KERNEL, unit: str = "us", **changed: Any) -> SeriesHeader:
    direction = Direction.HIGHER if unit == EXACT else Direction.LOWER
    return SeriesHeader(series_id(metric, **changed), unit, direction)


def point(number: int, value: float = 6.0, **changed: Any) -> Point:
    known = {
        "night": date(number),
        "at": f"{date(number)}T03:10:00Z",
        "run_id": f"r{number}",
        "commit": COMMIT,
        "candidate": (value, value),
        "baseline": (6.0, 6.0),
    }
    return Point(**{**known, **changed})


def night(number: int, **changed: Any) -> Night:
    known = {
        "night": date(number),
        "at": f"{date(number)}T03:10:00Z",
        "run_id": f"r{number}",
        "commit": COMMIT,
        "measured": True,
    }
    return Night(**{**known, **changed})


def accept(number: int, reason: str = "a safer kernel") -> Accept:
    return Accept(date(number), f"{date(number)}T09:00:00Z", "Ada", reason)


def event(number: int, turn: Turn = Turn.REGRESSION) -> Event:
    return Event(
        night=date(number),
        at=f"{date(number)}T04:00:00Z",
        turn=turn,
        since=date(number - 1),
        since_commit="d" * 40,
        last_good=COMMIT,
        change=0.052,
        low=0.049,
        high=0.056,
        level=1.052,
        confirmed_by="a second night",
    )


def lines_of(*lines: Any) -> bytes:
    return b"".join(encode(line) + b"\n" for line in lines)


def files_of(
    series: Mapping[SeriesHeader, Sequence[Any]], nights: Sequence[Night] = (night(1),)
) -> dict[str, bytes]:
    """The branch's files, with these lines."""
    files = dict(first_files())
    files[NIGHTS] = lines_of(*nights)
    return files | {path_of(h.id): lines_of(h, *lines) for h, lines in series.items()}


def listed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files after an append, which lists them; `files_of` makes a history from before that."""
    return {**files, **append_to(parse_files(files, "there"), Additions()).files}


def lines_in(changed: Changed) -> dict[str, bytes]:
    """The files that an append writes, but for the list of files."""
    return {path: content for path, content in changed.files.items() if path != FORMAT}


def read(files: dict[str, bytes], **renames: str) -> History:
    return history_of(parse_files(files, "there"), renames)


def read_points(files: dict[str, bytes]) -> list[str]:
    return [point.night for point in read(files).series[series_id()].points]


def added(number: int, *points: Point, metric: str = KERNEL) -> Additions:
    """What one night appends to one series."""
    return Additions((Addition(header(metric), points or (point(number),)),), (night(number),))


def measurement(metric: str = KERNEL, value: float = 6.0, **changed: Any) -> Measurement:
    """Five pairs; the candidate's medians are value, value + 0.1, …, the baseline's 6."""
    known = {
        "unit": "us",
        "direction": Direction.LOWER,
        "candidate": tuple((value + i / 10, 0.5, 99.0) for i in range(5)),
        "baseline": tuple((6.0,) for _ in range(5)),
    }
    return Measurement(metric, **{**known, **changed})


def record(number: int, **changed: Any) -> Record:
    known: dict[str, Any] = {
        "night": date(number),
        "started": f"{date(number)}T03:00:00Z",
        "finished": f"{date(number)}T03:10:00Z",
        "benchmark": "gemm",
        "version": "1",
        "command": ("python", "bench.py"),
        "commit": COMMIT,
        "baseline_commit": BASELINE,
        "seed": 1,
        "order": ("candidate", "baseline") * 5,
        "machine": Machine("NVIDIA GeForce RTX 5090", "580.159.04"),
        "before": MachineState(f"{date(number)}T03:00:00Z"),
        "after": MachineState(f"{date(number)}T03:10:00Z", sm_clock=2400, temperature=61),
        "measurements": (measurement(reference=LINEAR), measurement(LINEAR, 8.0)),
        "checks": (Check(BITS, True, "M = 2..8"),),
        "run_id": f"r{number}",
    }
    return Record(**{**known, **changed})


def write_record(folder: Path, given: Record) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{given.benchmark}-{given.night}-{given.run_id}.json"
    path.write_bytes(encode(given))
    return path


CONFIG = """\
version: 1
first_night: 2026-10-01
benchmarks:
  gemm: {version: "1", command: [python, bench.py]}
  attention: {version: "1", command: [python, bench.py]}
"""


def write_config(root: Path, more: str = "") -> Path:
    config = root / "test" / "perf.yml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG + more)
    return config


def clone_with_remote(folder: Path) -> tuple[Path, Path]:
    """A bare repository, and one that has it as `origin`, with perf.yml; gives both."""
    remote, work = folder / "remote.git", folder / "work"
    for arguments in (
        ["init", "-q", "--bare", str(remote)],
        ["init", "-q", str(work)],
        ["-C", str(work), "remote", "add", "origin", str(remote)],
    ):
        subprocess.run(["git", *arguments], check=True, capture_output=True)
    write_config(work)
    return remote, work


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
