"""What `runci check`, `lint`, `audit` and `whitespace` share: options, one run, one report."""

from __future__ import annotations

import gc
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from runci.checks.reporters import REPORTERS
from runci.commands import shared
from runci.config.repository import BASELINE, find_root
from runci.core import inputs
from runci.core.errors import Exit, RunciError
from runci.read.answers import Answer, Kept
from runci.read.cache import default_folder
from runci.text.terminal import chosen_color, note, terminal_width, write
from runci.text.wording import plural

# What runs checks is imported where it does: where nothing has changed, nothing is checked.
if TYPE_CHECKING:
    from runci.checks.engine import Result
    from runci.checks.fix import Fixed
    from runci.checks.rule import Options
    from runci.core.finding import Summary

LINT, AUDIT, WHITESPACE = ("RT",), ("WF",), ("WS",)
EVERYTHING = (*LINT, *AUDIT, *WHITESPACE)

# Options that an answer may have been asked with, to be used again. Of any other one nobody has
# shown that all that it depends on is recorded.
_REPEATABLE = frozenset(
    {
        *("command", "root", "config", "select", "ignore", "baseline", "no_baseline", "color"),
        *("cache_dir", "jobs"),
    }
)


def check_arguments(command: ArgumentParser, families: Sequence[str]) -> None:
    """What is checked, what counts, what becomes of it, and how it is shown: in this order."""
    command.set_defaults(config=None, no_cache=False, cache_dir=None, jobs=None)
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="report on these only; - reads standard input"
    )
    command.add_argument(
        "--stdin-filename", metavar="PATH", help="the file that standard input stands for, with -"
    )
    shared.root_argument(command)
    if families != WHITESPACE:
        shared.config_argument(command)
    command.add_argument("--select", metavar="RULES", type=_words, default=(), help="only these")
    command.add_argument("--ignore", metavar="RULES", type=_words, default=(), help="not these")
    if "WF" in families:
        command.add_argument(
            "--ruleset",
            metavar="FILE",
            help="the default branch's rules, exported (default: .github/ruleset.json, if there)",
        )
    if "WS" in families:
        _whitespace_arguments(command)
    shared.baseline_arguments(command)
    command.add_argument(
        "--write-baseline", action="store_true", help="write today's findings to the baseline"
    )
    command.add_argument("--fix", action="store_true", help="mend what has one right answer")
    command.add_argument("--diff", action="store_true", help="show what --fix would change")
    command.add_argument("--format", choices=tuple(REPORTERS), help="default: text")
    command.add_argument("--statistics", action="store_true", help="count by rule: text or json")
    command.add_argument("-q", "--quiet", action="store_true", help="findings, and nothing else")
    command.add_argument("--exit-zero", action="store_true", help="exit with 0 for findings, too")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    if "RT" in families:
        shared.cache_arguments(command)


def _whitespace_arguments(command: ArgumentParser) -> None:
    command.add_argument(
        "--diff-base", metavar="REV", help="of whitespace, only lines added since this commit"
    )
    command.add_argument(
        "--markdown-breaks",
        action=BooleanOptionalAction,
        default=True,
        help="allow Markdown's line break of two spaces",
    )


def run_checks(options: Namespace, families: Sequence[str], noun: str) -> int:
    """Check, mend where that is asked for, report; the exit status."""
    gc.disable()  # a short process that allocates much and frees little
    if options.stdin_filename is None and "-" not in options.paths:
        return _run_on_files(options, families, noun)
    name, data = _standard_input(options)
    with inputs.instead(name, data):
        options.paths = [name]
        return _run_on_files(options, families, noun)


def _standard_input(options: Namespace) -> tuple[str, bytes]:
    """The file that standard input stands for, and its text. Raises RunciError for wrong use."""
    if options.stdin_filename is None or options.paths != ["-"]:
        raise RunciError("standard input is one file: - as the only PATH, with --stdin-filename")
    if options.write_baseline or getattr(options, "diff_base", None):
        raise RunciError("--write-baseline and --diff-base are about files, not standard input")
    if not Path(options.stdin_filename).parent.is_dir():
        raise RunciError(f"--stdin-filename {options.stdin_filename}: no such folder")
    return options.stdin_filename, sys.stdin.buffer.read()


def _run_on_files(options: Namespace, families: Sequence[str], noun: str) -> int:
    started = time.monotonic()
    kept = _kept(options, families)
    answer = kept.find() if kept is not None else None
    if answer is not None:
        write(f"{answer.before}{time.monotonic() - started:.2f}{answer.after}")
        for text in answer.notes:
            note(text)
        return answer.status
    with kept.recorded() if kept is not None else nullcontext():
        status, said = _run(options, families, noun, started)
    if kept is not None and said is not None:
        kept.keep(said)
    return Exit.OK if options.exit_zero and status == Exit.FINDINGS else status


def _kept(options: Namespace, families: Sequence[str]) -> Kept | None:
    """Where the answer to this question is kept, if it may be used again."""
    given = vars(options)
    others = (value for name, value in given.items() if name not in _REPEATABLE)
    if families != LINT or any(others) or sys.platform == "win32":  # no time of a file's change
        return None
    root = find_root(options.root, options.config)
    how = chosen_color(options.color, sys.stdout), terminal_width(), shared.shown_root(root)
    asked = sorted((name, str(given.get(name))) for name in _REPEATABLE)
    folder = Path(options.cache_dir or default_folder())
    return Kept(folder, f"{root.absolute()} {options.config}", f"{asked} {how}")


def _run(
    options: Namespace, families: Sequence[str], noun: str, started: float
) -> tuple[int, Answer | None]:
    """Check, mend, report: the exit status, and what may be said again."""
    from dataclasses import replace

    from runci.checks import engine
    from runci.checks.registry import choose, needed
    from runci.core.finding import Summary

    active = choose(options.select, options.ignore, families)
    families = needed(active, families)
    request = shared.tree_options(options, active)
    request = replace(request, reuse=not (options.fix or options.diff))
    if options.write_baseline:
        return _write_baseline(options, request, families), None
    result = engine.check(request, families)
    fixed = 0
    if options.fix or options.diff:
        from runci.checks import fix

        changes = engine.changes(request, result)
        if options.diff:
            write(fix.diff(changes))
            return (Exit.FINDINGS if changes else Exit.OK), None
        if options.stdin_filename is not None:
            return _mended(options, request, families, changes), None
        fixed, refused = fix.write(request.root, changes)
        for text in refused:
            note(text)
        result = engine.check(request, families) if fixed else result
    files, registrations = _looked_at(result)
    summary = Summary(
        files,
        time.monotonic() - started,
        noun=noun,
        registrations=registrations,
        suppressed=result.suppressed,
        baselined=result.baselined,
        fixed=fixed,
    )
    nothing = not files and not result.findings
    status = Exit.FINDINGS if result.failed else Exit.NOTHING if nothing else Exit.OK
    text, notes = _report(options, result, summary, families, request.root)
    begin = text.rfind("\n\n") + 1  # of the closing lines, the only ones with the seconds
    before, found, after = text[begin:].rpartition(f"{summary.seconds:.2f}")
    said = Answer(text[:begin] + before, after, notes, int(status)) if found else None
    return status, said


def _mended(
    options: Namespace, request: Options, families: Sequence[str], changes: Sequence[Fixed]
) -> int:
    """Write the mended standard input, and nothing else; whether any finding is left."""
    from runci.checks import engine

    name, data = options.stdin_filename, inputs.given(options.stdin_filename)
    after = changes[0].after if changes else data or b""
    sys.stdout.buffer.write(after)
    with inputs.instead(name, after):
        return Exit.FINDINGS if engine.check(request, families).failed else Exit.OK


def _looked_at(result: Result) -> tuple[int, int | None]:
    """How many files were in question, and how many registrations they hold."""
    paths, tests = result.looked_at, result.found.get("RT")
    if tests is None or tests.taxonomy is None:
        return len(paths), None
    # The lint does not count files without tests.
    counted = paths if len(result.found) > 1 else paths.difference(tests.uncollected)
    return len(counted), sum(n for path, n in tests.registered.items() if path in paths)


def _report(
    options: Namespace, result: Result, summary: Summary, families: Sequence[str], root: Path
) -> tuple[str, tuple[str, ...]]:
    """Show what was found; the report, and the notes beside it."""
    from runci.checks.formats import ReportContext, render, statistics
    from runci.checks.registry import rules
    from runci.read.decode import LineReader

    context = ReportContext(
        read_lines=LineReader(root),
        rules=rules(families),
        color=chosen_color(options.color, sys.stdout),
        width=terminal_width(),
        root=shared.shown_root(root),
        command=f"runci {options.command}",
        quiet=options.quiet,
    )
    show = statistics.render if options.statistics else render
    report = show(options.format or "text", result.findings, summary, context)
    notes = list(result.notes)
    if result.gone:
        gone = plural(result.gone, "findings")
        name = options.baseline or BASELINE
        notes.append(f"{name} lists {gone} no longer found: renew it with --write-baseline")
    write(report)
    for text in () if options.quiet else notes:
        note(text)
    return report, tuple(notes)


def _write_baseline(options: Namespace, request: Options, families: Sequence[str]) -> int:
    """Write down all findings of today: those of a part would drop the others."""
    from dataclasses import replace

    from runci.checks import baseline, engine

    if options.paths or options.fix or options.diff or request.diff_base:
        raise RunciError(
            "--write-baseline is about the whole tree: no PATH, --fix, --diff or --diff-base"
        )
    result = engine.check(replace(request, baseline=None), families)
    path = Path(options.baseline) if options.baseline else request.root / BASELINE
    count = plural(baseline.write(path, result.findings, result.complete), "findings")
    if not options.quiet:
        write(f"{shared.shown_path(path)}: {count}; from now on only new ones are reported\n")
    return Exit.OK


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().upper() for word in text.split(",") if word.strip())
    if not words:
        raise ArgumentTypeError("name at least one rule, such as RT104 or RT3")
    return words
