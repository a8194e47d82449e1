"""`runci verify`: whether the results are the plan."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.core.errors import Exit, RunciError
from runci.plan.model import read_plan
from runci.results.read import read_results
from runci.text.terminal import terminal_width, write


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("plan", metavar="PLAN", help="plan.json")
    command.add_argument("results", nargs="+", metavar="RESULTS", help="files or folders")
    command.add_argument("--commit", metavar="SHA", help="the plan must be of this commit")
    command.add_argument("--flaky-fails", action="store_true", help="a pass on retry is a failure")
    command.add_argument("--allow-empty", action="store_true", help="a plan without tests is right")
    command.add_argument("--format", choices=("text", "markdown"), default="text")


def run(options: Namespace) -> int:
    """`runci verify`: whether the results are the plan."""
    from runci.results.show import as_markdown, as_text
    from runci.results.verify import verify as judge

    plan = read_plan(options.plan)
    if options.commit is not None and not plan.commit.startswith(options.commit):
        raise RunciError(
            f"{options.plan}: the plan is of commit {plan.commit[:12] or 'unknown'}, "
            f"not {options.commit[:12]}: make it again with `runci plan`"
        )
    verdict = judge(
        plan,
        read_results(options.results),
        plan_path=options.plan,
        allow_empty=options.allow_empty,
        flaky_fails=options.flaky_fails,
    )
    shown = as_markdown(verdict) if options.format == "markdown" else None
    write(shown if shown is not None else as_text(verdict, terminal_width()))
    return Exit.OK if verdict.green else Exit.FINDINGS
