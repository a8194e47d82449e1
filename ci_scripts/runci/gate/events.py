"""What a run's event says: the payload file and the environment, read strictly.

A payload is frozen when the event happens; on a re-run it still is the first run's. So it says
which commit a run is for and who caused it, and everything else is asked live.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from runci.core.errors import RunciError, with_extra
from runci.core.paths import read_named
from runci.gate.api import Api
from runci.gate.request import Person

SHA = re.compile(r"[0-9a-f]{40}")
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?")
REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
_WORKFLOW_REF = re.compile(r"([^@]+?/[^@]+?)/(\.github/workflows/[^@/]+\.ya?ml)@(refs/\S+)")

# The inputs of a dispatch for a pull request's commit; all of them are texts.
DISPATCH_INPUTS = ("pull_request", "head_sha", "comment_id")
# The labels that a run needs: those of the repository's settings, where no host has its own.
BASE: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One run's event. None: not said, or not in the form that GitHub gives it."""

    name: str | None = None
    action: str | None = None
    label: str | None = None
    repository: str | None = None
    repository_id: int | None = None
    ref: str | None = None
    run_id: int | None = None
    attempt: int | None = None
    workflow: str | None = None  # the file, such as .github/workflows/pr-test.yml
    workflow_repository: str | None = None
    workflow_ref: str | None = None
    sender: Person | None = None
    for_pull: bool | None = None
    pull: int | None = None
    run_sha: str | None = None
    run_base: str | None = None
    retargets: bool | None = None  # whether an edit changed the base branch
    queue_ref: str | None = None  # a merge queue's, and the branch that it is for
    queue_base: str | None = None
    merge_sha: str | None = None  # what a pull request's run checks out
    comment: int | None = None  # whose command a dispatch carries out
    test: str | None = None  # the one that it asked for


def read_event(payload: object, environ: Mapping[str, str]) -> Event:
    """Read a payload, and the variables that GitHub sets beside it."""
    name = environ.get("GITHUB_EVENT_NAME") or None
    workflow = _WORKFLOW_REF.fullmatch(environ.get("GITHUB_WORKFLOW_REF", ""))
    repository = _match(REPOSITORY, at(payload, "repository", "full_name"))
    stated = environ.get("GITHUB_REPOSITORY")
    pull = _pull(payload, name)
    return Event(
        name=name,
        action=text(payload, "action"),
        label=text(payload, "label", "name"),
        # Two sources that disagree are none.
        repository=repository if stated in (None, "", repository) else None,
        repository_id=number(payload, "repository", "id"),
        ref=environ.get("GITHUB_REF") or None,
        run_id=_whole(environ.get("GITHUB_RUN_ID")),
        attempt=_whole(environ.get("GITHUB_RUN_ATTEMPT")),
        workflow=workflow[2] if workflow else None,
        workflow_repository=workflow[1] if workflow else None,
        workflow_ref=workflow[3] if workflow else None,
        sender=person(at(payload, "sender")),
        merge_sha=_match(SHA, environ.get("GITHUB_SHA")),
        **pull,
    )


def _pull(payload: object, name: str | None) -> dict[str, Any]:
    """The pull request that the run is for, if it is for one."""
    if name == "workflow_dispatch":
        inputs = at(payload, "inputs")
        if inputs is not None and not isinstance(inputs, Mapping):
            return {}  # so it is not known what the dispatch is for
        wanted = text(inputs, "pull_request"), text(inputs, "head_sha")
        return {
            # A half-filled form is for a pull request: it must not pass as one for the branch.
            "for_pull": any(at(inputs, key) not in (None, "") for key in DISPATCH_INPUTS),
            "pull": _whole(wanted[0]),
            "run_sha": _match(SHA, wanted[1]),
            "comment": _whole(text(inputs, "comment_id")),
            "test": text(inputs, "test"),
        }
    pull = at(payload, "pull_request")
    if name == "merge_group":
        group = at(payload, "merge_group")
        return {
            "for_pull": False,
            "run_sha": sha(group, "head_sha"),
            "queue_ref": text(group, "head_ref"),
            "queue_base": text(group, "base_ref"),
        }
    if name != "pull_request":
        return {"for_pull": pull is not None}
    return {
        "for_pull": isinstance(pull, Mapping),
        "pull": number(pull, "number"),
        "run_sha": _match(SHA, at(pull, "head", "sha")),
        "run_base": text(pull, "base", "ref"),
        "retargets": _retargets(payload),
    }


def _retargets(payload: object) -> bool | None:
    """Whether the edit changed the base; None where that is not said as GitHub says it."""
    changes = at(payload, "changes")
    if not isinstance(changes, Mapping):
        return None
    if "base" not in changes:
        return False
    return True if text(changes, "base", "ref", "from") else None


def at(data: object, *path: str) -> object:
    """What stands at a path of keys, or None."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def text(data: object, *path: str) -> str | None:
    """The text at a path, or None where there is none or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, str) and value else None


def number(data: object, *path: str) -> int | None:
    """The positive whole number at a path, or None."""
    value = at(data, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def flag(data: object, *path: str) -> bool | None:
    """The boolean at a path, or None."""
    value = at(data, *path)
    return value if isinstance(value, bool) else None


def sha(data: object, *path: str) -> str | None:
    """The full commit at a path, or None."""
    return _match(SHA, at(data, *path))


def moment(data: object, *path: str) -> datetime | None:
    """The time at a path, with its zone, or None."""
    try:
        found = datetime.fromisoformat((text(data, *path) or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def person(data: object) -> Person | None:
    """An account as GitHub writes it, without its permission. A deleted one is None.

    None, too, where a bot's name and another type disagree.
    """
    login = _match(LOGIN, at(data, "login"))
    ident, kind = number(data, "id"), text(data, "type")
    if login is None or ident is None or kind is None:
        return None
    if login.endswith("[bot]") and kind != "Bot":
        return None
    return Person(login, ident, human=kind == "User")


def _match(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _whole(value: str | None) -> int | None:
    if value is None or not re.fullmatch(r"[1-9][0-9]{0,18}", value):
        return None
    return int(value)


def live_api(environ: Mapping[str, str]) -> Api:
    """The API that the environment names. Raises RunciError without the extra `github`."""
    try:
        from runci.gate.github import GitHubApi
    except ImportError as error:
        raise RunciError(f"this needs requests: {with_extra('github')}") from error
    url = environ.get("GITHUB_API_URL") or "https://api.github.com"
    if not re.fullmatch(r"https?://[^\s/]+(?:/\S*)?", url):
        raise RunciError(f"GITHUB_API_URL {url!r} is no address, such as https://api.github.com")
    return GitHubApi(environ.get("GITHUB_TOKEN") or "", url)


def load_payload(environ: Mapping[str, str]) -> object:
    """The event's payload. Raises RunciError where there is none."""
    name = environ.get("GITHUB_EVENT_PATH")
    if not name:
        raise RunciError("GITHUB_EVENT_PATH is not set: run this in a workflow, or use --explain")
    return read_object(Path(name))


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises RunciError where the file is none."""
    try:
        found = json.loads(read_named(path))
    except (ValueError, RecursionError) as error:  # too deep is valid JSON, and none of GitHub's
        raise RunciError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RunciError(f"{path}: must be a JSON object")
    return found
