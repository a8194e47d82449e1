"""Reads and parses many files: from the cache where it can, in several processes where it pays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runci.core import inputs
from runci.read.cache import Cache, digest
from runci.read.decode import read
from runci.read.testfile import TestFile, from_row, unreadable

if TYPE_CHECKING:
    from runci.read.parse import Parsed
    from runci.read.workers import Workers


# Below this many bytes a second process costs more than it saves.
_WORTH_A_PROCESS = 1_500_000


class Reading:
    """Files on their way: what needs parsing is started at once, so do other work meanwhile.

    `paths` are relative to `root`; `jobs` is the most processes to use. A context, since the
    processes end with it.
    """

    def __init__(self, root: Path, paths: Sequence[str], cache: Cache, jobs: int) -> None:
        self._root, self._paths, self._cache = root, paths, cache
        self._files: dict[str, TestFile] = {}
        self._keys: list[str] = []
        # Nothing known: leave the reading to whoever parses.
        self._missing = list(paths) if cache.empty else self._look_up()
        self._workers = _start(root, self._missing, jobs)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.stop()

    def files(self, keep: Sequence[str] = ()) -> list[TestFile]:
        """All files, in order; saves the cache. `keep` are other keys that stay in it."""
        for path, key, row in self._parsed():
            if key:
                self._cache.put(key, row)
                self._keys.append(key)
            self._files[path] = from_row(path, json.loads(row))
        self._cache.save([*keep, *self._keys])
        return [self._files[path] for path in self._paths]

    def _parsed(self) -> Iterator[Parsed]:
        done: set[str] = set()
        for result in self._workers.results() if self._workers is not None else ():
            done.add(result[0])
            yield result
        if missing := [path for path in self._missing if path not in done]:
            from runci.read.parse import parse_files  # late: with a warm cache, nothing is parsed

            yield from parse_files(self._root, missing)

    def _look_up(self) -> list[str]:
        """Take what the cache knows; the paths of the rest."""
        missing: list[str] = []
        known: list[tuple[str, str]] = []
        for path in self._paths:
            data = read(self._root, path)
            if isinstance(data, str):
                self._files[path] = unreadable(path, data)
                continue
            key = digest(data)
            row = self._cache.get(key)
            if row is None:
                missing.append(path)
            else:
                known.append((path, row))
                self._keys.append(key)
        for (path, _), row in zip(known, _decoded([row for _, row in known]), strict=True):
            file = _rebuilt(path, row)
            if file is None:
                missing.append(path)
            else:
                self._files[path] = file
        return missing


def _rebuilt(path: str, row: Any) -> TestFile | None:
    try:
        return from_row(path, row)
    except (TypeError, ValueError, LookupError):  # written by something else
        return None


def _decoded(rows: list[str]) -> list[Any]:
    """The rows as data, read in one go: a third of the time. None for one that is no JSON."""
    try:
        decoded: list[Any] = json.loads(f"[{','.join(rows)}]")
    except (ValueError, RecursionError):
        decoded = []
    return decoded if len(decoded) == len(rows) else [_decoded_row(row) for row in rows]


def _decoded_row(row: str) -> Any:
    try:
        return json.loads(row)
    except (ValueError, RecursionError):
        return None


def _start(root: Path, paths: Sequence[str], jobs: int) -> Workers | None:
    """Processes that parse, where that pays and this machine can."""
    if jobs < 2 or len(paths) < 2 or inputs.given_below(root):
        return None
    sizes = [(_size(root, path), path) for path in paths]
    count = min(jobs, sum(size for size, _ in sizes) // _WORTH_A_PROCESS + 1)
    if count < 2:
        return None
    from runci.read.workers import Workers

    try:
        return Workers(root, sizes, count)
    except (ImportError, NotImplementedError, OSError):  # no semaphores, or no more processes
        return None


def _size(root: Path, path: str) -> int:
    try:
        return os.stat(f"{root}/{path}").st_size  # noqa: PTH116  as in `discover.read`
    except OSError:
        return 0


def processors() -> int:
    """How many processes this one may use at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
