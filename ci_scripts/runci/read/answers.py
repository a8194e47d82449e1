"""The whole answer of a run, used again while all that it depends on is as it was.

Beside what the run looked at (`core.inputs`) that is the code and how it was asked.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.git import run_git
from runci.core.paths import path_bytes
from runci.read.cache import Cache

_PACKAGE = Path(__file__).parents[1]
_ROW = "answer"


class Answer(NamedTuple):
    """A report before and after the seconds that it names, notes beside it, the exit status."""

    before: str
    after: str
    notes: tuple[str, ...]
    status: int


class Kept:
    """Where the newest answer about a repository is kept.

    `about` names the repository; `asked` is all that tells this question from others about it.
    """

    def __init__(self, folder: Path, about: str, asked: str) -> None:
        # Who asks decides what can be read.
        who = f"{str(Path.cwd())!r} {os.geteuid()} {sys.getfilesystemencoding()}"
        self._asked = f"{about} {asked} {who}"
        self._cache = Cache(folder / f"answer-{zlib.crc32(path_bytes(about)):08x}", _version())
        self._recording: inputs.Recording | None = None

    def find(self) -> Answer | None:
        """The answer, if it still stands."""
        try:
            asked, questions, paths, states, answer = json.loads(self._cache.get(_ROW) or "null")
            if asked != self._asked or not all(_same(*question) for question in questions):
                return None
            # Text of the paths and of how they are, since JSON of many small values is slow.
            if "\0".join(map(inputs.how_it_is, paths.split("\0"))) != states:
                return None
            before, after, notes, status = answer
            return Answer(before, after, tuple(notes), status)
        except (TypeError, ValueError, AttributeError, RecursionError, RunciError):  # not ours
            return None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what the answer depends on."""
        self._recording = inputs.Recording(str(_PACKAGE), time.time_ns())
        with inputs.recorded(self._recording):
            yield

    def keep(self, answer: Answer) -> None:
        """Keep the answer of what was recorded, if all that it depends on is known."""
        known = self._recording
        if known is None or not known.complete:
            return
        questions = [(q.folder, q.arguments, q.output.decode("latin-1")) for q in known.questions]
        paths, states = "\0".join(known.paths), "\0".join(known.paths.values())
        self._cache.put(_ROW, json.dumps((self._asked, questions, paths, states, answer)))
        self._cache.save([_ROW])


def _same(folder: str, arguments: list[str], output: str) -> bool:
    return run_git(Path(folder), *arguments).decode("latin-1") == output


def _version() -> str:
    """How the files of the code are; not their bytes, which would take longer than a warm lint."""
    folders, states = [str(_PACKAGE)], []
    while folders:
        for entry in sorted(os.scandir(folders.pop()), key=lambda entry: entry.name):
            if entry.is_dir():
                folders += [entry.path] if entry.name != "__pycache__" else []
            else:
                found = entry.stat()
                states.append((entry.path, found.st_size, found.st_ino, found.st_ctime_ns))
    return f"{zlib.crc32(repr(states).encode()):08x}-{max(state[3] for state in states)}"
