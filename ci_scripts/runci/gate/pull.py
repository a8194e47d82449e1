"""Reads lists about a pull request: labels put on, comments that authorize, changed files."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from runci.gate.api import ApiError
from runci.gate.events import at, number, person, text
from runci.gate.people import Accounts
from runci.gate.request import Act, Pull
from runci.gate.slash import RunCi, parse

MOST_FILES = 3000  # what GitHub lists of one pull request


def label_acts(events: Sequence[Any], names: Set[str], accounts: Accounts) -> dict[str, Act]:
    """Who put on each of these labels last; none for a label that was taken off since."""
    last: dict[str, Any] = {}
    for event in sorted(events, key=lambda event: number(event, "id") or 0):
        name = text(event, "label", "name")
        if name is None or name not in names:
            continue
        if text(event, "event") == "labeled":
            last[name] = event
        elif text(event, "event") == "unlabeled":
            last.pop(name, None)
    acts = {}
    for name, event in last.items():
        who = person(at(event, "actor"))
        if who is not None:
            through_app = at(event, "performed_via_github_app") is not None
            acts[name] = Act(accounts.with_permission(who), through_app=through_app)
    return acts


def run_ci_comments(
    comments: Sequence[Any], head: str | None, accounts: Accounts
) -> tuple[Act, ...]:
    """The comments `/run-ci FULL_SHA` that name the head commit."""
    acts = []
    for comment in comments:
        command = parse(text(comment, "body") or "")
        if isinstance(command, RunCi) and command.sha == head:
            acts.append(accounts.act(comment, command.sha))
    return tuple(act for act in acts if act is not None)


def changed_paths(pull: object, files: Sequence[Any]) -> tuple[str, ...]:
    """Every changed path, with the former names of renamed files. Raises ApiError when cut off."""
    count = at(pull, "changed_files")
    if not isinstance(count, int) or isinstance(count, bool):
        raise ApiError("the number of changed files")
    if count > MOST_FILES:
        raise ApiError(f"the pull request changes {count} files, GitHub lists {MOST_FILES}")
    if count != len(files):
        raise ApiError(f"{len(files)} of {count} changed files were listed")
    paths: list[str] = []
    for file in files:
        name, status = text(file, "filename"), text(file, "status")
        former = text(file, "previous_filename")
        if name is None or status is None or (status == "renamed" and former is None):
            raise ApiError("a changed file without its name")
        paths += [name] if former is None else [name, former]
    return tuple(paths)


def same_pull(before: Pull, after: Pull) -> bool:
    """Whether nothing changed that the decision read."""

    def state(pull: Pull) -> tuple[object, ...]:
        return (
            pull.is_open,
            pull.draft,
            pull.head_sha,
            pull.base_ref,
            pull.same_repository,
            sorted(pull.labels or ()),
        )

    return state(before) == state(after)
