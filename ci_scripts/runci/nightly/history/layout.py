"""Which files a history has, and a history in a folder, to which one process at a time appends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runci.core.errors import RunciError
from runci.nightly.record import SCHEMA, SeriesId, slug

README = "README.md"
FORMAT = "format.json"
NIGHTS = "nights.jsonl"
METRICS = "metrics/"
SUFFIX = ".jsonl"
LONGEST_SLUG = 80

_README_TEXT = """\
# What the nightly measured

`runci perf record` appends to this branch every night; `runci perf check` and `runci perf accept`
append what was decided. Nobody edits it by hand, nothing is ever taken away, and nothing else
pushes here. To read it: `runci perf history`, or `runci perf history --csv FILE`.

- `format.json`: the version of these files, and of each its lines and newest night.
- `nights.jsonl`: one line for each run of the nightly, whatever came of it.
- `metrics/MACHINE/METRIC-HASH.jsonl`: one series. The first line says which; then come its points
  (`point`), acceptances (`accept`) and confirmed changes (`event`), one JSON object a line.
"""


def path_of(series: SeriesId) -> str:
    """The series' file. The digest of the whole id keeps apart what the readable part does not."""
    machine, metric = (slug(text)[:LONGEST_SLUG] for text in (series.machine_key, series.metric))
    return f"{METRICS}{machine}/{metric}-{series.digest[:10]}{SUFFIX}"


def is_series(path: str) -> bool:
    """Whether a path has the shape of a series' file."""
    return path.startswith(METRICS) and path.endswith(SUFFIX) and path.count("/") == 2


@dataclass(frozen=True, slots=True)
class Listed:
    """What a file held when it was last appended to: its lines, and the newest night in them.

    No lines: somebody says that it is gone for good.
    """

    lines: int
    night: str


def format_text(listed: Mapping[str, Listed]) -> bytes:
    """format.json, which lists the other files, one a line: a commit shows what it added."""
    them = {path: {"lines": one.lines, "night": one.night} for path, one in listed.items()}
    lines = ",".join(f"\n  {json.dumps(path)}: {json.dumps(them[path])}" for path in sorted(them))
    return f'{{"schema": {SCHEMA}, "files": {{{lines}}}}}\n'.encode()


def first_files() -> Mapping[str, bytes]:
    """What a new branch holds."""
    return {
        README: _README_TEXT.encode(),
        FORMAT: format_text({NIGHTS: Listed(0, "")}),
        NIGHTS: b"",
    }


def folder_contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but git's own. Raises RunciError where one cannot be read."""
    if not folder.is_dir():
        raise RunciError(f"{folder.as_posix()}: no such folder: --history names a checkout")

    def stop(error: OSError) -> None:
        raise RunciError(f"{error.filename}: cannot read the folder: {error.strerror}") from error

    files = {}
    for parent, below, names in os.walk(folder, onerror=stop):
        below[:] = [name for name in below if name != ".git"]
        for name in names:
            path = Path(parent, name)
            if path == folder / ".git":  # of a linked work tree
                continue
            try:
                files[path.relative_to(folder).as_posix()] = path.read_bytes()
            except OSError as error:
                raise RunciError(f"{path.as_posix()}: cannot read: {error.strerror}") from error
    return files


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder against others that append; where the system can lock none, do without."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # reading the folder says what is wrong with it
        yield
        return
    try:
        with suppress(OSError):  # a network's file system may have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
