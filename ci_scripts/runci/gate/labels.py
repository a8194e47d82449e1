"""Whether a label that is on approved the commit that is the head now, by GitHub's own lists.

A label names no commit, and a run is listed without the event that started it. So what stands in
the lists for the minute after the label must leave one reading only: each run of the pull request
was started by whoever put the label on, for this commit, and nothing else explains them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from runci.gate.api import Api, ApiError
from runci.gate.events import Event, moment, number, sha, text
from runci.gate.request import Act, GateRequest, Pull
from runci.gate.rules import dated_labels, ours

WINDOW = timedelta(seconds=60)  # in which GitHub starts the run of a label, with room to spare
_WORKFLOWS = ".github"
# How the name of the last job begins in a run that is ignored: what started it no list need show,
# such as an edit of the text, so it is no run of a label.
IDLE = "nothing to test"
_MOST_RUNS = 10  # of one pull request in one minute


@dataclass(frozen=True, slots=True)
class Seen:
    """What GitHub lists about one label: the event that put it on, all events and the head branch
    of the pull request (`live`), the workflow's runs after it, and the pull requests of the branch.

    `idle` are the numbers of the runs that tested nothing, `ours` the labels that start others.
    """

    put_on: object
    live: object
    events: Sequence[object]
    runs: Sequence[object]
    pulls: Sequence[object]
    idle: Set[int | None] = frozenset()
    ours: Set[str] = frozenset()


def history(
    api: Api, event: Event, request: GateRequest, events: Sequence[Any], now: datetime
) -> tuple[Act, ...]:
    """The labels that may have approved the head: each with that commit, or with the doubt.

    `events` are the issue's, as they were when the request's labels were read.
    Raises ApiError where a list is not whole, or the pull request changes while it is read.
    """
    wanted, pull = dated_labels(request), request.pull
    if not wanted or pull is None:
        return ()
    repo = f"/repos/{event.repository}"
    live = api.get(f"{repo}/pulls/{pull.number}")
    last = last_labeled(events, wanted.keys())
    if sha(live, "head", "sha") != pull.head_sha:
        raise ApiError("the pull request changed while it was being read")
    branch = text(live, "head", "label") or ""
    pulls = api.pages(f"{repo}/pulls", state="all", head=branch)
    acts = []
    for name, act in wanted.items():
        runs = _runs(api, event, last[name])
        seen = Seen(last[name], live, events, runs, pulls, ours=frozenset(ours(request)))
        why = _edits_workflows(pull) or doubt(seen, now)
        if why is None:
            why = doubt(replace(seen, idle=_idle(api, repo, seen)), now)
        acts.append(replace(act, sha=None if why else pull.head_sha, doubt=why))
    return tuple(acts)


def _runs(api: Api, event: Event, put_on: object) -> list[Any]:
    """The runs; none, which leaves a doubt, where it is not known which to ask for."""
    since = moment(put_on, "created_at")
    if event.workflow is None or since is None:
        return []
    file = event.workflow.rpartition("/")[2]
    ends = (f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in (since, since + WINDOW))
    path = f"/repos/{event.repository}/actions/workflows/{file}/runs"
    return api.pages(path, "workflow_runs", event="pull_request", created="..".join(ends))


def _idle(api: Api, repo: str, seen: Seen) -> frozenset[int | None]:
    """The runs of the pull request in that minute whose last job says that it tested nothing."""
    runs = [number(run, "id") for run in _runs_of(seen)]
    if len(runs) > _MOST_RUNS:
        raise ApiError(f"more than {_MOST_RUNS} runs started within a minute of the label")
    found = set()
    for ident in runs:
        jobs = api.pages(f"{repo}/actions/runs/{ident}/jobs", "jobs", filter="all")
        if any((text(job, "name") or "").startswith(IDLE) for job in jobs):
            found.add(ident)
    return frozenset(found)


def _edits_workflows(pull: Pull) -> str | None:
    """Its own workflows may start at something else than the label."""
    if pull.paths is None:
        return "its changed files are not known"
    folders = (path.casefold().partition("/")[0] for path in pull.paths)
    return f"it changes {_WORKFLOWS}" if _WORKFLOWS in folders else None


def last_labeled(events: Sequence[Any], names: Set[str]) -> dict[str, Any]:
    """The event that put on each of these labels last; none for one that was taken off since."""
    last: dict[str, Any] = {}
    for event in sorted(events, key=lambda event: number(event, "id") or 0):
        name = text(event, "label", "name")
        if name is None or name not in names:
            continue
        if text(event, "event") == "labeled":
            last[name] = event
        elif text(event, "event") == "unlabeled":
            last.pop(name, None)
    return last


def doubt(seen: Seen, now: datetime) -> str | None:
    """Why the label may have been put on another commit than the head; None: beyond doubt."""
    who, since = number(seen.put_on, "actor", "id"), moment(seen.put_on, "created_at")
    if who is None or since is None:
        return "GitHub does not say by whom and when it was put on"
    if now < since + WINDOW:
        return "it was put on less than a minute ago"
    if any(_may_be_open(pull, seen.live, since) for pull in seen.pulls):
        return "another pull request is of the same branch"
    runs = [run for run in _runs_of(seen) if number(run, "id") not in seen.idle]
    acts = [
        event
        for event in seen.events
        if number(event, "actor", "id") == who
        and _may_be_in(event, since)
        and not (seen.idle and _is_idle(event, seen.ours))
    ]
    return _doubt_of_runs(runs, sha(seen.live, "head", "sha"), who, since) or (
        "there are fewer runs of that minute than things that the same person did"
        if len(runs) < len(acts)
        else None
    )


def _runs_of(seen: Seen) -> list[object]:
    """The runs of the pull request in the label's minute, as far as can be told."""
    home = number(seen.live, "head", "repo", "id"), text(seen.live, "head", "ref")
    since = moment(seen.put_on, "created_at")
    if since is None:
        return []
    return [run for run in seen.runs if _may_be_of(run, home) and _may_be_in(run, since)]


def _is_idle(event: object, ours: Set[str]) -> bool:
    """Whether it is a label that starts a run in which nothing is tested."""
    name = text(event, "label", "name")
    return name is not None and name.casefold() not in {label.casefold() for label in ours}


def _doubt_of_runs(
    runs: Sequence[object], head: str | None, who: int, since: datetime
) -> str | None:
    if not runs:
        return "no run that it started is listed"
    for run in runs:
        commit, made = sha(run, "head_sha"), moment(run, "head_commit", "timestamp")
        if commit is None or commit != head:
            return f"a run of that minute was for {(commit or 'an unknown commit')[:12]}"
        if number(run, "actor", "id") != who:
            return "somebody else started a run in the same minute"
        if made is None or made > since:  # who may label may push as well
            return "the commit is not older than the label, by its date"
    return None


def _may_be_open(pull: object, live: object, since: datetime) -> bool:
    """Whether this is another pull request, and not known to be closed before the label."""
    closed = moment(pull, "closed_at")
    return number(pull, "number") != number(live, "number") and not (closed and closed < since)


def _may_be_of(run: object, home: tuple[int | None, str | None]) -> bool:
    found = number(run, "head_repository", "id"), text(run, "head_branch")
    return None in found or None in home or found == home


def _may_be_in(found: object, since: datetime) -> bool:
    when = moment(found, "created_at")
    return when is None or since <= when <= since + WINDOW
