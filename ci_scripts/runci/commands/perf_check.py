"""`runci perf check`: the history in, a verdict a metric out."""

from __future__ import annotations

import datetime
from argparse import ArgumentParser, Namespace
from pathlib import Path

from runci.commands.shared import history_arguments, repository_arguments
from runci.config.perf import Config, check_night, settings
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.nightly.decide.everything import decide_all, decide_nights, over, status_of
from runci.nightly.decide.words import render
from runci.nightly.history.store import source_of
from runci.nightly.record import encode
from runci.text.terminal import note, terminal_width, write
from runci.text.wording import plural

LATEST = datetime.timedelta(days=31)  # after the newest night: how far missing ones are asked for


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    step.add_argument("--output", metavar="FILE", help="the verdicts, as JSON")
    step.add_argument("--night", metavar="DATE", help="decide as of this night (default: today)")
    step.add_argument("--push", action="store_true", help="write confirmed changes to the history")


def run(options: Namespace) -> int:
    """Say of each metric whether it got worse; with `--push` write confirmed changes down."""
    root, config = settings(options)
    source = source_of(options, root, config)
    history = source.read()
    newest = max((night.night for night in history.nights), default="")
    asked, now = _when(options.night, newest, config)
    if history.series:
        decided = decide_all(history, config, asked, now)
    else:
        decided = decide_nights(history, config, asked, now)
        if not decided.verdicts.missing:
            raise RunciError("the history has no series yet: nothing to decide about", Exit.NOTHING)
    if options.output is not None:
        replace_file(Path(options.output), encode(decided.verdicts) + b"\n")
    write(render(decided.verdicts, terminal_width(), history.messages))
    if options.push and decided.events:
        about = f"Write down what changed on {decided.verdicts.night}"
        appended = source.append_lines(decided.events, about)
        for message in (
            f"wrote {plural(appended.lines, 'events')} to the history",
            *appended.messages,
        ):
            note(message)
    return status_of(decided.verdicts)


def _when(
    night: str | None, newest: str, config: Config
) -> tuple[datetime.date, datetime.datetime]:
    """The night asked for, and the moment of the decision: a night that is named is over."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if night is None:
        return now.date(), now
    asked = datetime.date.fromisoformat(check_night(night, "--night"))
    last = datetime.date.fromisoformat(max(newest, now.date().isoformat()))
    if asked > last + LATEST:
        raise RunciError(f"--night {night}: nothing is known of it; the newest night is {last}")
    return asked, over(asked, config)
