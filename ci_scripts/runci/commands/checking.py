"""What `runci check`, `lint`, `audit` and `whitespace` share: options, one run, one report."""

from __future__ import annotations

import gc
import os
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runci.checks import engine
from runci.checks.registry import choose, rules
from runci.checks.rule import BASELINE, Options
from runci.checks.suppress import UNJUSTIFIED
from runci.commands.shared import baseline_arguments, shown_root, tree_options
from runci.core.errors import Exit, RunciError
from runci.core.finding import Summary
from runci.core.paths import is_below
from runci.text.terminal import note, terminal_width, use_color, write
from runci.text.wording import plural

_FORMATS = ("text", "concise", "github", "json", "sarif", "junit")


def check_arguments(command: ArgumentParser) -> None:
    """What is reported, how, and what becomes of it."""
    command.set_defaults(
        root=None, config=None, paths=(), no_cache=False, cache_dir=None, jobs=None
    )
    command.add_argument("--format", choices=_FORMATS, help="default: text")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    command.add_argument("--select", metavar="RULES", type=_words, default=(), help="only these")
    command.add_argument("--ignore", metavar="RULES", type=_words, default=(), help="not these")
    baseline_arguments(command)
    command.add_argument(
        "--write-baseline", action="store_true", help="write today's findings to the baseline"
    )
    command.add_argument("--fix", action="store_true", help="mend what has one right answer")
    command.add_argument("--diff", action="store_true", help="show what --fix would change")


def whitespace_arguments(command: ArgumentParser) -> None:
    """What is special about whitespace."""
    command.add_argument("--diff-base", metavar="REV", help="only lines added since this commit")
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
    if "RT" not in families:  # a comment that accepts nothing is a fault wherever it stands
        active |= {UNJUSTIFIED.id}
    request = tree_options(options, active)
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
    tree = result.found["RT"].tree if "RT" in result.found else None
    wanted = result.wanted
    tests = [f for f in tree.files if not wanted or is_below(f.path, wanted)] if tree else []
    registrations = sum(len(tree.of(file)) for file in tests) if tree else None
    others = [len(found.paths) for family, found in result.found.items() if family != "RT"]
    return max(others, default=len(tests)), registrations


def _report(
    options: Namespace, result: engine.Result, summary: Summary, families: Sequence[str], root: Path
) -> None:
    from runci.checks.formats import ReportContext, render
    from runci.read.decode import LineReader

    color = {"always": True, "never": False}.get(options.color)
    context = ReportContext(
        read_lines=LineReader(root),
        rules={**rules(families), UNJUSTIFIED.id: UNJUSTIFIED},
        color=use_color(sys.stdout, os.environ) if color is None else color,
        width=terminal_width(),
        root=shown_root(root),
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
        raise RunciError("--write-baseline is about the whole tree: no PATH, --fix or --diff")
    found = engine.check(replace(request, baseline=None), families).findings
    path = Path(options.baseline) if options.baseline else request.root / BASELINE
    count = plural(baseline.write(path, found, request.active), "findings")
    write(f"{options.baseline or path}: {count}; from now on only new ones are reported\n")
    return Exit.OK


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().upper() for word in text.split(",") if word.strip())
    if not words:
        raise ArgumentTypeError("name at least one rule, such as RT104 or RT3")
    return words
