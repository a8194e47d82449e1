"""`runci lint`: the registered-test lint."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command, checking.LINT)


def run(options: Namespace) -> int:
    """Check the registrations."""
    return checking.run_checks(options, checking.LINT, "test files")
