"""The commands of `python -m sm120_ba validate`: each a module here, imported when it is called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

DIFFERENT, USAGE, NOTHING_COMPARED = 1, 2, 3  # beside 0: compared, and nothing found


class UsageError(ValueError):
    """Wrong use or input: the message names the file or option, its value and the remedy."""


class CommandModule(Protocol):
    """What a module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options of the command."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; 0 to 3 as above. Raises UsageError."""


@dataclass(frozen=True)
class Command:
    """One command: its name, its module and what it answers."""

    name: str
    module: str
    summary: str


COMMANDS: tuple[Command, ...] = (
    Command("dispatch", "dispatch", "which layers take the kernel, at which M, and in CUDA graphs"),
    Command("shadow", "shadow", "compare each call of a layer with another implementation of it"),
    Command("capture", "activations.capture", "save what layers of a running model get"),
    Command("expand", "activations.expand", "make seeded batches of the rows that were saved"),
    Command("replay", "activations.replay", "compare two implementations on what was saved"),
    Command("logits", "logits", "compare the teacher-forced logits of two arms"),
    Command("generate", "generation", "compare the greedy generation of two arms"),
    Command("scores", "scores", "compare the task scores of two arms, or of recorded answers"),
    Command("state", "recurrent_state", "show what rounding a recurrent state does to its outputs"),
    Command("trajectory", "trajectory", "compare the batches of two recorded runs"),
    Command("serve", "serving.command", "boot two configurations of a server and compare them"),
)


def main(argv: Sequence[str]) -> int:
    """Run one command; 0: nothing found, 1: differences, 2: wrong use, 3: nothing compared."""
    parser = argparse.ArgumentParser(prog="python -m sm120_ba validate", description=__doc__)
    names = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    asked = next((word for word in argv if not word.startswith("-")), None)
    for command in COMMANDS:
        options = names.add_parser(command.name, help=command.summary, description=command.summary)
        if command.name == asked:
            _module(command).add_arguments(options)
    arguments = parser.parse_args(argv)
    command = next(known for known in COMMANDS if known.name == arguments.command)
    try:
        check_report(getattr(arguments, "report", None))
        return _module(command).run(arguments)
    except UsageError as error:
        say(f"sm120_ba validate {command.name}: {error}")
        return USAGE


def check_report(path: Path | None) -> None:
    """Before anything runs: FILE.json can be written, and FILE.md is another. Raises UsageError."""
    if path is None:
        return
    if path.suffix != ".json":
        raise UsageError(f"--report {path}: it must end in .json; the Markdown is put beside it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--report {path}: {error}; name a file in another folder") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--report {path}: it cannot be written; name another file")


def say(text: str) -> None:
    """Print to standard error: what a command found goes to standard output and its file."""
    print(text, file=sys.stderr, flush=True)


def _module(command: Command) -> CommandModule:
    try:
        return cast(CommandModule, import_module(f"sm120_ba.validate.{command.module}"))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sm120_ba"):
            raise
        say(
            f"sm120_ba validate {command.name}: {error.name} is not installed; "
            "`pip install sm120-ba[validate]` brings it"
        )
        raise SystemExit(USAGE) from error
