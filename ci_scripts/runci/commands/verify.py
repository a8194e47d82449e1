"""`runci verify`: whether the results are the plan."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from runci.commands.shared import config_argument, read_suites, root_argument
from runci.core.errors import Exit, RunciError
from runci.core.paths import read_named
from runci.plan.model import Plan, read_plan
from runci.results.jobs import Job, Table, are_over, job_problems, read_jobs
from runci.results.read import Found, mixed, read_results
from runci.results.verify import Kind, Problem
from runci.text.terminal import note, terminal_width, write

# GitHub's list may lag behind the jobs: seconds between questions, and how often it is asked.
PAUSE, TIMES = 5.0, 12


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("plan", metavar="PLAN", help="plan.json")
    command.add_argument("results", nargs="+", metavar="RESULTS", help="files or folders")
    command.add_argument("--commit", metavar="SHA", help="the plan must be of this commit")
    command.add_argument("--flaky-fails", action="store_true", help="a pass on retry is a failure")
    command.add_argument("--allow-empty", action="store_true", help="a plan without tests is right")
    command.add_argument(
        "--run-jobs",
        metavar="FILE",
        help="jobs of the run as GitHub lists them, or `github`, in a workflow, to ask it: each "
        "shard needs one that succeeded, and its results must be what that job kept",
    )
    root_argument(command)
    config_argument(command)
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
    found = read_results(options.results)
    verdict = judge(
        plan,
        found,
        plan_path=options.plan,
        allow_empty=options.allow_empty,
        flaky_fails=options.flaky_fails,
        more=() if options.run_jobs is None else tuple(_bound(options, plan, found)),
    )
    shown = as_markdown(verdict) if options.format == "markdown" else None
    write(shown if shown is not None else as_text(verdict, terminal_width()))
    return Exit.OK if verdict.green else Exit.FINDINGS


def _bound(options: Namespace, plan: Plan, found: Found) -> Iterator[Problem]:
    """What speaks against the results being those of the shards' own jobs."""
    table = read_suites(options).workflows.jobs
    yield from job_problems(plan, table, _jobs(options.run_jobs, plan, table))
    for place in options.results:
        folder = Path(place).as_posix()
        below = [(p, r.shard) for p, r in found.results if p.startswith(f"{folder}/")]
        if (fault := mixed(below, folder)) is not None:
            yield Problem(Kind.FOREIGN, fault)


def _jobs(source: str, plan: Plan, table: Table) -> tuple[Job, ...]:
    if source == "github":
        return settled(_ask, lambda jobs: are_over(plan, table, jobs))
    try:
        return read_jobs(json.loads(read_named(source, option="--run-jobs ")), source)
    except (ValueError, RecursionError) as error:
        raise RunciError(f"--run-jobs {source}: not JSON: {error}") from error


def settled(
    ask: Callable[[], tuple[Job, ...]],
    over: Callable[[tuple[Job, ...]], bool],
    pause: float = PAUSE,
    times: int = TIMES,
) -> tuple[Job, ...]:
    """The answer once it holds how all jobs ended, or the last one."""
    jobs = ask()
    for _ in range(times - 1):
        if over(jobs):
            break
        note("GitHub does not list the end of every job yet: asking again")
        time.sleep(pause)
        jobs = ask()
    return jobs


def _ask() -> tuple[Job, ...]:
    """The jobs of this run over all its attempts. Raises RunciError where GitHub does not say."""
    from runci.gate.api import ApiError
    from runci.gate.events import REPOSITORY, live_api

    repository, run = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_RUN_ID", "")
    if not REPOSITORY.fullmatch(repository) or not re.fullmatch(r"[1-9][0-9]*", run):
        raise RunciError("--run-jobs github: GITHUB_REPOSITORY and GITHUB_RUN_ID must be set")
    path = f"/repos/{repository}/actions/runs/{run}/jobs"
    try:
        return read_jobs(live_api(os.environ).pages(path, "jobs", filter="all"), path)
    except ApiError as error:
        raise RunciError(
            f"--run-jobs github: {error}: the job needs GITHUB_TOKEN and `actions: read`"
        ) from error
