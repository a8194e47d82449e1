"""Source lines for reports: each file read once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runci.discover import read
from runci.parse.decode import decode
from runci.source import split_lines

_SHOWN_BYTES = 8_000_000


class LineReader:
    """Source lines by path, without their ends; None where a file cannot be shown."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, Sequence[str] | None] = {}

    def __call__(self, path: str) -> Sequence[str] | None:
        """The lines of one file."""
        if path not in self._lines:
            self._lines[path] = self._read(path)
        return self._lines[path]

    def _read(self, path: str) -> Sequence[str] | None:
        data = read(self._root, path)
        if isinstance(data, str) or len(data) > _SHOWN_BYTES:
            return None
        text = decode(data).text
        if text is None:
            text = data.decode("utf-8", errors="replace")
        return [line.rstrip("\r\n") for line in split_lines(text)]
