"""`runci run`: options in, tests run, results written, exit status out."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from runci.checks.rule import Options
from runci.checks.tree import load_tree, wanted_tests
from runci.commands.shared import duration, natural, positive
from runci.config.taxonomy import Execution, Taxonomy
from runci.core import targets
from runci.core.errors import Exit, RunciError
from runci.core.registration import Backend
from runci.core.selected import Selected
from runci.plan.changes import head_commit
from runci.run import processes
from runci.run.files import Wanted, choose, jobs, refuse_parts, take_shard
from runci.run.model import Selection
from runci.run.options import checked, narrowed
from runci.run.session import ATTEMPTS_A_RUN, DEFAULT_RESULTS, Request, catch_signals, require_posix


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "paths", nargs="*", metavar="FILE", help="only these files, folders or tests (FILE::TEST)"
    )
    what = command.add_argument_group("what to run")
    what.add_argument("--suite", metavar="NAME", help="a suite, such as base-a-test-cpu")
    what.add_argument("--shard", metavar="I/N|ID", help="part I of N, or a shard of --plan by id")
    what.add_argument("--plan", metavar="FILE", help="plan.json, as `runci plan` wrote it")
    what.add_argument(
        "--hw", choices=[backend.value for backend in Backend], help="the backend of the suite"
    )
    what.add_argument("--last-failed", action="store_true", help="what is not green in --results")
    what.add_argument("--allow-empty", action="store_true", help="a suite may have no tests")
    what.add_argument("--list", action="store_true", help="print the files and end")
    what.add_argument("--dry-run", action="store_true", help="print what would be started and end")
    what.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    what.add_argument("--config", metavar="FILE", help="its taxonomy (default: found there)")
    how = command.add_argument_group("how to run it")
    how.add_argument("--jobs", type=_jobs, metavar="N|auto", help="files at once (CPU: auto)")
    how.add_argument(
        "--isolate", choices=("fork", "spawn"), help="children are forks (default) or start anew"
    )
    how.add_argument(
        "--under",
        metavar="compute-sanitizer[=TOOL,...]",
        help="memcheck (default), racecheck, synccheck, initcheck: a run under each",
    )
    how.add_argument("--as-script", action="store_true", help="`python FILE`, not pytest")
    how.add_argument("--preload", metavar="MODULES", help="imported once, before the forks")
    how.add_argument("--order", choices=("auto", "path", "longest", "random"), default="auto")
    how.add_argument("--seed", type=int, metavar="N", help="of --order random")
    how.add_argument("--repeat", type=positive, default=1, metavar="N", help="stress: N times")
    how.add_argument("--retries", type=natural, default=0, metavar="N", help="of failed files")
    how.add_argument(
        "--machine-retries",
        type=natural,
        default=1,
        metavar="N",
        help="of files that the machine failed, and no test (default: 1)",
    )
    how.add_argument("--flaky-fails", action="store_true", help="a pass on a retry is a failure")
    how.add_argument("--fail-fast", action="store_true", help="start nothing after a failure")
    tests = command.add_argument_group(
        "given to pytest, also `-- ARGS` at the end: results are of a part"
    )
    tests.add_argument("-k", default="", metavar="NAMES", help="tests by their names")
    tests.add_argument("-m", default="", metavar="MARKS", help="tests by their marks")
    tests.add_argument("-x", action="store_true", help="end at the first failed test")
    tests.add_argument("--pdb", action="store_true", help="one file at the debugger, no result")
    limits = command.add_argument_group("limits, as 90, 90s, 15m or 2h")
    limits.add_argument(
        "--timeout-per-file", type=duration, metavar="TIME", help="then it is ended"
    )
    limits.add_argument(
        "--soft-timeout", type=duration, metavar="TIME", help="then it is shown where it is, once"
    )
    limits.add_argument(
        "--suite-timeout", type=duration, metavar="TIME", help="default: suites.yml"
    )
    limits.add_argument("--lease-timeout", type=duration, default=3600.0, metavar="TIME")
    limits.add_argument(
        "--grace", type=duration, default=5.0, metavar="TIME", help="between SIGTERM and SIGKILL"
    )
    out = command.add_argument_group("what comes of it")
    out.add_argument("--results", metavar="DIR", help=f"default: {DEFAULT_RESULTS}")
    out.add_argument("--junit", metavar="FILE", help="also write JUnit XML")
    out.add_argument(
        "--learn-skips",
        nargs="?",
        const="",
        metavar="FILE",
        help="print, or write to a .yml file, the entries for skips: that this runner needs; the "
        "taxonomy itself gets them in place",
    )
    out.add_argument(
        "--durations", type=natural, metavar="N", help="slowest tests shown (10; 0: all)"
    )
    out.add_argument("--format", choices=("auto", "text", "github"), default="auto")
    out.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def _jobs(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def run(options: Namespace) -> int:
    """The command."""
    processes.outlive_requests()
    _check(options)
    request = _request(options)
    chosen = request.selection
    if not chosen.files and not chosen.broken:
        return _empty(options, chosen)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    requests = _lanes(request)
    from runci.run.session import Session

    if options.list or options.dry_run:
        sessions = [Session(one, seed) for one in requests]
        for session in sessions:
            session.only_due()
        shown = [one.paths() if options.list else one.describe() for one in sessions]
        sys.stdout.write("".join(dict.fromkeys(shown)))
        return Exit.OK
    require_posix()
    status: int = Exit.OK
    with catch_signals() as (interrupt, wake):
        if options.pdb:
            session = Session(requests[0], seed)
            session.only_due()
            return session.debug(interrupt)
        for one in requests:
            status = max(status, Session(one, seed).run(interrupt, wake))
            if interrupt.number or (status and options.fail_fast):
                break
    return status


def _lanes(request: Request) -> list[Request]:
    """The request, or one for each tool of compute-sanitizer that it is to run under."""
    from runci.run.sanitizer import Tool, find, lanes

    options = request.options
    chosen = lanes(request.selection, options.under, request.taxonomy)
    if not any(one.under for one in chosen):
        return [request]
    if options.learn_skips and len(chosen) > 1:
        raise RunciError(
            "--learn-skips FILE: each tool would write it: choose one, as --under "
            f"compute-sanitizer={chosen[-1].under}"
        )
    if options.pdb:
        raise RunciError("--pdb: a tool would run the debugger: leave one of the two out")
    if options.isolate == "fork":
        raise RunciError("--isolate fork: a tool needs a process of its own: leave it out")
    look = options.list or options.dry_run
    program = "" if look else find(os.environ)
    requests = []
    for one in chosen:
        own = Namespace(**vars(options))
        if options.junit and len(chosen) > 1:
            path = Path(options.junit)
            own.junit = str(path.with_name(f"{path.stem}.{one.under}{path.suffix}"))
        tool = Tool(one.under or "", program)
        requests.append(replace(request, options=own, selection=one, tool=tool))
    return requests


def _check(options: Namespace) -> None:
    """Options that contradict each other."""
    if options.repeat > 1 and (options.plan or options.retries):
        other = "--plan" if options.plan else "--retries"
        raise RunciError(f"--repeat is for stress by hand: leave {other} out")
    if options.pdb and (options.repeat > 1 or options.retries or options.junit):
        raise RunciError("--pdb gives no results: leave --repeat, --retries and --junit out")
    if options.pdb and options.learn_skips is not None:
        raise RunciError("--pdb gives no results: leave --learn-skips out")
    if (asked := options.retries + options.machine_retries) >= ATTEMPTS_A_RUN:
        raise RunciError(
            f"--retries and --machine-retries: {asked} together, at most {ATTEMPTS_A_RUN - 1}"
        )


def _request(options: Namespace) -> Request:
    from runci.config.repository import find_config, find_root, load_taxonomy_file

    root = find_root(options.root, options.config)
    config = find_config(root, options.config)
    if options.plan:
        taxonomy = load_taxonomy_file(root, config)
        selection = _planned(options, root, taxonomy)
    else:
        taxonomy, selection = _chosen(options, root, config)
    given = [*selection.given]
    for name in ("root", "config"):
        if getattr(options, name):
            given += [f"--{name}", getattr(options, name)]
    selection = replace(selection, given=tuple(given))
    if options.as_script and selection.invocation.pytest_args:
        raise RunciError(
            f"--as-script: {config}: suite {selection.suite} has pytest_args, which scripts do not "
            "take: leave --as-script out"
        )
    selected = checked(Selected(options.k, options.m, options.x, tuple(options.rest)))
    if selected:
        scripts = selection.execution is Execution.SCRIPT and not options.pdb
        script = options.as_script or scripts
        selection = narrowed(selection, selected, script=script)
    results = Path(options.results) if options.results else root / DEFAULT_RESULTS
    if options.learn_skips:
        from runci.run.learn import check_target

        check_target(Path(options.learn_skips), config)
    return Request(options, root, taxonomy, selection, results, config)


def _planned(options: Namespace, root: Path, taxonomy: Taxonomy) -> Selection:
    from runci.plan.model import read_plan
    from runci.run.files import from_plan, named

    selection = from_plan(
        read_plan(options.plan, option="--plan "),
        options.plan,
        options.shard,
        taxonomy,
        head_commit(root),
        lambda path: (root / path).is_file(),
        Wanted(options.suite, Backend(options.hw) if options.hw else None),
    )
    if not options.paths:
        return selection
    wanted = targets.wanted(root, options.paths, Path.cwd())
    kept = named(selection, wanted, options.plan)
    refuse_parts(wanted.only, taxonomy, [file.path for file in kept.files])
    return kept


def _chosen(options: Namespace, root: Path, config: Path) -> tuple[Taxonomy, Selection]:
    from runci.read.cache import default_folder
    from runci.read.files import processors

    named = targets.wanted(root, options.paths, Path.cwd())
    request = Options(
        root,
        config,
        Path.cwd(),
        frozenset(),
        tuple(targets.read_target(text).path for text in options.paths),
        cache_folder=default_folder(),
        jobs=processors(),
    )
    tree = load_tree(request)
    wanted = Wanted(
        options.suite,
        Backend(options.hw) if options.hw else None,
        wanted_tests(request, tree),
        only=named.only,
    )
    selection = replace(choose(tree, wanted), commit=head_commit(root) or "")
    if options.shard is None:
        return tree.taxonomy, selection
    shard = part(options.shard)
    if selection.files and shard[0] > len(jobs(selection.files)):
        note = f"shard {options.shard} is empty: the suite has {len(selection.files)} files"
        selection = replace(selection, notes=(note,))
    return tree.taxonomy, take_shard(selection, *shard)


def part(text: str) -> tuple[int, int]:
    """«2/4» as numbers. Raises RunciError for another form, «0/4» or «5/4»."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise RunciError(f"--shard {text}: write I/N with I from 1 to N, or pass --plan too")
    return int(match[1]), int(match[2])


def _empty(options: Namespace, chosen: Selection) -> int:
    """No files: an empty shard of a suite that has files is fine, an empty suite is not."""
    fine = bool(chosen.notes) or options.allow_empty
    for note in chosen.notes:
        sys.stdout.write(f"{note}\n")
    if not fine:
        hint = f"; {len(chosen.disabled)} are disabled" if chosen.disabled else ""
        raise RunciError(
            f"{chosen.shard}: no test is registered for it{hint}: an empty suite is no success "
            "(--allow-empty says that it is meant)",
            Exit.NOTHING,
        )
    sys.stdout.write("0 passed, 0 failed, 0 skipped\n")
    return Exit.OK
