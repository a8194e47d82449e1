"""`runci needs`: the environment in, a table and an exit status out."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Iterable

from runci.commands.shared import config_argument, read_suites, root_argument
from runci.core.errors import Exit, RunciError
from runci.plan.model import read_plan
from runci.results.jobs import suites_of
from runci.results.needs import as_markdown, job_ends, read_needs


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.description = "Reads NEEDS, which a workflow sets to toJSON(needs)."
    command.add_argument(
        "--may-skip",
        metavar="JOBS",
        default="",
        help="jobs that are skipped where none of their suites is planned, with commas",
    )
    command.add_argument(
        "--may-fail", metavar="JOBS", default="", help="such as a gate, which denies by failing"
    )
    command.add_argument(
        "--one-of", metavar="JOBS", default="", help="of which the others may skip where one ran"
    )
    command.add_argument(
        "--plan", metavar="FILE", default="plan.json", help="of this run (default: plan.json)"
    )
    root_argument(command)
    config_argument(command)


def run(options: Namespace) -> int:
    """Fail unless every job before this one did its part."""
    text = os.environ.get("NEEDS")
    if text is None:
        raise RunciError("NEEDS is not set: give the step `env: {NEEDS: '${{ toJSON(needs) }}'}`")
    may_skip, may_fail, one_of = (
        [job.strip() for job in jobs.split(",") if job.strip()]
        for jobs in (options.may_skip, options.may_fail, options.one_of)
    )
    results = read_needs(text)
    skipped = any(results.get(job) == "skipped" for job in may_skip)
    planned = _planned(options, results) if skipped else {}
    ends = job_ends(results, may_skip, may_fail, one_of, planned)
    sys.stdout.write(as_markdown(ends))
    return Exit.OK if all(end.good for end in ends) else Exit.FINDINGS


def _planned(options: Namespace, jobs: Iterable[str]) -> dict[str, frozenset[str] | None]:
    """The planned suites of each job; None where suites.yml knows nothing of it."""
    plan, taxonomy = read_plan(options.plan, option="--plan "), read_suites(options)
    planned = {suite.name for suite in plan.suites}
    declared = {name for _, name in taxonomy.suites} | planned
    runs = {job: suites_of(job, taxonomy.workflows.jobs, declared) for job in jobs}
    return {job: suites if suites is None else suites & planned for job, suites in runs.items()}
