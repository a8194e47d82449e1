"""Exit codes, and the one exception that the command line turns into a message."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """What a command's exit status says."""

    OK = 0
    FINDINGS = 1  # findings, failed tests, or denied
    USAGE = 2  # wrong use, configuration or machine
    NOTHING = 3  # nothing to check: an empty input is never a success
    FAULT = 70  # a fault of ours
    INTERRUPTED = 130


class RunciError(Exception):
    """A message for the user, with the exit status that it means.

    The message names the file, line and value, and says what to do.
    """

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


class UnfitMachine(RunciError):  # noqa: N818  what it says is a state, not a fault of whoever runs
    """This machine cannot run the tests: they are not to blame, and none was started."""


def with_extra(extra: str) -> str:
    """How to get the packages of an extra. No index has runci; what is there is another."""
    return f'pip install ".[{extra}]" in a checkout of runci'
