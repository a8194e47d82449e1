"""`runci perf report`: reads verdicts, history and records; writes page, summary and badge."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from runci.commands.shared import history_arguments, repository_arguments
from runci.config.perf import Config, settings
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError, with_extra
from runci.gate.api import ApiError
from runci.nightly.history.store import source_of
from runci.nightly.notify.actions import issue_numbers
from runci.nightly.notify.edge import live_issues
from runci.nightly.page.headline import badge
from runci.nightly.page.markdown import plain_address, summary
from runci.nightly.page.view import Page, view
from runci.nightly.record import SeriesId, read_records
from runci.nightly.verdict import Verdicts, read_verdicts
from runci.text.terminal import note


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument(
        "--record", action="append", default=[], metavar="FILE", help="of that night, or a folder"
    )
    step.add_argument("--html", metavar="FILE")
    step.add_argument("--markdown", metavar="FILE")
    step.add_argument("--badge", metavar="FILE.svg")
    step.add_argument("--page", metavar="URL", help="where the page will be, for the summary")


def run(options: Namespace) -> int:
    """Write what was asked for. A night that got worse is no failure of this command."""
    if not (options.html or options.markdown or options.badge):
        raise RunciError("nothing to write: pass --html, --markdown or --badge")
    if options.page and not plain_address(options.page):
        raise RunciError(
            f"--page {options.page!r} is no address, such as https://octo.github.io/kernels/"
        )
    root, config = settings(options)
    verdicts = read_verdicts(options.verdicts)
    page = view(
        verdicts,
        source_of(options, root, config).read(),
        [record for _, record in read_records(options.record)],
        config.rule.min_change,
        _issues(verdicts, config),
    )
    if options.html:
        _write(Path(options.html), _html(page))
    if options.markdown:
        _write_summary(Path(options.markdown), summary(page, options.page or ""))
    if options.badge:
        _write(Path(options.badge), badge(page.night, page.headline))
    return Exit.OK


def _issues(verdicts: Verdicts, config: Config) -> Mapping[SeriesId, int]:
    """The issues to link to, where GitHub can be asked for them; the page searches for others."""
    if not (os.environ.get("GITHUB_TOKEN") and os.environ.get("GITHUB_REPOSITORY")):
        return {}
    try:
        return issue_numbers(verdicts, live_issues(os.environ).read(), config)
    except (RunciError, ApiError) as error:
        note(f"{error}: the page links to a search for its issues")
        return {}


def _html(page: Page) -> str:
    """The page, whose plots and template only the extra `perf` has."""
    try:
        from runci.nightly.page.html import render
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package == "runci":
            raise
        raise RunciError(
            f"--html needs the package {package}: "
            f"{with_extra('perf')}, in an environment of its own (it pins numpy)"
        ) from error
    return render(page)


def _write(path: Path, text: str) -> None:
    # What is no character, such as half of a pair of surrogates, becomes a question mark.
    replace_file(path, text.encode("utf-8", "replace"), durable=False)


def _write_summary(path: Path, text: str) -> None:
    """Other steps of the job have written to the summary's file, too: there, append."""
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if not page or path.absolute() != Path(page).absolute():
        _write(path, text)
        return
    try:
        with path.open("ab") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error
