"""`runci check`: registered tests, workflows and whitespace in one go."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking, shared


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command)
    command.add_argument("paths", nargs="*", metavar="PATH", help="report on these only")
    shared.tree_arguments(command)
    checking.whitespace_arguments(command)


def run(options: Namespace) -> int:
    """Run every rule."""
    return checking.run_checks(options, ("RT", "WF", "WS"), "files")
