"""`runci rule`: what a rule means and how to mend what it finds."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.checks.registry import FAMILIES, is_known, rules
from runci.checks.rules_page import as_markdown, as_text
from runci.core.errors import Exit, RunciError
from runci.text.terminal import write
from runci.text.wording import nearest


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("rules", nargs="*", metavar="RULE", help="such as RT104 or WS101")
    command.add_argument("--all", action="store_true", help="every rule")
    command.add_argument("--format", choices=("text", "markdown"), default="text")


def run(options: Namespace) -> int:
    """Print what rules mean."""
    if options.all == bool(options.rules):
        raise RunciError("name rules, such as `runci rule RT104`, or pass --all")
    wanted = [name.upper() for name in options.rules]
    for name in wanted:
        if not is_known(name):
            raise RunciError(f"no rule {name!r}{nearest(name, rules())} (`runci rule --all`)")
    known = rules(sorted({name[:2] for name in wanted}) or FAMILIES)
    chosen = [known[name] for name in wanted or known]
    render = as_markdown if options.format == "markdown" else as_text
    write(render(chosen, whole=options.all))
    return Exit.OK
