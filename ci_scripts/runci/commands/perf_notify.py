"""`runci perf notify`: reads the verdicts and our issues, says or does what follows from them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from runci.commands.shared import repository_arguments
from runci.config.perf import Config, settings
from runci.core.errors import Exit, RunciError
from runci.gate.api import ApiError
from runci.nightly.bisect import Searched
from runci.nightly.notify.actions import Action, Create, decide
from runci.nightly.notify.edge import live_issues, told
from runci.nightly.notify.issue import Issue, Links, make_links
from runci.nightly.record import read_json
from runci.nightly.verdict import Verdicts, read_verdicts
from runci.text.terminal import note, printable, wrap

_WIDTH = 80


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument(
        "--bisect", metavar="PATH", help="of `runci perf bisect`, or a folder, if there is one"
    )
    step.add_argument("--page", metavar="URL", help="the report, to link to")
    step.add_argument(
        "--dry-run",
        action=BooleanOptionalAction,
        help="say what would be done (default outside CI)",
    )


def run(options: Namespace) -> int:
    """Bring the issues in line with the verdicts; outside CI only say what that would do."""
    _, config = settings(options)
    verdicts = read_verdicts(options.verdicts)
    if not (verdicts.verdicts or verdicts.missing or verdicts.suites):
        raise RunciError(f"{options.verdicts}: no verdicts and no missing nights", Exit.NOTHING)
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    repository = os.environ.get("GITHUB_REPOSITORY", "")
    links = make_links(server, repository, options.page)
    dry = not in_ci(os.environ) if options.dry_run is None else options.dry_run
    searched = _searched(options.bisect)
    if dry:
        return _dry_run(verdicts, config, links, searched)
    try:
        issues = live_issues(os.environ)
        todo = decide(verdicts, issues.read(), config, links, searched)
        issues.carry_out(todo, lambda line: _say(f"runci perf notify: {line}"))
    except ApiError as error:
        raise RunciError(
            f"perf notify: {error}: run it again, what was done is not repeated", Exit.FINDINGS
        ) from error
    if not todo:
        _say("runci perf notify: nothing to do, every issue is right as it is")
    return Exit.OK


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether CI runs this; every well-known system sets CI."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def _searched(given: str | None) -> list[Searched]:
    """What bisections found; none where there was none, as after most nights."""
    place = Path(given) if given else None
    if place is None or not place.exists():
        return []
    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    return [read_json(path.as_posix(), Searched) for path in files]


def _dry_run(verdicts: Verdicts, config: Config, links: Links, searched: Sequence[Searched]) -> int:
    """Say what would be done; without GitHub, as if it had no issues yet."""
    found: tuple[Issue, ...] = ()
    try:
        found = live_issues(os.environ).read()
    except (RunciError, ApiError) as error:
        note(str(error))
        note("so this is what would be done if there were no issues yet")
    todo = decide(verdicts, found, config, links, searched)
    for line in shown(todo):
        _say(line)
    return Exit.OK


def shown(todo: Sequence[Action]) -> list[str]:
    """What would be done, for a terminal of 80 columns."""
    if not todo:
        return ["Nothing would be done: every issue is right as it is."]
    lines = ["Would be done (--no-dry-run does it):"]
    for action in todo:
        lines.append("")
        if isinstance(action, Create):
            lines += wrap(f"open: {printable(action.title)}", _WIDTH)
            lines += _indented(action.body)
        else:
            lines += wrap(told(action), _WIDTH)
            lines += _indented(action.comment)
    return lines


def _indented(markdown: str) -> list[str]:
    """A text without our mark, indented; wrapped but for commands, which are there to be copied."""
    lines = [printable(line) for line in markdown.split("\n") if not line.startswith("<!-- ")]
    while lines and not lines[0]:
        del lines[0]
    found, fenced = [], False
    for line in lines:
        fence = line.startswith("```")
        fenced ^= fence
        parts = [line] if fenced or fence else wrap(line, _WIDTH - 4)
        found += [f"    {part}".rstrip() for part in parts]
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
