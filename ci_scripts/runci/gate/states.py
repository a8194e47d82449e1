"""The block in a pull request's text that shows its PR Test workflows, and the runs behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runci.core.source import split_lines
from runci.gate.api import Api, ApiError
from runci.gate.events import at, number, text
from runci.gate.output import ANNOTATION
from runci.text.markdown import escaped

BEGIN = "<!-- runci:pr-states:begin -->"
END = "<!-- runci:pr-states:end -->"
MOST = 65536  # characters that GitHub stores of a text

# Runs of one workflow for one commit that are looked at; each edit of the text is an ignored one.
_MOST_RUNS = 30
_MARK = re.compile(r"[ \t]*<!-- runci:pr-states:(begin|end) -->[ \t]*")
_URL = re.compile(r"https?://[A-Za-z0-9.:_/-]+")
_LONGEST = 300

_WORDS = {
    "success": "✅ passed",
    "failure": "❌ failed",
    "cancelled": "⏹️ cancelled",
    "timed_out": "❌ timed out",
    "action_required": "⏸️ waits for approval to run",
    "startup_failure": "❌ did not start",
    "skipped": "⏭️ skipped",
    "neutral": "⏭️ skipped",
    "stale": "⏭️ stale",
    "in_progress": "⏳ running",
}


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
    for run in runs[:_MOST_RUNS]:
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


@dataclass(frozen=True, slots=True)
class State:
    """The newest run of one workflow for the head commit.

    `state` is the run's conclusion, else its status; None: there is no run. `blocked` is the gate's
    reason. Both it and the names are text of others.
    """

    workflow: str
    state: str | None = None
    url: str | None = None
    blocked: str | None = None


def update(body: str, head_sha: str, states: Sequence[State]) -> str:
    """The text of the pull request with one current block; the author's words stay as they are.

    Raises ValueError when the text would be longer than GitHub takes.
    """
    ending = "\r\n" if "\r\n" in body else "\n"
    rest = without_block(body)
    lines = [*block(head_sha, states), ""]
    text = ending.join(lines) + ending + rest
    if len(text) > MOST:
        raise ValueError(f"the pull request's text leaves no room for the states ({MOST} at most)")
    return text


def without_block(body: str) -> str:
    """The author's own words: without blocks, without marks, without the blank line after them."""
    kept: list[str] = []
    opened: int | None = None
    after = False
    for line in split_lines(body):
        mark = _MARK.fullmatch(line.rstrip("\r\n"))
        if mark is None:
            if not (after and not line.strip("\r\n")):
                kept.append(line)
            after = False
        elif mark[1] == "begin":
            opened, after = len(kept), False  # a mark inside a block begins it anew
        elif opened is not None:
            del kept[opened:]
            opened, after = None, True
    return "".join(kept)


def block(head_sha: str, states: Sequence[State]) -> list[str]:
    """The block's lines, marks included. It names no time, so that it changes with states only."""
    lines = [BEGIN, f"| CI for `{head_sha[:12]}` | state |", "|---|---|"]
    for state in states:
        words = _WORDS.get(state.state or "", "⏳ queued" if state.state else "not started")
        if state.blocked is not None:
            words = f"⛔ blocked: {escaped(state.blocked, _LONGEST)}"
        if state.url and _URL.fullmatch(state.url):
            words += f" ([run]({state.url}))"
        lines.append(f"| {escaped(state.workflow, _LONGEST)} | {words} |")
    return [*lines, END]
