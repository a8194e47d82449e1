"""Parse results by content hash, in one file a repository.

The file has a row a line behind a checked header: nothing in it is ever executed, a corrupt or
foreign one is discarded, and a writer replaces it whole, so that several processes can share it.
"""

from __future__ import annotations

import stat
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from runci.core import inputs
from runci.core.errors import RunciError

_FORMAT = 1


def digest(data: bytes) -> str:
    """The key of a file's contents."""
    import hashlib  # late: whoever uses a whole answer again needs none

    return hashlib.blake2b(data, digest_size=16).hexdigest()


def source_version(*modules: str) -> str:
    """A digest of the sources of these packages and files (globs) of runci.

    Rows of other code are never used.
    """
    folder = Path(__file__).parents[1]
    globs = (name if "." in name else f"{name}/*.py" for name in modules)
    sources = sorted(path for glob in globs for path in folder.glob(glob))
    return digest(b"\0".join(path.read_bytes() for path in sources))


def default_folder() -> Path:
    """The user's cache folder for runci."""
    from platformdirs import user_cache_path

    return user_cache_path("runci", appauthor=False)


class Cache:
    """Rows by key. `version` is whatever the rows depend on besides the key.

    `empty` says whether there was no row at the start.
    """

    def __init__(self, path: Path | None, version: str) -> None:
        self._path = path
        self._header = f"runci-cache {_FORMAT} {version} python{sys.version_info[:2]}"
        self._rows = {} if path is None else _load(path, self._header)
        self.empty = not self._rows  # at the start
        self._added = False

    def get(self, key: str) -> str | None:
        """The row of a key, or None."""
        return self._rows.get(key)

    def put(self, key: str, row: str) -> None:
        """Remember a row (one line)."""
        if self._path is not None:
            self._rows[key] = row
            self._added = True

    def save(self, used: Iterable[str]) -> None:
        """Write the used rows where any was added; a cache that cannot be written is no fault."""
        if self._path is None or not self._added:
            return
        from runci.core.atomic import replace_file

        keys = dict.fromkeys(used)
        body = "\n".join(f"{k} {self._rows[k]}" for k in keys if k in self._rows).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            data = f"{self._header} {zlib.crc32(body)}\n".encode() + body
            replace_file(self._path, data, durable=False)  # the checksum tells what a crash left
        except (OSError, RunciError):
            return


def _load(path: Path, header: str) -> dict[str, str]:
    inputs.leave_out(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a device may have no end
            return {}
        first, _, body = path.read_bytes().partition(b"\n")
        if first != f"{header} {zlib.crc32(body)}".encode():
            return {}
        lines = body.decode().split("\n")
    except (OSError, UnicodeDecodeError):
        return {}
    rows = (line.partition(" ") for line in lines)
    return {key: row for key, _, row in rows if row}
