"""What `runci check`, `lint`, `audit` and `whitespace` share: options, one run, one report."""

from __future__ import annotations

import gc
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runci.checks import engine
from runci.checks.formats import REPORTERS, ReportContext, render
from runci.checks.registry import choose, needed, rules
from runci.checks.rule import BASELINE, Options
from runci.commands import shared
from runci.core.errors import Exit, RunciError
from runci.core.finding import Summary
from runci.read.decode import LineReader
from runci.text.terminal import chosen_color, note, terminal_width, write
from runci.text.wording import plural

LINT, AUDIT, WHITESPACE = ("RT",), ("WF",), ("WS",)
EVERYTHING = (*LINT, *AUDIT, *WHITESPACE)


def check_arguments(command: ArgumentParser, families: Sequence[str]) -> None:
    """What is checked, what counts, what becomes of it, and how it is shown: in this order."""
    command.set_defaults(config=None, no_cache=False, cache_dir=None, jobs=None)
    command.add_argument("paths", nargs="*", metavar="PATH", help="report on these only")
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
    started = time.monotonic()
    gc.disable()  # a short process that allocates much and frees little
    active = choose(options.select, options.ignore, families)
    families = needed(active, families)
    request = shared.tree_options(options, active)
    if options.write_baseline:
        return _write_baseline(options, request, families)
    result = engine.check(request, families)
    fixed = 0
    if options.fix or options.diff:
        from runci.checks import fix

        changes = engine.changes(request, result)
        if options.diff:
            write(fix.diff(changes))
            return Exit.FINDINGS if changes else Exit.OK
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
    _report(options, result, summary, families, request.root)
    return Exit.FINDINGS if result.failed else Exit.OK


def _looked_at(result: engine.Result) -> tuple[int, int | None]:
    """How many files were in question, and how many registrations they hold."""
    paths, tree = result.looked_at, result.tree
    if tree is None:
        return len(paths), None
    others = {file.path for file in tree.uncollected}  # no tests, so the lint does not count them
    counted = paths if len(result.found) > 1 else paths - others
    return len(counted), sum(len(of) for path, of in tree.registrations.items() if path in paths)


def _report(
    options: Namespace, result: engine.Result, summary: Summary, families: Sequence[str], root: Path
) -> None:
    context = ReportContext(
        read_lines=LineReader(root),
        rules=rules(families),
        color=chosen_color(options.color, sys.stdout),
        width=terminal_width(),
        root=shared.shown_root(root),
        command=f"runci {options.command}",
    )
    write(render(options.format or "text", result.findings, summary, context))
    for text in result.notes:
        note(text)
    if result.gone:
        gone = plural(result.gone, "findings")
        name = options.baseline or BASELINE
        note(f"{name} lists {gone} no longer found: renew it with --write-baseline")


def _write_baseline(options: Namespace, request: Options, families: Sequence[str]) -> int:
    """Write down all findings of today: those of a part would drop the others."""
    from runci.checks import baseline

    if options.paths or options.fix or options.diff or request.diff_base:
        raise RunciError(
            "--write-baseline is about the whole tree: no PATH, --fix, --diff or --diff-base"
        )
    result = engine.check(replace(request, baseline=None), families)
    path = Path(options.baseline) if options.baseline else request.root / BASELINE
    count = plural(baseline.write(path, result.findings, result.complete), "findings")
    write(f"{options.baseline or path}: {count}; from now on only new ones are reported\n")
    return Exit.OK


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().upper() for word in text.split(",") if word.strip())
    if not words:
        raise ArgumentTypeError("name at least one rule, such as RT104 or RT3")
    return words
