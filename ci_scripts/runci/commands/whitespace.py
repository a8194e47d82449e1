"""`runci whitespace`: trailing whitespace, line ends, encodings, conflict markers."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking, shared


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command)
    command.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    shared.root_argument(command)
    checking.whitespace_arguments(command)


def run(options: Namespace) -> int:
    """Check the text of every file."""
    return checking.run_checks(options, ("WS",), "files")
