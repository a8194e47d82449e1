"""`runci audit`: whether the workflows keep strangers off our machines."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.commands import checking, shared


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    checking.check_arguments(command)
    shared.root_argument(command)
    shared.config_argument(command)


def run(options: Namespace) -> int:
    """Check the workflows."""
    return checking.run_checks(options, ("WF",), "workflow files")
