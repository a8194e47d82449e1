"""What a run looks at: files, folders, and what git says, each as it was just before that.

An answer that depends on nothing else stands for as long as all of it is as it was.
"""

from __future__ import annotations

# Strings, not pathlib: a warm lint does this for every file, and little else.
# ruff: noqa: PTH100, PTH116, PTH118, PTH119, PTH120, PTH208
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

# A file that changed so shortly before the run may change again without a trace: times have ticks,
# of up to two seconds (FAT). git calls such an entry of its index «racy».
TICK = 2 * 10**9
# What reaches outside in ways that are not recorded.
_OUTSIDE = frozenset(
    {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "socket.connect"}
)
_WRITES = os.O_WRONLY | os.O_RDWR
# What git can be asked again and again: it writes nothing, and says the same of the same tree.
_READS = frozenset({"ls-files", "rev-parse", "check-attr", "check-ignore"})


class Question(NamedTuple):
    """What git was asked in a folder, and its whole output."""

    folder: str
    arguments: tuple[str, ...]
    output: bytes


class Recording:
    """What was looked at since it began. `begun` is in ns of this machine's clock.

    `code` is the folder of runci: what is below is part of an answer's version, so it is left out.
    """

    def __init__(self, code: str, begun: int) -> None:
        self._code = os.path.join(code, "")
        self._left_out: set[str] = set()
        self._begun = begun
        self._processes = 0
        self._beyond = False
        self.paths: dict[str, str] = {}  # absolute path → how it was
        self.young: set[str] = set()  # those that may change once more unseen
        self.questions: list[Question] = []

    @property
    def known(self) -> bool:
        """Whether all that counts was recorded. Other processes must read only what was looked at
        before."""
        known = sum(question.arguments[0] in _READS for question in self.questions)
        return not self._beyond and self._processes == known

    @property
    def complete(self) -> bool:
        """Whether all that counts is known, and none of it so young that it may change unseen."""
        return self.known and not self.young

    def look(self, path: str) -> None:
        """Note how a path is, before anything is done with it for the first time."""
        full = os.path.abspath(path)
        known = full in self.paths or full in self._left_out
        if not known and not full.startswith(self._code):
            self.paths[full] = ""  # listing a folder is heard, too
            self.paths[full] = how_it_is(full)
            if self.is_young(full):
                self.young.add(full)

    def is_young(self, path: str) -> bool:
        """Whether a file may change once more in the tick in which it last did."""
        return _changed(path) >= self._begun - TICK

    def leave_out(self, path: str) -> None:
        """Say that an answer is the same whatever this file holds."""
        self._left_out.add(os.path.abspath(path))

    def beyond(self) -> None:
        """Say that the answer depends on something that is not recorded."""
        self._beyond = True

    def stand(self, paths: Iterable[tuple[str, str]], questions: Iterable[Question]) -> None:
        """Note paths, each with how it is, and questions that were recorded and are still so."""
        for path, state in paths:
            self.paths.setdefault(path, state)
        asked = list(questions)
        self.questions += asked
        self._processes += len(asked)

    def absorb(self, other: Recording) -> None:
        """Note all that a part of this run looked at."""
        self.stand(other.paths.items(), other.questions)
        self._processes += other._processes - len(other.questions)
        self._beyond = self._beyond or other._beyond
        self._left_out |= other._left_out
        self.young |= other.young

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        """An event of Python's audit (PEP 578)."""
        if event in ("open", "os.listdir", "os.scandir"):
            path = arguments[0]
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
            if isinstance(path, (str, bytes, os.PathLike)) and not writes:
                self.look(os.fsdecode(path))
            elif path is None:
                self.look(".")
        elif event == "subprocess.Popen":
            self._processes += 1
        elif event in _OUTSIDE:
            self._beyond = True


# An audit hook is the one edge that all opening and listing passes, whoever writes a rule; but it
# can never be removed, so it stays, and listens while there is a recording.
_current: list[Recording] = []
_hooked: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _current:
        _current[-1].hear(event, arguments)


@contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """Record all that this process looks at; whoever records around it knows that, too."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_hook)
    _current.append(recording)
    try:
        yield
    finally:
        _current.pop()
        if _current:
            _current[-1].absorb(recording)


@contextmanager
def unheard() -> Iterator[None]:
    """Look at something that only tells whether what was recorded is still so."""
    heard, _current[:] = _current[:], []
    try:
        yield
    finally:
        _current[:] = heard


def stand(paths: Iterable[tuple[str, str]], questions: Iterable[Question]) -> None:
    """As `Recording.stand`; where nobody records, nothing of it is made."""
    if _current:
        _current[-1].stand(paths, questions)


def look(*paths: str | Path) -> None:
    """Note paths that are asked for in ways that Python's audit does not tell of.

    That is `stat` and its kin, and what other processes read.
    """
    if _current:
        for path in paths:
            _current[-1].look(os.fspath(path))


def leave_out(path: str | Path) -> None:
    """Say that an answer is the same whatever this file holds: a cache's."""
    if _current:
        _current[-1].leave_out(os.fspath(path))


def asked(folder: Path, arguments: Iterable[str], output: bytes) -> None:
    """Note what git said."""
    if _current:
        _current[-1].questions.append(Question(os.fspath(folder), tuple(arguments), output))


def beyond() -> None:
    """Say that the answer depends on something that is not recorded."""
    if _current:
        _current[-1].beyond()


# The text of one file that comes from elsewhere, say an editor: its folder, its name, its bytes.
_instead: list[tuple[str, str, bytes]] = []


@contextmanager
def instead(path: str | Path, data: bytes) -> Iterator[None]:
    """Take these bytes for what a file holds, which need not be there. Not heard by processes."""
    folder, name = os.path.split(os.path.abspath(path))
    _instead.append((os.path.realpath(folder), name, data))
    try:
        yield
    finally:
        _instead.pop()


def given(path: str) -> bytes | None:
    """The bytes that are to be taken for a file's."""
    if _instead and os.path.basename(path) == _instead[-1][1]:
        folder, _, data = _instead[-1]
        return data if os.path.realpath(os.path.dirname(path) or ".") == folder else None
    return None


def given_below(root: str | Path) -> list[str]:
    """The path of the file whose bytes are given, if it is below a root."""
    top = os.path.realpath(root)
    paths = (os.path.relpath(os.path.join(f, name), top) for f, name, _ in _instead[-1:])
    return [path.replace(os.sep, "/") for path in paths if not path.startswith("..")]


def how_it_is(path: str) -> str:
    """All that changes where a path, or what it leads to, does.

    Of a file the times, size and place that git's index compares, of a folder the names in it.
    """
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"{_times(found)} {_behind(path)}"
        return _state(path, found)
    except (OSError, ValueError) as error:
        return f"{error}"


def _behind(link: str) -> str:
    try:
        return _state(link, os.stat(link))
    except OSError as error:  # it leads nowhere, which is not the same as no link
        return f"{error}"


def _state(path: str, found: os.stat_result) -> str:
    if stat.S_ISDIR(found.st_mode):
        return f"{found.st_mode} {found.st_ino} {sorted(os.listdir(path))}"
    return _times(found)


def _times(found: os.stat_result) -> str:
    return (
        f"{found.st_mode} {found.st_uid} {found.st_dev} {found.st_ino} {found.st_size} "
        f"{found.st_mtime_ns} {found.st_ctime_ns}"
    )


def _changed(path: str) -> int:
    """When a file last changed, in ns; 0 for what is not there, or no file: its state says all."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return 0 if stat.S_ISDIR(found.st_mode) else max(found.st_mtime_ns, found.st_ctime_ns)
