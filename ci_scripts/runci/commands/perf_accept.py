"""`runci perf accept`: a line in the history, from which on a level is normal."""

from __future__ import annotations

import datetime
from argparse import ArgumentParser, Namespace
from pathlib import Path

from runci.commands.shared import history_arguments, repository_arguments
from runci.config.perf import settings
from runci.core.errors import Exit, RunciError
from runci.core.git import ask_git
from runci.nightly.decide.turns import choose_night, choose_series, find_series
from runci.nightly.history.lines import Accept
from runci.nightly.history.store import source_of
from runci.text.terminal import note, printable, write

LONGEST_REASON = 500


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    step.add_argument("metrics", nargs="+", metavar="METRIC")
    step.add_argument("--reason", required=True, metavar="TEXT", help="why this is right")
    step.add_argument("--by", metavar="NAME", help="default: git's user.name")
    step.add_argument("--night", metavar="DATE", help="the first at this level (default: since)")
    step.add_argument(
        "--machine",
        metavar="KEY",
        help="only there, not on all that have it open: NVIDIA H200/580/…",
    )


def run(options: Namespace) -> int:
    """Take a changed level as the new normal."""
    reason = printable(" ".join(options.reason.split()))
    if not reason:
        raise RunciError("--reason: say why this level is right; it stays in the record")
    if len(reason) > LONGEST_REASON:
        raise RunciError(f"--reason: {len(reason)} characters; at most {LONGEST_REASON} are kept")
    root, config = settings(options)
    source = source_of(options, root, config)
    history = source.read()
    now = datetime.datetime.now(datetime.timezone.utc)
    found = [
        one
        for metric in dict.fromkeys(options.metrics)
        for one in choose_series(history, find_series(history, metric, options.machine))
    ]
    today = now.date().isoformat()
    chosen = {one.id: choose_night(history, one, options.night, today) for one in found}
    by = printable(options.by or _name(root))
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = {key: [Accept(one.night, at, by, reason)] for key, one in chosen.items()}
    appended = source.append_lines(lines, f"Accept {', '.join(options.metrics)}")
    for series_id, one in chosen.items():
        write(
            f"{series_id.metric} on {series_id.machine_key}: accepted from {one.night} on, "
            f"by {by}: {reason}\n{one.settles}\n"
        )
    for message in appended.messages:
        note(message)
    return Exit.OK


def _name(root: Path) -> str:
    answer = ask_git(root, "config", "user.name")
    name = answer.out.decode("utf-8", "replace").strip()
    if not name:
        raise RunciError("who accepts this? pass --by NAME, or set git's user.name")
    return name
