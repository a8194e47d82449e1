"""Reads and parses many files: from the cache where it can, in several processes where it pays."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runci.cache import Cache, digest
from runci.discover import read
from runci.parse import parse, unreadable
from runci.parse.model import TestFile, from_row, to_row

# Below this many bytes a second process costs more than it saves.
_WORTH_A_PROCESS = 1_500_000
_CHUNK_BYTES = 400_000

_Job = tuple[str, str, bytes]  # digest, path, contents


def read_all(
    root: Path, paths: Sequence[str], cache: Cache, jobs: int, keep: Sequence[str] = ()
) -> list[TestFile]:
    """Parse the files, in order, and save the cache.

    `jobs` is the most processes to use; `keep` are keys of other rows that stay in the cache.
    """
    files: dict[str, TestFile] = {}
    missing: list[_Job] = []
    keys: dict[str, str] = {}
    for path in paths:
        data = read(root, path)
        if isinstance(data, str):
            files[path] = unreadable(path, data)
            continue
        key = keys[path] = digest(data)
        known = _known(cache, key, path)
        if known is not None:
            files[path] = known
        else:
            missing.append((key, path, data))
    for key, path, row in _parse(missing, jobs):
        cache.put(key, row)
        files[path] = from_row(path, json.loads(row))
    cache.save([*keep, *keys.values()])
    return [files[path] for path in paths]


def _known(cache: Cache, key: str, path: str) -> TestFile | None:
    row = cache.get(key)
    if row is None:
        return None
    try:
        return from_row(path, json.loads(row))
    except (TypeError, ValueError, IndexError):  # written by something else
        return None


def _parse(missing: Sequence[_Job], jobs: int) -> Iterator[tuple[str, str, str]]:
    size = sum(len(data) for _, _, data in missing)
    workers = min(jobs, size // _WORTH_A_PROCESS + 1)
    if workers < 2:
        yield from _parse_chunk(missing)
        return
    done: set[str] = set()
    for result in _parse_in_processes(missing, workers):
        done.add(result[1])
        yield result
    yield from _parse_chunk([job for job in missing if job[1] not in done])


def _parse_in_processes(missing: Sequence[_Job], workers: int) -> Iterator[tuple[str, str, str]]:
    """Results as they come; ends early where a process dies, and the caller parses the rest."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(workers, context, _ignore_interrupt)
    try:
        for future in as_completed([pool.submit(_parse_chunk, c) for c in _chunks(missing)]):
            yield from future.result()
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the pool


def _chunks(missing: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Chunks of about equal size, the largest files first."""
    chunk: list[_Job] = []
    size = 0
    for job in sorted(missing, key=lambda job: -len(job[2])):
        chunk.append(job)
        size += len(job[2])
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _parse_chunk(chunk: Sequence[_Job]) -> list[tuple[str, str, str]]:
    return [(key, path, json.dumps(to_row(parse(path, data)))) for key, path, data in chunk]


def processors() -> int:
    """How many processes this one may use at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
