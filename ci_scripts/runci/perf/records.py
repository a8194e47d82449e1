"""Reads the records that a command line names: files, and folders of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runci.commands.shared import note
from runci.errors import RunciError
from runci.perf.decode import decode
from runci.perf.record import Record


def read_records(places: Iterable[str]) -> list[tuple[str, Record]]:
    """Each with its file. A folder that is not there holds none: a night that measured nothing.

    Raises RunciError where a file is absent or no record.
    """
    return [(path, _read(path)) for path in _files(places)]


def _files(places: Iterable[str]) -> list[str]:
    files = []
    for place in map(Path, places):
        if place.is_file() or place.suffix == ".json":
            files.append(place.as_posix())
            continue
        below = sorted(path.as_posix() for path in place.rglob("*.json"))
        if not below:
            note(f"{place.as_posix()}: no record there: nothing was measured")
        files += below
    return files


def _read(path: str) -> Record:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RunciError(f"{path}: cannot read the record: {error.strerror}") from error
    return decode(data, Record, path)
