"""`runci completion SHELL`: what the shell reads to complete commands, options and paths."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from runci.commands.perf import StepParser
from runci.core.errors import Exit, RunciError, with_extra
from runci.text.terminal import write

_PATHS = ("FILE", "PATH", "PLAN", "RESULTS", "RECORD", "VERDICTS")


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "shell", choices=("bash", "zsh", "tcsh"), help='such as eval "$(runci completion bash)"'
    )


def run(options: Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise RunciError(
            f"runci completion needs the package shtab: {with_extra('completion')}"
        ) from error
    parser: argparse.ArgumentParser = options.whole_parser()
    _prepare(parser, {"file": shtab.FILE, "folder": shtab.DIRECTORY})
    write(shtab.complete(parser, shell=options.shell))
    return Exit.OK


def _prepare(parser: argparse.ArgumentParser, kinds: Mapping[str, Any]) -> None:
    """Declare what waits for its command, and say of each argument whether it is a path."""
    if isinstance(parser, StepParser):
        parser.declare()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _prepare(one, kinds)
        elif action.metavar == "DIR":
            action.complete = kinds["folder"]  # type: ignore[attr-defined]
        elif str(action.metavar).partition(".")[0] in _PATHS:
            action.complete = kinds["file"]  # type: ignore[attr-defined]
