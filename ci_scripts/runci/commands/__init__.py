"""What each command does: options in, output and exit status out; a module a group of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from importlib import import_module

# Command → its module, in the order of the flow; each module has a function of the command's name.
COMMANDS: dict[str, str] = {
    "lint": "runci.commands.lint",
    "whitespace": "runci.commands.whitespace",
    "collect": "runci.commands.collect",
    "rule": "runci.commands.rule",
    "schema": "runci.commands.rule",
    "audit": "runci.commands.audit",
    "plan": "runci.commands.plan",
    "run": "runci.run.command",
    "verify": "runci.commands.results",
    "status": "runci.commands.results",
    "estimates": "runci.commands.results",
    "needs": "runci.commands.needs",
    "gate": "runci.commands.gate",
    "slash": "runci.commands.slash",
    "pr_states": "runci.commands.slash",
    "perf": "runci.perf.command",
}


def run(command: str, options: Namespace) -> int:
    """Run one command; only its module is imported."""
    function: Callable[[Namespace], int] = getattr(import_module(COMMANDS[command]), command)
    return function(options)
