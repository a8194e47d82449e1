"""The folder of results: one JSON file a test file and attempt, its output, a lock a shard."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from runci.core.atomic import replace_file
from runci.core.errors import RunciError
from runci.core.paths import path_bytes
from runci.core.result import FileResult, from_json

_PART = re.compile(r"::| (?=-)")
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


class Store:
    """Results of one shard in a folder that others may share. A context: it holds the shard's lock.

    Raises RunciError where the folder cannot be written or another run writes the same shard.
    """

    def __init__(self, folder: Path, shard: str) -> None:
        self._folder, self._shard, self._key = folder, shard, _digest(shard, 3)
        self._unfit = folder / f"machine.{self._key}.json"

    def __enter__(self) -> Store:
        from filelock import FileLock, Timeout

        try:
            (self._folder / "logs").mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._folder / f".{_slug(self._shard)}.lock", timeout=0)
            self._lock.acquire()
            self._ignore()
            probe = self._folder / f".{_slug(self._shard)}.probe"  # others have their own
            replace_file(probe, b"\n" * 512)
            probe.unlink()
            self._unfit.unlink(missing_ok=True)
        except Timeout as error:
            raise RunciError(
                f"{self._folder}: another run is writing results of shard {self._shard} there: "
                "give each its own --results folder"
            ) from error
        except (OSError, RunciError) as error:
            said = getattr(error, "strerror", None) or error
            raise RunciError(
                f"--results {self._folder}: cannot be written: {said}; nothing was run: choose "
                "another folder"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _ignore(self) -> None:
        """What runs leave is no part of the repository, whatever its own .gitignore says."""
        top = next((p for p in (self._folder, *self._folder.parents) if p.name == ".runci"), None)
        if top is not None and not (top / ".gitignore").exists():
            replace_file(top / ".gitignore", b"*\n")

    def clear(self, titles: Iterable[str] | None) -> None:
        """Forget earlier results of these files, or of the whole shard: files may be gone.

        Here and below a file is known by its title, so that one test of it is another thing.
        """
        names = ["*." + self._key] if titles is None else [self._stem(one) for one in titles]
        for name in names:
            for folder, end in ((self._folder, "json"), (self._folder / "logs", "log")):
                for old in folder.glob(f"{name}.*.{end}"):
                    old.unlink()

    def earlier(self, title: str) -> tuple[list[FileResult], list[Path]]:
        """Results of a file by attempt, and the result files that are not whole."""
        found: list[FileResult] = []
        torn: list[Path] = []
        for file in sorted(self._folder.glob(f"{self._stem(title)}.*.json")):
            result = _read(file)
            if result is None:
                torn.append(file)
            else:
                found.append(result)
        return sorted(found, key=lambda result: result.attempt), torn

    def of_file(self, path: str) -> list[FileResult]:
        """Whole results of a file and of parts of it."""
        pattern = f"{_name(path)}.{self._key}.*.json"
        found = map(_read, sorted(self._folder.glob(pattern)))
        return [one for one in found if one is not None and one.path == path]

    def write(self, result: FileResult) -> None:
        """Write a result whole or not at all."""
        name = f"{self._stem(result.title)}.{result.attempt}.json"
        replace_file(self._folder / name, result.to_json().encode())

    def write_unfit(self, reason: str) -> None:
        """Write that the machine could not run the shard, so that nobody looks for a test."""
        from runci.core.unfit import Unfit

        replace_file(self._unfit, Unfit(self._shard, (reason,)).to_json().encode())

    def write_log(self, title: str, attempt: int, content: bytes) -> Path | None:
        """Write what a file printed; None where that cannot be: its result matters more."""
        target = self.log_path(title, attempt)
        with contextlib.suppress(OSError):
            target.write_bytes(content)
            return target
        return None

    def write_stacks(self, title: str, attempt: int, lines: Iterable[str]) -> str | None:
        """Write where the processes of an attempt were; its place from the folder of results."""
        # Ends as a log does, so that it goes when that goes.
        target = self.log_path(title, attempt).with_suffix(".stacks.log")
        with contextlib.suppress(OSError):
            text = "".join(f"{line}\n" for line in lines)
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
            return target.relative_to(self._folder).as_posix()
        return None

    def tool_log(self, title: str, attempt: int, tool: str) -> Path:
        """Where a tool writes of an attempt; nothing of an earlier one is there."""
        # Ends as a log does, so that it goes when that goes.
        target = self.log_path(title, attempt).with_suffix(f".{tool}.log")
        target.unlink(missing_ok=True)
        return target

    def log_path(self, title: str, attempt: int) -> Path:
        """Where the output of an attempt stands."""
        return self._folder / "logs" / f"{self._stem(title)}.{attempt}.log"

    def path(self, name: str | None) -> Path | None:
        """Where what `write_stacks` named stands."""
        return self._folder / name if name is not None else None

    @property
    def setup_log(self) -> Path:
        """Where the output of the suite's set-up stands."""
        return self._folder / "logs" / f"setup.{_slug(self._shard)}.log"

    @property
    def junit_path(self) -> Path:
        """Where the shard's JUnit XML stands: shards share the folder."""
        return self._folder / f"junit.{_slug(self._shard)}.xml"

    def _stem(self, title: str) -> str:
        return f"{_name(title)}.{self._key}.{_digest(title, 5)}"


def _name(title: str) -> str:
    """For people; alike for a file and every part of it, which begins with `::` or an option."""
    return _slug(Path(_PART.split(title)[0]).stem)[:80]


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(path_bytes(text), digest_size=size).hexdigest()


def _read(file: Path) -> FileResult | None:
    try:
        return from_json(file.read_bytes(), str(file))
    except (RunciError, OSError):
        return None


def _slug(text: str) -> str:
    return _PLAIN.sub("_", text)[:120] or "_"
