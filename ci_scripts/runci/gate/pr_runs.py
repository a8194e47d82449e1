"""The newest run of each PR Test workflow for a commit, and what its gate said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runci.gate.api import Api, ApiError
from runci.gate.events import at, number, text
from runci.gate.output import ANNOTATION

_MOST = 10  # runs of one workflow for one commit that are looked at


@dataclass(frozen=True, slots=True)
class Newest:
    """A workflow (its file, until a run tells its name), its newest run, and its gate's denial."""

    name: str
    run: Any = None
    denied: str | None = None


def newest_runs(api: Api, repo: str, pull: object, workflows: Sequence[str]) -> tuple[Newest, ...]:
    """One a workflow; runs that another workflow's label started count for nothing.

    `pull` is the API's answer. Whoever pushes the same commit to a fork of theirs and opens a pull
    request has runs of it too, which are none of this one's.
    """
    return tuple(_newest(api, repo, pull, file) for file in workflows)


def _newest(api: Api, repo: str, pull: object, file: str) -> Newest:
    path = f"{repo}/actions/workflows/{file}/runs"
    head_sha = text(pull, "head", "sha") or ""
    runs = api.pages(path, "workflow_runs", head_sha=head_sha, event="pull_request")
    home = number(pull, "head", "repo", "id"), text(pull, "head", "ref")
    runs = [r for r in runs if (number(r, "head_repository", "id"), text(r, "head_branch")) == home]
    runs.sort(key=lambda run: number(run, "id") or 0, reverse=True)
    for run in runs[:_MOST]:
        said = _gate_said(api, repo, run)
        if said is None or not said.startswith("ignore: "):
            denied = said.removeprefix("deny: ") if said and said.startswith("deny: ") else None
            return Newest(text(run, "name") or file, run, denied)
    return Newest(file)


def _gate_said(api: Api, repo: str, run: object) -> str | None:
    """The first line of the gate's annotation; None where it allowed, or has not spoken yet.

    The job is a pull request's own, so this is shown and never trusted.
    """
    jobs = api.pages(f"{repo}/actions/runs/{number(run, 'id')}/jobs", "jobs", filter="latest")
    for job in jobs:
        if "gate" not in (text(job, "name") or ""):
            continue
        for note in api.pages(f"{repo}/check-runs/{number(job, 'id')}/annotations"):
            if text(note, "title") == ANNOTATION:
                return (text(note, "message") or "").partition("\n")[0]
    return None


def pull_of_run(api: Api, repo: str, payload: object) -> int | None:
    """The open pull request of a `workflow_run`: by head branch, for a fork's run names none."""
    run = at(payload, "workflow_run")
    owner, branch = text(run, "head_repository", "owner", "login"), text(run, "head_branch")
    if owner is None or branch is None:
        raise ApiError("the branch of the workflow's run")
    pulls = api.pages(f"{repo}/pulls", state="open", head=f"{owner}:{branch}")
    sha = text(run, "head_sha")
    found = [number(pull, "number") for pull in pulls if text(pull, "head", "sha") == sha]
    return found[0] if len(found) == 1 else None
