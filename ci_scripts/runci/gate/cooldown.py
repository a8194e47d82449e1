"""Which runs of somebody's used a GPU, and when, over the workflows of a whole repository."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from runci.gate.api import PAGE, Api, ApiError
from runci.gate.events import Event, at, moment, number, person, text
from runci.gate.request import GpuRun, Person

# What a person without write access can start, or have started for them.
_EVENTS = ("pull_request", "workflow_dispatch")
# GitHub lets a run be started again for 30 days after its first attempt.
_OLDEST = timedelta(days=31)
_SECOND = timedelta(seconds=1)
_MOST_OF_A_LISTING = 1000  # GitHub lists no more of a search, and does not say so
_MOST_LISTED = 2000  # twenty pages: what there is time for
_MOST_BRANCHES = 30
_MOST_RUNS = 30
_HOSTED = re.compile(r"(?:ubuntu|windows|macos)-[a-z0-9.-]+")
_SET_UP = re.compile(r"(?:Set up|Complete) (?:job|runner)|.*\bgate\b.*", re.IGNORECASE)
_NOT_BEGUN = ("queued", "pending", "waiting")  # where the worker was killed before it
_INSTEAD = "ask somebody with write access for a grant"


def gpu_runs(
    api: Api, event: Event, people: Sequence[Person], now: datetime, minutes: float
) -> tuple[GpuRun, ...]:
    """The GPU jobs of these people in the last `minutes`, this attempt of this run left out.

    A run is somebody's who started it, started it again, or wrote its pull request. Raises
    ApiError where the runs cannot be listed whole.
    """
    if not people or minutes <= 0:
        return ()
    repo, since = f"/repos/{event.repository}", now - timedelta(minutes=minutes)
    recent = [run for run in _runs(api, repo, now) if _is_since(run, since)]
    whose = _Whose(api, repo)
    theirs = [(run, [who for who in people if whose.is_of(run, who)]) for run in recent]
    theirs = [(run, owners) for run, owners in theirs if owners]
    if len(theirs) > _MOST_RUNS:
        names = ", ".join(who.login for who in people)
        raise ApiError(f"more than {_MOST_RUNS} recent runs of {names}: {_INSTEAD}")
    found: list[GpuRun] = []
    for run, owners in theirs:
        for ago in minutes_since_gpu(api, event, run, now):
            found += [GpuRun(who.id, ago) for who in owners]
    return tuple(found)


def _runs(api: Api, repo: str, now: datetime) -> list[Any]:
    """Every run that can have jobs now, newest first: one that is started again keeps its date."""
    found: list[Any] = []
    for name in _EVENTS:
        spans = [(now - _OLDEST, now)]
        while spans:
            first, last = spans.pop()
            total, runs = _listing(api, repo, name, first, last)
            if len(found) + total > _MOST_LISTED:
                raise ApiError(
                    f"the repository had more than {_MOST_LISTED} runs of {' and '.join(_EVENTS)} "
                    f"in {_OLDEST.days} days, more than can be looked through: {_INSTEAD}"
                )
            if runs is None:
                middle = (first + (last - first) / 2).replace(microsecond=0)
                spans += [(first, middle), (middle + _SECOND, last)]
            else:
                found += runs
    return found


def _listing(
    api: Api, repo: str, event: str, first: datetime, last: datetime
) -> tuple[int, list[Any] | None]:
    """How many runs were created in a span (both ends in it), and which, where all are listed."""
    path = f"{repo}/actions/runs"
    query = {"event": event, "created": f"{_stamp(first)}..{_stamp(last)}"}
    page = api.get(path, **query, per_page=str(PAGE))
    total, runs = at(page, "total_count"), at(page, "workflow_runs")
    if not isinstance(total, int) or isinstance(total, bool) or not isinstance(runs, list):
        raise ApiError(f"GET {path}: no list of runs")
    if total >= _MOST_OF_A_LISTING:
        if last - first <= _SECOND:
            raise ApiError(f"GET {path}: {total} runs in one second")
        return 0, None
    if total <= PAGE and total == len(runs):
        return total, runs
    return total, api.pages(path, "workflow_runs", **query)


def _stamp(when: datetime) -> str:
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Whose:
    """Whose a run is. A run's own list of pull requests is of open ones only, and not of forks."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api, self._repo = api, repo
        self._authors: dict[str, frozenset[int | None]] = {}

    def is_of(self, run: object, who: Person) -> bool:
        """In doubt it is: it counts only where it used a GPU, and then a wait is the worst.

        Raises ApiError for what is no run.
        """
        event = text(run, "event")
        if event is None:
            raise ApiError("the event of a run")
        starters = (person(at(run, key)) for key in ("actor", "triggering_actor"))
        if who.id in [starter and starter.id for starter in starters]:
            return True
        # The comment behind a dispatch by the workflow's own token is of somebody who may write.
        if event != "pull_request":
            return False
        owner, branch = text(run, "head_repository", "owner", "login"), text(run, "head_branch")
        if owner is None or branch is None:
            return True  # the fork was deleted
        authors = self._authors_of(f"{owner}:{branch}")
        return not authors or who.id in authors or None in authors

    def _authors_of(self, head: str) -> frozenset[int | None]:
        """Who wrote the pull requests from this branch; None: an account that is gone."""
        if head not in self._authors:
            if len(self._authors) == _MOST_BRANCHES:
                raise ApiError(f"more than {_MOST_BRANCHES} branches have recent runs: {_INSTEAD}")
            pulls = self._api.pages(f"{self._repo}/pulls", state="all", head=head)
            self._authors[head] = frozenset(number(pull, "user", "id") for pull in pulls)
        return self._authors[head]


def _is_since(run: object, since: datetime) -> bool:
    return text(run, "status") != "completed" or _time(run, "updated_at") >= since


def minutes_since_gpu(api: Api, event: Event, run: object, now: datetime) -> Iterator[float]:
    """How many minutes ago each GPU job of a run started, over all attempts but this one."""
    ident = number(run, "id")
    jobs = api.pages(f"/repos/{event.repository}/actions/runs/{ident}/jobs", "jobs", filter="all")
    for job in jobs:
        if ident == event.run_id and number(job, "run_attempt") == event.attempt:
            continue
        if reached_gpu(job):
            start = "started_at" if text(job, "started_at") else "created_at"
            yield (now - _time(job, start)).total_seconds() / 60


def reached_gpu(job: object) -> bool:
    """Whether a job was let through to a machine that is not GitHub's. Raises ApiError."""
    labels, steps = at(job, "labels"), at(job, "steps")
    if not isinstance(labels, list):
        raise ApiError("the labels of a job")
    if all(_is_hosted(label) for label in labels):
        return False
    if text(job, "status") != "completed":
        return True
    if not isinstance(steps, list):
        raise ApiError("the steps of a job")
    return any(_ran(step) for step in steps)


def _is_hosted(label: Any) -> bool:
    return isinstance(label, str) and _HOSTED.fullmatch(label) is not None


def _ran(step: object) -> bool:
    if at(step, "conclusion") == "skipped" or text(step, "status") in _NOT_BEGUN:
        return False
    return not _SET_UP.fullmatch(text(step, "name") or "")


def _time(data: object, key: str) -> datetime:
    found = moment(data, key)
    if found is None:
        raise ApiError(f"the time {key} of a run")
    return found
