"""Options of `runci audit`."""

from __future__ import annotations

import argparse

from runci.report import REPORTERS


def audit(command: argparse.ArgumentParser) -> None:
    """Add the options to the command."""
    command.set_defaults(command="audit")
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument(
        "--config", metavar="FILE", help="its taxonomy (default: test/suites.yml below the root)"
    )
    command.add_argument("--format", choices=tuple(REPORTERS), help="default: text")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    command.add_argument("--select", metavar="RULES", type=_rules, default=(), help="only these")
    command.add_argument("--ignore", metavar="RULES", type=_rules, default=(), help="not these")


def _rules(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().upper() for word in text.split(",") if word.strip())
    if not words:
        raise argparse.ArgumentTypeError("name at least one rule, such as WF104 or WF1")
    return words
