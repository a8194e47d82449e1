"""`runci estimates check` and `update`: est_time against measured times."""

from __future__ import annotations

import argparse
import gc
from argparse import Namespace
from pathlib import Path

from runci.checks.tree import load_tree
from runci.commands.shared import percent, positive, tree_arguments, tree_options
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.plan.estimates import RUNS, TOLERANCE, Compared, Drift, compare, rewrite
from runci.plan.times import Times, measured
from runci.read.decode import read
from runci.results.read import note_broken, read_results
from runci.text.tables import path_end, render_table
from runci.text.terminal import note, terminal_width, write
from runci.text.wording import plural


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.set_defaults(paths=())
    command.add_argument("action", choices=("check", "update"), help="report drift, or mend it")
    command.add_argument("results", nargs="+", metavar="RESULTS", help="files or folders")
    command.add_argument(
        "--tolerance",
        type=percent,
        default=TOLERANCE,
        metavar="PERCENT",
        help="of the estimate that it may be off by (default: %(default)s, and 2 s)",
    )
    command.add_argument(
        "--runs",
        type=positive,
        default=RUNS,
        metavar="N",
        help="runs that it takes (default: %(default)s)",
    )
    tree_arguments(command)


def run(options: Namespace) -> int:
    """`runci estimates check` and `update`: est_time against measured times."""
    gc.disable()
    request = tree_options(options)
    found = read_results(options.results)
    note_broken(found)
    times = measured(result for _, result in found.results)
    if not times.timings:
        places = ", ".join(options.results)
        raise RunciError(f"no time of a file that passed in {places}", Exit.NOTHING)
    tree = load_tree(request)
    compared = compare(tree.files, times, options.tolerance, options.runs)
    if compared.drifts:
        write(_table(compared.drifts))
    changed = 0
    if options.action == "update":
        changed = _update(request.root, compared, times, options)
    write(_summary(compared, changed if options.action == "update" else None))
    if options.action == "update":
        return Exit.OK if changed == len(compared.drifts) else Exit.FINDINGS
    return Exit.FINDINGS if compared.drifts else Exit.OK


def _update(root: Path, compared: Compared, times: Times, options: Namespace) -> int:
    """Rewrite the literals; each file as it is now, in one step. Gives how many were written."""
    from runci.read.parse import parse

    written = 0
    for path in dict.fromkeys(drift.path for drift in compared.drifts):
        data = read(root, path)
        if isinstance(data, str):
            note(f"{path}: {data}: left as it is")
            continue
        now = compare([parse(path, data)], times, options.tolerance, options.runs).drifts
        after = rewrite(path, data, now)
        if isinstance(after, str):
            note(after)
            continue
        replace_file(root / path, after)
        written += len(now)
    return written


def _table(drifts: tuple[Drift, ...]) -> str:
    """One table a suite."""
    headers = ("test", "est_time", "p90", "median", "sd", "runs", "new")
    out = []
    for suite in sorted({drift.suite for drift in drifts}):
        rows = [_row(drift) for drift in drifts if drift.suite == suite]
        out.append(f"{suite}\n{render_table(headers, rows, '<>>>>>>', terminal_width())}\n")
    return "".join(out)


def _row(drift: Drift) -> list[str]:
    return [
        path_end(f"{drift.path}:{drift.span.line}", terminal_width() - 44),
        "?" if drift.old is None else f"{drift.old:g}",
        f"{drift.timing.p90 / 1000:.1f}",
        f"{drift.timing.median / 1000:.1f}",
        f"{drift.timing.variance**0.5:.1f}",
        str(len(drift.timing.runs)),
        str(drift.new),
    ]


def _summary(compared: Compared, written: int | None) -> str:
    if written is None:
        first = f"{plural(len(compared.drifts), 'estimates')} drifted"
    else:
        first = f"{written} of {plural(len(compared.drifts), 'estimates')} rewritten"
    rest = f"{compared.right} hold, {compared.seldom} measured too seldom"
    return f"{first}; {rest}, {compared.unmeasured} not measured\n"
