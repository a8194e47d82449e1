"""`runci perf record`: a night's records and suites → lines of the history."""

from __future__ import annotations

import datetime
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from runci.commands.shared import history_arguments, repository_arguments
from runci.config.perf import Config, check_night, run_url, settings
from runci.core.errors import Exit, RunciError
from runci.core.git import ask_git
from runci.nightly.history.additions import Additions, RunOf, additions_of, suite_nights
from runci.nightly.history.lines import Night
from runci.nightly.history.store import (
    Appended,
    source_of,
)
from runci.nightly.record import Record, read_records
from runci.text.terminal import note, write
from runci.text.wording import plural


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    step.add_argument(
        "records", nargs="*", metavar="RECORD", help="of `runci perf measure`, or a folder of them"
    )
    step.add_argument("--plan", metavar="FILE", help="the plan of the nightly suites")
    step.add_argument("--results", metavar="DIR", help="their results")
    step.add_argument("--night", metavar="DATE", help="where no record came (default: today)")


def run(options: Namespace) -> int:
    """Append a night, or the records of many. Nothing is written where any of it is wrong."""
    root, config = settings(options)
    records = sorted(read_records(options.records), key=lambda one: (one[1].night, one[1].started))
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    _check_options(options, records, today)
    _check_records(records, config, today)
    run = _run(options, [given for _, given in records])
    parts = [additions_of(given, path) for path, given in records]
    additions = Additions(
        tuple(one for part in parts for one in part.series),
        tuple(night for part in parts for night in part.nights),
    )
    additions = _with_suites(additions, options, run, root)
    nights = sorted({night.night for night in additions.nights})
    about = f"Record the night {nights[-1]}"
    if len(nights) > 1:
        about = f"Record {len(nights)} nights from {nights[0]} to {nights[-1]}"
    appended = source_of(options, root, config).append(lambda _: additions, about)
    _say(appended, additions.nights)
    return Exit.OK


def _check_options(options: Namespace, records: Sequence[tuple[str, Record]], today: str) -> None:
    if (options.plan is None) != (options.results is None):
        raise RunciError("--plan and --results go together: suites are judged by both")
    if not records and options.night is None:  # a name may be misspelt
        raise RunciError("name a RECORD of `runci perf measure`, or --night where none came")
    nights = {given.night: path for path, given in records}
    if options.night is not None:
        _refuse_future(check_night(options.night, "--night"), "--night", today)
        nights.setdefault(options.night, "--night")
    if len(nights) > 1 and (options.night is not None or options.plan is not None):
        said = ", ".join(f"{path} is of {night}" for night, path in sorted(nights.items()))
        raise RunciError(f"one night at a time with --night or --plan: {said}")


def _check_records(records: Sequence[tuple[str, Record]], config: Config, today: str) -> None:
    for path, given in records:
        _refuse_future(given.night, path, today)
        if given.benchmark not in config.benchmarks:
            known = ", ".join(config.benchmarks) or "none"
            raise RunciError(
                f"{path}: perf.yml has no benchmark {given.benchmark!r}, but {known}: record it "
                "with the perf.yml that it was measured by"
            )


def _refuse_future(night: str, where: str, today: str) -> None:
    if night > today:
        raise RunciError(
            f"{where}: the night {night} is in the future, today is {today} (UTC): look at the "
            "clock of the machine that measured it, and of this one"
        )


def _run(options: Namespace, records: Sequence[Record]) -> RunOf:
    """Whose results these are: the first record's run, else this job's."""
    if records:
        first = records[0]
        return RunOf(first.night, first.finished, first.run_id, first.run_url)
    now = datetime.datetime.now(datetime.timezone.utc)
    run_id = os.environ.get("GITHUB_RUN_ID", "")
    night = options.night or now.date().isoformat()
    return RunOf(night, now.isoformat(timespec="seconds"), run_id, run_url(os.environ))


def _with_suites(additions: Additions, options: Namespace, run: RunOf, root: Path) -> Additions:
    """The suites' points, and what is said of them in the first line of the night."""
    nights = additions.nights or (
        Night(run.night, run.at, run.run_id, _commit(root), measured=False, run_url=run.run_url),
    )
    if options.plan is None:
        return Additions(additions.series, nights)
    from runci.plan.model import read_plan
    from runci.results.read import Found, read_results

    plan = read_plan(options.plan)
    if Path(options.results).exists():
        found = read_results([options.results])
    else:
        note(f"{options.results}: no such folder: recorded as suites without a result")
        found = Found(())
    suites, series = suite_nights(plan, found, run)
    first = replace(nights[0], suites=suites)
    if not additions.nights:
        first = replace(first, commit=plan.commit)
    return Additions((*additions.series, *series), (first, *nights[1:]))


def _commit(root: Path) -> str:
    """The commit of this job; empty where there is none."""
    given = os.environ.get("GITHUB_SHA", "")
    return given or ask_git(root, "rev-parse", "--verify", "HEAD").out.decode().strip()


def _say(appended: Appended, nights: Iterable[Night]) -> None:
    for message in appended.messages:
        note(message)
    for night in nights:
        for reason in night.unusable:
            note(f"{night.night}: recorded, but its figures do not count: {reason}")
        for suite in night.suites:
            for text in (*suite.failures, *suite.problems):
                note(f"{night.night}: suite {suite.suite}: {text}")
        if not night.measured:
            note(f"{night.night}: recorded as a night that measured nothing")
    at = f" in {appended.commit[:12]}" if appended.commit else ""
    write(f"{plural(appended.lines, 'lines')} appended{at}\n")
