"""`runci rule`: what a rule means and how to mend what it finds."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.checks.registry import FAMILIES, rules
from runci.checks.rules_page import as_text
from runci.core.errors import Exit, RunciError
from runci.core.finding import RuleInfo
from runci.text.terminal import write
from runci.text.wording import nearest


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("rules", nargs="*", metavar="RULE", help="such as RT104, or all of RT1")
    command.add_argument("--all", action="store_true", help="every rule")


def run(options: Namespace) -> int:
    """Print what rules mean."""
    if options.all == bool(options.rules):
        raise RunciError("name rules, such as `runci rule RT104`, or pass --all")
    chosen: dict[str, RuleInfo] = {}
    for name in [word.upper() for word in options.rules] or FAMILIES:
        known = rules((name[:2],) if name[:2] in FAMILIES else FAMILIES)
        found = {rule: info for rule, info in known.items() if name and rule.startswith(name)}
        if not found:
            raise RunciError(f"no rule {name!r}{nearest(name, rules())} (`runci rule --all`)")
        chosen |= found
    write(as_text(list(chosen.values()), whole=options.all))
    return Exit.OK
