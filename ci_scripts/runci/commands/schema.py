"""`runci schema`: the JSON Schema of suites.yml."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.core.errors import Exit
from runci.text.terminal import write


def add_options(_command: argparse.ArgumentParser) -> None:
    """There are none."""


def run(_options: Namespace) -> int:
    """`runci schema`: the JSON Schema of suites.yml."""
    from runci.config.schema import schema_text

    write(schema_text())
    return Exit.OK
