"""`runci needs`: the environment in, a table and an exit status out."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace

from runci.core.errors import Exit, RunciError
from runci.results.needs import as_markdown, job_ends


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.description = "Reads NEEDS, which a workflow sets to toJSON(needs)."
    command.add_argument(
        "--may-skip", metavar="JOBS", default="", help="jobs that may be skipped, with commas"
    )
    command.add_argument(
        "--may-fail", metavar="JOBS", default="", help="such as a gate, which denies by failing"
    )
    command.add_argument(
        "--one-of", metavar="JOBS", default="", help="of which the others may skip where one ran"
    )


def run(options: Namespace) -> int:
    """Fail unless every job before this one did its part."""
    text = os.environ.get("NEEDS")
    if text is None:
        raise RunciError("NEEDS is not set: give the step `env: {NEEDS: '${{ toJSON(needs) }}'}`")
    may_skip, may_fail, one_of = (
        [job for job in jobs.split(",") if job]
        for jobs in (options.may_skip, options.may_fail, options.one_of)
    )
    ends = job_ends(text, may_skip, may_fail, one_of)
    sys.stdout.write(as_markdown(ends))
    return Exit.OK if all(end.good for end in ends) else Exit.FINDINGS
