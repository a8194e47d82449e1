"""Bytes of a file, their text as Python reads it, positions in it, and lines for reports."""

from __future__ import annotations

import ast
import codecs
import io
import os
import stat
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.core import inputs
from runci.core.source import Span, at, split_lines
from runci.read.testfile import ParseError

BOM = codecs.BOM_UTF8


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text without a BOM, or None, with what is wrong with the bytes."""

    text: str | None
    encoding: str
    errors: tuple[ParseError, ...]

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding, with a BOM where there was one."""
        mark = BOM if any(error.kind == "bom" for error in self.errors) else b""
        return mark + text.encode(self.encoding.replace("-sig", ""))


def decode(data: bytes) -> Decoded:
    """Decode as Python does: BOM, declared encoding, else UTF-8."""
    errors: list[ParseError] = []
    if data.startswith(BOM):
        errors.append(ParseError("bom", "the file starts with a byte order mark", at(1)))
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        message = "the file is UTF-16, which Python does not read"
        return Decoded(None, "utf-16", (ParseError("encoding", message, at(1)),))
    if (nul := data.find(b"\0")) >= 0:
        errors.append(ParseError("encoding", "a NUL byte", _byte_position(data, nul)))
        return Decoded(None, "utf-8", tuple(errors))
    try:
        encoding = _declared(data)
        text = data.decode(encoding)
    except SyntaxError as error:  # unknown, or contradicts the BOM
        errors.append(ParseError("encoding", f"unusable encoding declaration: {error.msg}", at(1)))
        return Decoded(None, "utf-8", tuple(errors))
    except UnicodeDecodeError as error:
        byte = data[error.start : error.start + 1].hex()
        message = f"byte 0x{byte} is not {error.encoding.upper()}"
        errors.append(ParseError("encoding", message, _byte_position(data, error.start)))
        return Decoded(None, "utf-8", tuple(errors))
    except (LookupError, ValueError, AssertionError) as error:  # a codec that is not for text
        errors.append(ParseError("encoding", f"unusable encoding declaration: {error}", at(1)))
        return Decoded(None, "utf-8", tuple(errors))
    return Decoded(text, encoding, tuple(errors))


def _declared(data: bytes) -> str:
    if b"coding" not in data[:400] and b"coding" not in b"".join(data.split(b"\n", 2)[:2]):
        return "utf-8-sig" if data.startswith(BOM) else "utf-8"
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _byte_position(data: bytes, offset: int) -> Span:
    before = data[:offset]
    line = len((before + b"x").splitlines())
    start = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
    return at(line, len(before[start:].decode("utf-8", errors="replace")) + 1)


class Positions:
    """Turns a node's position (UTF-8 bytes) into a span of characters."""

    def __init__(self, text: str) -> None:
        self._lines = None if text.isascii() else text.encode("utf-8", "replace").splitlines()

    def span(self, node: ast.AST) -> Span:
        """The span of a node that has a position."""
        line: int = node.lineno  # type: ignore[attr-defined]
        end_line: int = node.end_lineno  # type: ignore[attr-defined]
        return Span(
            line,
            self._column(line, node.col_offset),  # type: ignore[attr-defined]
            end_line,
            self._column(end_line, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _column(self, line: int, offset: int) -> int:
        if self._lines is None:
            return offset + 1
        return len(self._lines[line - 1][:offset].decode("utf-8", errors="replace")) + 1


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


def read(root: Path, path: str) -> bytes | str:
    """The bytes of a regular file, or why they cannot be had."""
    full = f"{root}/{path}"  # not pathlib, nor a buffer: every lint does this for every file
    if (data := inputs.given(full)) is not None:
        return data
    inputs.look(full)
    try:
        if not stat.S_ISREG(os.stat(full).st_mode):  # noqa: PTH116  a FIFO would block for ever
            return "not a regular file"
        with open(full, "rb", buffering=0) as stream:  # noqa: PTH123
            return stream.read()
    except FileNotFoundError:
        return "a broken symbolic link" if os.path.islink(full) else "the file is gone"  # noqa: PTH114
    except OSError as error:
        return error.strerror or str(error)
