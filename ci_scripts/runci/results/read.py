"""Reads the results that runs left in folders; a file that cannot be read is data, not an end."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runci.core.errors import RunciError
from runci.core.paths import read_named
from runci.core.result import FileResult, from_json
from runci.core.unfit import Unfit, read_unfit
from runci.text.terminal import note

# As workflows name what the job of a shard keeps, in each attempt.
_ARTIFACT = re.compile(r"results-(?P<shard>.+-\d+of\d+)-\d+")


@dataclass(frozen=True, slots=True)
class Found:
    """Results by the file that holds them, and what is wrong with the others, one line each.

    `unfit` are the machines that could not run their shard.
    """

    results: tuple[tuple[str, FileResult], ...]
    broken: tuple[str, ...] = ()
    unfit: tuple[Unfit, ...] = ()


def read_results(places: Sequence[str]) -> Found:
    """Read result files and all below folders. Raises RunciError for a place that is not there.

    A result that lies in the artifact of another shard's job is none.
    """
    read = [(path, _read(path)) for path in _files(places)]
    return Found(
        tuple((path, result) for path, result in read if isinstance(result, FileResult)),
        tuple(result for _, result in read if isinstance(result, str)),
        tuple(result for _, result in read if isinstance(result, Unfit)),
    )


def _read(path: str) -> FileResult | Unfit | str | None:
    """The result, what is wrong with it or its machine, or None for a document of another kind."""
    # A job's artifact is a stranger's: to open a FIFO waits for ever, a device has no end.
    if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH113, PTH114
        return f"{path}: no regular file: results are kept as files of their own"
    try:
        data = read_named(path)
        other = _other_document(data)
        found = from_json(data, path) if other is None else read_unfit(other)
    except RunciError as error:
        return str(error)
    return found if found is None else misplaced(path, found.shard) or found


def misplaced(path: str, shard: str) -> str | None:
    """What is wrong with a shard's result at this path: the artifact is another shard's."""
    named = (_ARTIFACT.fullmatch(folder) for folder in path.split("/")[:-1])
    artifact = next((match for match in named if match), None)
    if artifact is None or artifact["shard"] == shard:
        return None
    return f"{path}: a result of shard {shard} in what the job of {artifact['shard']} kept"


def mixed(paths: Sequence[tuple[str, str]], place: str) -> str | None:
    """What is wrong with results, by path and shard, that lie in a folder itself.

    Where one artifact is all there is, download-artifact unpacks it there, without a folder of its
    own: then every result is of the one job that kept it.
    """
    direct = [path for path, _ in paths if path.rpartition("/")[0] == place]
    shards = sorted({shard for _, shard in paths})
    if not direct or len(shards) < 2:
        return None
    return f"{place}: one artifact holds results of several shards: {', '.join(shards)}"


def _files(places: Sequence[str]) -> list[str]:
    """Every JSON file once, however often it is named."""
    found: dict[str, str] = {}
    for place in places:
        path = Path(place)
        if not path.exists():
            raise RunciError(f"{place}: no such file or folder: name what `runci run` wrote")
        listed = _below(place) if path.is_dir() else [path.as_posix()]
        for file in listed:
            found.setdefault(os.path.realpath(file), file)
    return sorted(found.values())


def _below(folder: str) -> list[str]:
    def stop(error: OSError) -> None:
        raise RunciError(f"{error.filename}: cannot read the folder: {error.strerror}") from error

    return [
        Path(parent, name).as_posix()
        for parent, _, names in os.walk(folder, onerror=stop)
        for name in names
        if name.endswith(".json") and not name.startswith(".")
    ]


def _other_document(data: bytes) -> dict[str, Any] | None:
    """Whole JSON of another kind, such as the plan, that lies there too."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or {"outcome", "path"} & document.keys():
        return None
    return document


def note_broken(found: Found) -> None:
    """Say which results could not be read."""
    for text in found.broken:
        note(text)
