"""The command lines of `runci gate`, `runci slash` and `runci pr-states`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_GATE = """\
Reads GITHUB_EVENT_PATH and the variables that GitHub sets, asks the API with GITHUB_TOKEN, prints
the decision, and writes outputs (allowed, outcome, rule, reason, head_sha) and the step summary.
exit status: 0 allowed; 1 denied or unknown
"""


def add_gate(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the three commands."""
    _gate(
        commands.add_parser(
            "gate",
            help="decide whether this run may use the GPUs",
            description=_GATE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    _slash(commands.add_parser("slash", help="carry out the command in a comment"))
    _pr_states(commands.add_parser("pr-states", help="show the state of each PR Test workflow"))


def _gate(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="gate")
    command.add_argument("--extra", action="store_true", help="also require the label run-ci-extra")
    command.add_argument(
        "--ignore-is-ok",
        action="store_true",
        help="exit 0 when the event is another workflow's label (allowed stays false)",
    )
    command.add_argument("--record", metavar="FILE", help="write event and answers for --explain")
    other = command.add_mutually_exclusive_group()
    other.add_argument(
        "--explain", metavar="EVENT.json", help="decide offline about a saved event and its answers"
    )
    other.add_argument("--host", metavar="HOST.yml", help="decide as a GPU host, by its own list")
    other.add_argument("--table", action="store_true", help="print the decision table as Markdown")
    command.add_argument("--answers", metavar="FILE", help="the answers for --explain, when apart")


def _slash(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="slash")
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument("--dry-run", action="store_true", help="say what would be done")


def _pr_states(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="pr_states")
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument("--dry-run", action="store_true", help="print the block, write nothing")
