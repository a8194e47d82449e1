"""Processes that parse test files."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from runci.read.parse import Parsed, parse_files

_CHUNK_BYTES = 250_000
_MOST = 60  # Windows waits for no more


class Workers:
    """Parses files in `count` processes, from now on. Raises OSError where none can be started.

    `sizes` are bytes and paths. The processes read the files themselves, so that their contents
    travel nowhere and are never all in memory.
    """

    def __init__(self, root: Path, sizes: Iterable[tuple[int, str]], count: int) -> None:
        context = get_context("fork" if sys.platform == "linux" else "spawn")
        self._pool = ProcessPoolExecutor(min(count, _MOST), context, _begin)
        self._futures = [self._pool.submit(_parse, root, chunk) for chunk in _chunks(sizes)]

    def results(self) -> Iterator[Parsed]:
        """Results as they come; ends early where a process dies."""
        waiting = as_completed(self._futures)
        self._futures = []  # a result that was read is not kept
        try:
            for future in waiting:
                yield from future.result()
        except BrokenProcessPool:
            return

    def stop(self) -> None:
        """End the processes, after the chunks that they are at."""
        self._pool.shutdown(cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the pool
    gc.disable()  # syntax trees have no cycles


def _chunks(sizes: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    """Chunks of about equal size, the largest files first, so that all end together."""
    chunk: list[str] = []
    total = 0
    for size, path in sorted(sizes, reverse=True):
        chunk.append(path)
        total += size
        if total >= _CHUNK_BYTES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def _parse(root: Path, paths: list[str]) -> list[Parsed]:
    return list(parse_files(root, paths))
