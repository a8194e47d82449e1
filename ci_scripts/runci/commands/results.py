"""`runci verify`, `runci status` and `runci estimates`: what results say."""

from __future__ import annotations

import gc
from argparse import Namespace
from pathlib import Path

from runci.atomic import replace_file
from runci.commands.shared import note, terminal_width, tree_options, write
from runci.discover import read
from runci.errors import Exit, RunciError
from runci.plan.estimates import Compared, Drift, by_path, compare, rewrite
from runci.plan.model import from_json
from runci.plan.times import Times, measured
from runci.report.summary import plural
from runci.report.table import path_end, render_table
from runci.results.files import Found, read_results


def verify(options: Namespace) -> int:
    """`runci verify`: whether the results are the plan."""
    from runci.report.verify import as_markdown, as_text
    from runci.results.verify import verify as judge

    try:
        data = Path(options.plan).read_bytes()
    except OSError as error:
        raise RunciError(f"{options.plan}: cannot read the plan: {error.strerror}") from error
    plan = from_json(data, options.plan)
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


def status(options: Namespace) -> int:
    """`runci status`: when each test last really ran."""
    from runci.results.status import as_table, as_text, statuses

    tests = [given for given in options.results if given.endswith(".py")]
    places = [given for given in options.results if not given.endswith(".py")]
    if len(tests) > 1 or not places:
        raise RunciError("name folders or files of results, and at most one test (PATH.py)")
    found = read_results(places)
    _note_broken(found)
    wanted = tests[0].replace("\\", "/").removeprefix("./") if tests else None
    listed = statuses((result for _, result in found.results), wanted)
    if not listed:
        what = f"no result of {wanted}" if wanted else "no result"
        raise RunciError(f"{what} in {', '.join(places)}", Exit.NOTHING)
    if wanted is None:
        write(as_table(listed, terminal_width()))
    else:
        write("".join(map(as_text, listed)))
    return Exit.OK


def estimates(options: Namespace) -> int:
    """`runci estimates check` and `update`: est_time against measured times."""
    from runci import lint as linting

    gc.disable()
    request = tree_options(options)
    found = read_results(options.results)
    _note_broken(found)
    times = measured(result for _, result in found.results)
    if not times.timings:
        places = ", ".join(options.results)
        raise RunciError(f"no time of a file that passed in {places}", Exit.NOTHING)
    tree = linting.load_tree(request)
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
    from runci.parse import parse

    written = 0
    for path in by_path(compared.drifts):
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


def _note_broken(found: Found) -> None:
    for text in found.broken:
        note(text)
