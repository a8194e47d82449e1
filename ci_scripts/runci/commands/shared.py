"""What commands share: which repository, what to read of it, and how to write."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runci.errors import RunciError
from runci.finding import Finding, RuleInfo, Summary

if TYPE_CHECKING:
    from runci import lint as linting

CONFIG = Path("test", "suites.yml")


def tree_options(options: Namespace) -> linting.Options:
    """What to read of a repository, for the options that name one."""
    from runci import lint as linting
    from runci.cache import default_folder
    from runci.reading import processors
    from runci.rules import choose

    root = find_root(options.root, options.config)
    known = getattr(options, "baseline", None)
    return linting.Options(
        root=root,
        config=Path(options.config) if options.config else root / CONFIG,
        cwd=Path.cwd(),
        active=choose(getattr(options, "select", ()), getattr(options, "ignore", ())),
        paths=tuple(options.paths),
        baseline=Path(known) if known else None,
        cache_folder=None if options.no_cache else Path(options.cache_dir or default_folder()),
        jobs=options.jobs or processors(),
    )


def find_root(given: str | None, config: str | None = None) -> Path:
    """The repository: as given, else upwards from here the first with a taxonomy or a `.git`."""
    if given is not None:
        root = Path(given)
        if not root.is_dir():
            raise RunciError(f"--root {given}: no such folder")
        return root
    here = Path.cwd()
    above = (here, *here.parents)
    if config is None:
        for folder in above:
            if (folder / CONFIG).is_file():
                return folder
    return next((folder for folder in above if (folder / ".git").exists()), here)


def report(
    options: Namespace,
    findings: Sequence[Finding],
    summary: Summary,
    rules: Mapping[str, RuleInfo],
    root: Path,
) -> None:
    """Write a report in the format that was asked for."""
    from runci.lines import LineReader
    from runci.report import ReportContext, render
    from runci.report.terminal import use_color

    color = {"always": True, "never": False}.get(options.color)
    context = ReportContext(
        read_lines=LineReader(root),
        rules=rules,
        color=use_color(sys.stdout, os.environ) if color is None else color,
        width=terminal_width(),
        root=_shown_root(root),
        command=f"runci {options.command}",
    )
    write(render(options.format or "text", findings, summary, context))


def _shown_root(root: Path) -> str:
    """The root as whoever opens the paths of a report sees it: from here, or from the checkout.

    GitHub resolves annotations from the checkout, whatever the working folder of the step is.
    """
    checkout = os.environ.get("GITHUB_WORKSPACE", "")
    if checkout and root.resolve().is_relative_to(Path(checkout).resolve()):
        return root.resolve().relative_to(Path(checkout).resolve()).as_posix()
    try:
        return Path(os.path.relpath(root)).as_posix()
    except ValueError:  # another drive
        return root.absolute().as_posix()


def terminal_width() -> int:
    """Columns of the terminal; never so few that nothing can be said."""
    return max(shutil.get_terminal_size().columns, 40)


def write(text: str) -> None:
    """Write to standard output, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Say something beside the output."""
    sys.stderr.write(f"runci: {text}\n")
