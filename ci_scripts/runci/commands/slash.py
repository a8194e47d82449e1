"""`runci slash` and `runci pr-states`: asks GitHub, lets the pure modules decide, does it."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from runci.commands.shared import config_argument, pr_test_workflows, root_argument
from runci.config.gate import PERMISSIONS, load_permissions
from runci.core.errors import Exit, RunciError
from runci.gate import slash as commands
from runci.gate.api import Api, ApiError
from runci.gate.cooldown import gpu_runs, minutes_since_gpu
from runci.gate.events import Event, at, live_api, load_payload, number, read_event, text
from runci.gate.facts import Accounts, read_pull
from runci.gate.settings import read_setting
from runci.gate.slash import Answer, Comment, Do, Reaction, Run, SlashRequest
from runci.gate.states import newest_runs
from runci.gate.trees import Commits


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    root_argument(command)
    config_argument(command)
    command.add_argument("--dry-run", action="store_true", help="say what would be done")


def run(options: Namespace) -> int:
    """Carry out the command of the comment that started this run, if it has one."""
    payload = load_payload(os.environ)
    event = read_event(payload, os.environ)
    is_new = event.name == "issue_comment" and event.action == "created"
    body = text(payload, "comment", "body") or ""
    if not is_new or at(payload, "issue", "pull_request") is None or not commands.parse(body):
        sys.stdout.write("runci slash: the comment is no command\n")
        return Exit.OK
    api = live_api(os.environ)
    try:
        request = _slash_request(api, event, payload, pr_test_workflows(options))
        answer = commands.answer(request)
        if options.dry_run or answer.reaction is None:
            sys.stdout.write(f"runci slash: {answer.do.value}: {answer.reply or 'no command'}\n")
            return Exit.OK
        answer = _carry_out(api, event, request, answer, pr_test_workflows(options))
        _reply(api, event, request, answer)
    except ApiError as error:
        raise RunciError(f"slash: {error}: write the command again", Exit.FINDINGS) from error
    sys.stdout.write(f"runci slash: {answer.reply}\n")
    return Exit.OK


def _slash_request(
    api: Api, event: Event, payload: object, workflows: Sequence[str]
) -> SlashRequest:
    repo = f"/repos/{event.repository}"
    ident, issue = number(payload, "comment", "id"), number(payload, "issue", "number")
    live = api.get(f"{repo}/issues/comments/{ident}")
    act = Accounts(api, repo).act(live)
    if act is None or ident is None:
        raise ApiError("who wrote the comment")
    found = api.get(f"{repo}/pulls/{issue}")
    pull = read_pull(found, event.repository_id)
    branch = text(api.get(repo), "default_branch") or ""
    file = read_setting(Commits(api, repo), branch, PERMISSIONS)
    settings = load_permissions(file.data, file.path)
    said = text(payload, "comment", "body") or ""
    comment = Comment(ident, said, act, is_live=text(live, "body") == said)
    entry = commands.cooling_entry(act.by, settings.people)
    own = gpu_runs(api, event, [act.by], _now(), entry.cooldown_minutes) if entry else ()
    runs = []
    for newest in newest_runs(api, repo, found, workflows):
        if newest.run is None:
            continue
        used = list(minutes_since_gpu(api, event, newest.run, _now())) if entry else []
        runs.append(
            Run(
                number(newest.run, "id") or 0,
                newest.name,
                text(newest.run, "status") or "",
                text(newest.run, "conclusion"),
                min(used) if used else None,
            )
        )
    ago = min((used.minutes_ago for used in own), default=None)
    label = settings.labels.run
    return SlashRequest(comment, pull, settings.people, tuple(runs), label, ago)


def _carry_out(
    api: Api, event: Event, request: SlashRequest, answer: Answer, workflows: Sequence[str]
) -> Answer:
    """Do it; when GitHub refuses, that is the answer."""
    repo = f"/repos/{event.repository}"
    try:
        if answer.do is Do.DISPATCH:
            file = workflows[0]
            api.send(
                "POST",
                f"{repo}/actions/workflows/{file}/dispatches",
                _dispatch(api, repo, request, answer),
            )
            answer = replace(answer, reply=f"{answer.reply} {_where(event, file)}")
        for run in answer.runs:
            api.send("POST", f"{repo}/actions/runs/{run.id}/{answer.do.value}", {})
    except ApiError as error:
        reply = f"GitHub did not do it: {error}.{commands.still_counts(request)}"
        return Answer(Do.NOTHING, Reaction.CONFUSED, reply)
    return answer


def _where(event: Event, file: str) -> str:
    """Where to look for the run: a dispatch says no number, and gives the pull request no check."""
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    runs = f"{server}/{event.repository}/actions/workflows/{file}?query=event%3Aworkflow_dispatch"
    return f"Its result stands [here]({runs}), under the test's name, and changes no check."


def _dispatch(api: Api, repo: str, request: SlashRequest, answer: Answer) -> dict[str, object]:
    inputs = {
        "pull_request": str(request.pull.number),
        "head_sha": request.pull.head_sha or "",
        "test": answer.target or "",
        "comment_id": str(request.comment.id),
    }
    return {"ref": text(api.get(repo), "default_branch") or "", "inputs": inputs}


def _reply(api: Api, event: Event, request: SlashRequest, answer: Answer) -> None:
    repo = f"/repos/{event.repository}/issues"
    if answer.reaction is not None:
        path = f"{repo}/comments/{request.comment.id}/reactions"
        api.send("POST", path, {"content": answer.reaction.value})
    login = request.comment.act.by.login
    path = f"{repo}/{request.pull.number}/comments"
    api.send("POST", path, {"body": f"@{login} {answer.reply}"})


def _now() -> datetime:
    return datetime.now(timezone.utc)
