"""Which recent runs reached a GPU: only those count for a cooldown.

A run that was denied at the gate, or on the host before its first step, used no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from runci.gate.api import Api, ApiError
from runci.gate.events import Event, at, number, text
from runci.gate.request import GpuRun, Person

# GitHub lets a run be started again for 30 days after its first attempt.
_OLDEST = timedelta(days=31)
_WINDOW = timedelta(days=7)  # the longest cooldown that ci-permissions.yml allows
_MOST_RUNS = 30
_HOSTED = re.compile(r"(?:ubuntu|windows|macos)-[a-z0-9.-]+")
_SET_UP = re.compile(r"(?:Set up|Complete) (?:job|runner)|.*\bgate\b.*", re.IGNORECASE)


def gpu_runs(api: Api, event: Event, people: Sequence[Person], now: datetime) -> tuple[GpuRun, ...]:
    """The runs of this workflow by these people, this attempt of this run left out."""
    if not people:
        return ()
    if event.workflow is None:
        raise ApiError("the file of the workflow")
    file = event.workflow.rpartition("/")[2]
    path = f"/repos/{event.repository}/actions/workflows/{file}/runs"
    since = (now - _OLDEST).strftime("%Y-%m-%d")
    found: list[GpuRun] = []
    for person in people:
        runs = api.pages(path, "workflow_runs", actor=person.login, created=f">={since}")
        recent = [run for run in runs if _is_recent(run, now)]
        if len(recent) > _MOST_RUNS:
            raise ApiError(f"more than {_MOST_RUNS} recent runs of {person.login}")
        for run in recent:
            found += [
                GpuRun(person.id, minutes) for minutes in minutes_since_gpu(api, event, run, now)
            ]
    return tuple(found)


def _is_recent(run: object, now: datetime) -> bool:
    return text(run, "status") != "completed" or now - _time(run, "updated_at") < _WINDOW


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
    """Whether a job was let through to a machine that is not GitHub's."""
    labels, steps = at(job, "labels"), at(job, "steps")
    if not isinstance(labels, list) or all(_is_hosted(label) for label in labels):
        return False
    if text(job, "status") != "completed":
        return True
    return any(_ran(step) for step in (steps if isinstance(steps, list) else ()))


def _is_hosted(label: Any) -> bool:
    return isinstance(label, str) and _HOSTED.fullmatch(label) is not None


def _ran(step: object) -> bool:
    done = text(step, "conclusion") in ("success", "failure", "cancelled")
    return done and not _SET_UP.fullmatch(text(step, "name") or "")


def _time(data: object, key: str) -> datetime:
    value = text(data, key)
    try:
        moment = datetime.fromisoformat((value or "").replace("Z", "+00:00"))
    except ValueError as error:
        raise ApiError(f"the time {key} of a run") from error
    if moment.tzinfo is None:
        raise ApiError(f"the time {key} of a run")
    return moment
