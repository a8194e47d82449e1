"""`runci audit`: whether the workflows keep strangers off our machines."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command, checking.AUDIT)


def run(options: Namespace) -> int:
    """Check the workflows."""
    return checking.run_checks(options, checking.AUDIT, "workflow files")
