"""`runci whitespace`: trailing whitespace, line ends, encodings, conflict markers."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command, checking.WHITESPACE)


def run(options: Namespace) -> int:
    """Check the text of every file."""
    return checking.run_checks(options, checking.WHITESPACE, "files")
