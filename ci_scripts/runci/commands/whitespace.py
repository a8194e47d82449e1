"""`runci whitespace`: trailing whitespace, line ends, encodings, conflict markers."""

from __future__ import annotations

import time
from argparse import Namespace

from runci.commands.shared import find_root, report
from runci.errors import Exit, RunciError
from runci.finding import Summary


def whitespace(options: Namespace) -> int:
    """`runci whitespace`: trailing whitespace, line ends, encodings, conflict markers."""
    from runci.whitespace import RULES, WhitespaceOptions, check

    started = time.monotonic()
    root = find_root(options.root)
    wanted = WhitespaceOptions(
        fix=options.fix,
        diff_base=options.diff_base,
        markdown_breaks=options.markdown_breaks,
    )
    result = check(root, options.paths, wanted)
    if not result.files and options.diff_base is None:
        raise RunciError(f"no file to check in {root}", Exit.NOTHING)
    seconds = time.monotonic() - started
    summary = Summary(result.files, seconds, noun="files", fixed=result.fixed)
    rules = {rule.id: rule for rule in RULES}
    report(options, result.findings, summary, rules, root)
    return Exit.FINDINGS if result.findings else Exit.OK
