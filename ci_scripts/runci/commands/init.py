"""`runci init`: describe a repository that has no taxonomy yet."""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from pathlib import Path

from runci.adopt.published import checked, installed_from
from runci.adopt.report import Asked, report
from runci.adopt.workflow_text import NO_ACTION
from runci.adopt.write import Change, diff, files_for, write_all
from runci.commands.shared import root_argument
from runci.config.repository import CONFIGS, find_config, find_root, has_config
from runci.core.errors import Exit, RunciError
from runci.text.terminal import terminal_width, write
from runci.text.wording import plural


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    root_argument(command)
    command.add_argument("--dry-run", action="store_true", help="show the diff, write nothing")
    command.add_argument(
        "--gpu-runner",
        metavar="LABELS",
        help="labels of a self-hosted runner with a GPU, with commas, where no workflow names it",
    )
    command.add_argument(
        "--action",
        metavar="OWNER/NAME@COMMIT",
        help="the published action (default: what this runci was installed from with git)",
    )


def run(options: Namespace) -> int:
    """`runci init`: read, propose, write what is not there, and say what that was."""
    from runci.adopt.look import look
    from runci.adopt.propose import propose

    root = _root(options.root)
    named = checked(options.action) if options.action is not None else None
    if has_config(root):
        standing = find_config(root)
        shown = standing.relative_to(root).as_posix()
        if not standing.is_file():
            raise RunciError(f"pyproject.toml names {shown}, which is not there: write it")
        write(f"{shown} is there already: nothing was changed. Next: runci check\n")
        return Exit.OK
    facts = look(root)
    proposal = propose(facts, _labels(options.gpu_runner))
    if not proposal.suites:
        raise RunciError(
            f"the calls of all {plural(len(facts.tests), 'test files')} register nothing, such as "
            f"of {facts.tests[0].path}: write the suites that they mean into {CONFIGS[0]}; "
            "`runci schema` says how, and then `runci lint` what is wrong with the calls"
        )
    action = named or _installed() or NO_ACTION
    changes = files_for(root, proposal, facts.branch, action)
    if options.dry_run:
        write(diff(changes))
    else:
        write_all(root, [one for one in changes if isinstance(one, Change)])
    asked = Asked(action, options.dry_run, _given(options))
    write(report(facts, proposal, changes, asked, terminal_width()))
    return Exit.OK


def _installed() -> str | None:
    """The action of the commit that pip installed; None for a checkout, a file or a copy."""
    import importlib.metadata

    try:
        told = importlib.metadata.distribution("runci").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    return installed_from(told)


def _root(given: str | None) -> Path:
    """The top of a working tree. Raises RunciError anywhere else."""
    root = find_root(given)
    while given is None and not os.path.lexists(root / ".git") and root != root.parent:
        root = root.parent
    if not os.path.lexists(root / ".git"):
        where = f"--root {given}" if given is not None else Path.cwd().as_posix()
        raise RunciError(f"{where}: no git repository: go to the folder with .git, or pass --root")
    return root


def _given(options: Namespace) -> tuple[str, ...]:
    """The options that say what is written."""
    given = (("--root", options.root), ("--gpu-runner", options.gpu_runner))
    named = (*given, ("--action", options.action))
    return tuple(word for name, value in named if value is not None for word in (name, value))


def _labels(given: str | None) -> tuple[str, ...]:
    labels = tuple(label.strip() for label in given.split(",")) if given is not None else ()
    if not all(label and label.isprintable() for label in labels):
        raise RunciError(
            f"--gpu-runner {given!r}: labels with commas between them, such as gpu,h100"
        )
    return labels
