"""`runci check`: registered tests, workflows and whitespace in one go."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command, checking.EVERYTHING)


def run(options: Namespace) -> int:
    """Run every rule."""
    return checking.run_checks(options, checking.EVERYTHING, "files")
