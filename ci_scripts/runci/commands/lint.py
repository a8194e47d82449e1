"""`runci lint`: the registered-test lint."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking, shared


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command)
    command.add_argument("paths", nargs="*", metavar="PATH", help="report on these only")
    shared.tree_arguments(command)


def run(options: Namespace) -> int:
    """Check the registrations."""
    return checking.run_checks(options, ("RT",), "test files")
