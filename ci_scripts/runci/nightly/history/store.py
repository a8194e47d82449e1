"""The history for the other stages: read it, append to it; from the branch or from a folder."""

from __future__ import annotations

import os
import random
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runci.config.perf import Config
from runci.core.atomic import locked, replace_file
from runci.core.errors import Exit, RunciError
from runci.nightly.history.additions import Additions, append_to, known_series
from runci.nightly.history.branch import Branch, RefusedError, open_branch
from runci.nightly.history.lines import Accept, Event, History, first_files
from runci.nightly.history.read import Files, history_of, parse_files
from runci.nightly.record import SeriesId

TRIES = 8
LONGEST_WAIT = 10.0  # seconds

# What to append, computed from the history as it is now.
Changes = Callable[[History], Additions]


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append did. `commit` is the branch's newest, None for a folder."""

    lines: int
    commit: str | None = None
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a command's history is: a folder where one was named, else the remote's branch."""

    root: Path
    remote: str
    branch: str
    folder: Path | None = None
    renames: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> History:
        """All of it. Raises RunciError where it is absent, unreachable or corrupt."""
        if self.folder is not None:
            return read_folder(self.folder, self.renames)
        return read_branch(self.root, self.remote, self.branch, self.renames)[0]

    def files(self) -> tuple[Mapping[str, bytes], str]:
        """The files as they are, checked to be a history, and their commit; empty of a folder."""
        if self.folder is not None:
            files, commit, where = folder_contents(self.folder), "", self.folder.as_posix()
        else:
            with open_branch(self.root, self.remote, self.branch) as opened:
                commit, where = opened.fetch(), opened.shown
                files = opened.files(commit)
        parse_files(files, where)
        return files, commit

    def append(self, changes: Changes, about: str) -> Appended:
        """Append what `changes` says; `about` is the subject of the commit."""
        if self.folder is not None:
            return append_folder(self.folder, changes, self.renames)
        return append(self.root, self.remote, self.branch, changes, about, self.renames)

    def append_lines(
        self, lines: Mapping[SeriesId, Sequence[Accept | Event]], about: str
    ) -> Appended:
        """Append to series that the history has."""
        return self.append(lambda history: known_series(history, lines), about)


def source_of(options: Namespace, root: Path, config: Config) -> Source:
    """The source that `--history`, `--remote` and perf.yml name."""
    folder = Path(options.history) if options.history else None
    return Source(root, options.remote, config.branch, folder, config.renames)


def read_folder(path: Path, renames: Mapping[str, str] | None = None) -> History:
    """The history in a checkout of the branch, or in a test's folder."""
    return history_of(parse_files(folder_contents(path), path.as_posix()), renames or {})


def read_branch(
    root: Path, remote: str, branch: str, renames: Mapping[str, str] | None = None
) -> tuple[History, str]:
    """The history on the remote, and the commit that it was read from."""
    with open_branch(root, remote, branch) as opened:
        commit = opened.fetch()
        files = parse_files(opened.files(commit), opened.shown)
    return history_of(files, renames or {}), commit


def start_branch(root: Path, remote: str, branch: str) -> str:
    """Start the branch, and give its first commit. Raises RunciError where the remote has it."""
    with open_branch(root, remote, branch) as opened:
        if opened.exists():
            raise RunciError(f"{opened.shown}: there already: nothing was changed")
        commit = opened.commit(None, first_files(), "Start the history of the nightly")
        opened.push(commit)
    return commit


def start_folder(path: Path) -> None:
    """As `start_branch`, in a folder that is empty or not there."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunciError(f"{path.as_posix()}: there already: nothing was changed")
    write_files(path, first_files())


def append_folder(
    path: Path, changes: Changes, renames: Mapping[str, str] | None = None
) -> Appended:
    """Append in a folder, one process after another, each file replaced in one step."""
    with locked(path):
        files = parse_files(folder_contents(path), path.as_posix())
        return _appended(files, changes, renames, lambda made: write_files(path, made))


def append(
    root: Path,
    remote: str,
    branch: str,
    changes: Changes,
    about: str,
    renames: Mapping[str, str] | None = None,
) -> Appended:
    """Append on the branch, whoever else pushes meanwhile: what to append is computed each time.

    Raises RunciError: with exit status 2 where the history cannot be read or `changes` does so,
    with 1 where the remote refused every push.
    """
    with open_branch(root, remote, branch) as opened:
        for attempt in range(1, TRIES + 1):
            tip = opened.fetch()
            files = parse_files(opened.files(tip), opened.shown)
            try:
                return _appended(files, changes, renames, partial(_pushed, opened, tip, about))
            except RefusedError as error:
                if attempt == TRIES:
                    raise RunciError(
                        f"{error} ({TRIES} times): nothing was written; run the same command "
                        "again, with the same files, when the remote takes pushes",
                        Exit.FINDINGS,
                    ) from error
            time.sleep(_wait(attempt))
    raise AssertionError("the last try returns or raises")


def _appended(
    files: Files,
    changes: Changes,
    renames: Mapping[str, str] | None,
    write: Callable[[Mapping[str, bytes]], str | None],
) -> Appended:
    history = history_of(files, renames or {})
    changed = append_to(files, changes(history))
    commit = write(changed.files)
    return Appended(changed.lines, commit, (*history.messages, *changed.messages))


def _pushed(opened: Branch, tip: str, about: str, files: Mapping[str, bytes]) -> str:
    """The newest commit, which has the files."""
    if not files:
        return tip
    commit = opened.commit(tip, files, about)
    opened.push(commit)
    return commit


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


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the branch's files below a folder, in their order, each in one step."""
    for path, content in files.items():
        if path.startswith("/") or {"..", ".git"}.intersection(path.split("/")):
            raise RunciError(
                f"{path}: no file of a history has such a name: nothing more was written"
            )
        place = folder / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunciError(f"{place.parent}: cannot make the folder: {error.strerror}") from error
        replace_file(place, content, durable=False)  # the branch is what has to last


def _wait(attempt: int) -> float:
    """Seconds before the next try: longer each time, and by chance, so that two come apart."""
    longest = min(0.2 * 2.0**attempt, LONGEST_WAIT)
    return random.uniform(0.3, 1.0) * longest  # noqa: S311  not for secrets
