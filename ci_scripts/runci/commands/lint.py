"""`runci lint`: the registered-test lint."""

from __future__ import annotations

import gc
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runci.commands.shared import note, report, tree_options, write
from runci.errors import Exit, RunciError
from runci.finding import Summary

if TYPE_CHECKING:
    from runci import lint as linting


def lint(options: Namespace) -> int:
    """`runci lint`: the registered-test lint."""
    from runci import lint as linting
    from runci.report.summary import plural
    from runci.rules import ALL

    started = time.monotonic()
    gc.disable()  # a short process that allocates much and frees little
    request = tree_options(options)
    if options.write_baseline:
        return _write_baseline(options, request)
    result = linting.lint(request)
    fixed = 0
    if options.fix or options.diff:
        from runci import fix

        changes = fix.fix_files(request.root, result.findings, result.tree, request.active)
        if options.diff:
            write(fix.diff(changes))
            return Exit.FINDINGS if changes else Exit.OK
        fixed = fix.write(request.root, changes)
        result = linting.lint(request) if fixed else result
    summary = Summary(
        result.files,
        time.monotonic() - started,
        noun="test files",
        registrations=result.registrations,
        suppressed=result.suppressed,
        baselined=result.baselined,
        fixed=fixed,
    )
    report(options, result.findings, summary, ALL, request.root)
    if result.gone:
        gone = plural(result.gone, "findings")
        note(f"{options.baseline} lists {gone} no longer found: renew it with --write-baseline")
    return Exit.FINDINGS if result.failed else Exit.OK


def _write_baseline(options: Namespace, request: linting.Options) -> int:
    """Write down all findings of today: those of a part would drop the others."""
    from runci import baseline
    from runci import lint as linting
    from runci.report.summary import plural

    if options.baseline is None:
        raise RunciError("--write-baseline needs --baseline FILE, the file to write")
    if options.paths or options.fix or options.diff:
        raise RunciError("--write-baseline is about the whole tree: no PATH, --fix or --diff")
    found = linting.lint(replace(request, baseline=None)).findings
    count = plural(baseline.write(Path(options.baseline), found), "findings")
    write(f"{options.baseline}: {count}; from now on only new ones are reported\n")
    return Exit.OK
