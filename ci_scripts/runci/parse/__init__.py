"""Bytes of one test file → TestFile. Never raises for a bad file; one file costs one parse."""

from __future__ import annotations

from runci.parse.model import ParseError, TestFile
from runci.source import at

__all__ = ["ParseError", "TestFile", "parse", "unreadable"]


def parse(path: str, data: bytes) -> TestFile:
    """Read one file. Faults of the file become `errors`; the rest is then empty."""
    from runci.parse.reader import read  # late: with a warm cache, nothing is parsed

    return read(path, data)


def unreadable(path: str, why: str) -> TestFile:
    """A file whose bytes could not be had."""
    return TestFile(path, errors=(ParseError("unreadable", why, at(1)),))
