"""The whole answer of a run, used again while all that it depends on is as it was.

Beside what the run looked at (`core.inputs`) that is the code and how it was asked.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.git import run_git
from runci.core.paths import path_bytes
from runci.read.cache import Cache

_PACKAGE = Path(__file__).parents[1]
_ROW = "answer"

Around: TypeAlias = tuple[Iterable[tuple[str, str]], list[inputs.Question]]


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
        self._asked = f"{about} {asked} {asker()}"
        self._cache = Cache(folder / f"answer-{zlib.crc32(path_bytes(about)):08x}", code_version())
        self._recording: inputs.Recording | None = None

    def find(self) -> Answer | None:
        """The answer, if it still stands."""
        try:
            asked, around, answer = json.loads(self._cache.get(_ROW) or "null")
            if asked != self._asked or still_so(around) is None:
                return None
            before, after, notes, status = answer
            return Answer(before, after, tuple(notes), status)
        except (TypeError, ValueError, AttributeError, RecursionError, RunciError):  # not ours
            return None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what the answer depends on."""
        self._recording = recording()
        with inputs.recorded(self._recording):
            yield

    def keep(self, answer: Answer) -> None:
        """Keep the answer of what was recorded, if all that it depends on is known."""
        known = self._recording
        if known is None or not known.complete:
            return
        around = written(known.paths, known.questions)
        self._cache.put(_ROW, json.dumps((self._asked, around, answer)))
        self._cache.save([_ROW])


def asker() -> str:
    """Who asks: that decides what can be read."""
    return f"{str(Path.cwd())!r} {os.geteuid()} {sys.getfilesystemencoding()}"


def recording() -> inputs.Recording:
    """One that begins now, and leaves out runci's own files: they are in `code_version`."""
    return inputs.Recording(str(_PACKAGE), time.time_ns())


def written(paths: dict[str, str], questions: Iterable[inputs.Question]) -> list[Any]:
    """What was looked at and asked, for a cache: `still_so` reads it."""
    asked = [(q.folder, q.arguments, q.output.decode("latin-1")) for q in questions]
    # Text of the paths and of how they are, since JSON of many small values is slow.
    return [asked, "\0".join(paths), "\0".join(paths.values())]


def still_so(around: list[Any]) -> Around | None:
    """The paths and questions of what `written` gave, if all of it is as it was; else None.

    Raises ValueError or TypeError for anything else, RunciError where git fails.
    """
    asked, paths, states = around
    questions = [inputs.Question(f, tuple(a), out.encode("latin-1")) for f, a, out in asked]
    with inputs.unheard():
        if any(run_git(Path(q.folder), *q.arguments) != q.output for q in questions):
            return None
        names = paths.split("\0")
        if "\0".join(map(inputs.how_it_is, names)) != states:
            return None
    return zip(names, states.split("\0"), strict=True), questions


def code_version() -> str:
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
