"""`runci pr-states`: the block in a pull request's text that shows its PR Test workflows."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace

from runci.commands.shared import config_argument, pr_test_workflows, root_argument
from runci.core.errors import Exit, RunciError
from runci.gate.api import Api, ApiError
from runci.gate.events import Event, live_api, load_payload, read_event, text
from runci.gate.facts import read_pull
from runci.gate.states import State, newest_runs, pull_of_run, update


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    root_argument(command)
    config_argument(command)
    command.add_argument("--dry-run", action="store_true", help="print the block, write nothing")


def run(options: Namespace) -> int:
    """Bring the block in the pull request's text up to date."""
    payload = load_payload(os.environ)
    event = read_event(payload, os.environ)
    repo = f"/repos/{event.repository}"
    api = live_api(os.environ)
    try:
        pull = pull_of_run(api, repo, payload) if event.name == "workflow_run" else event.pull
        if pull is None:
            sys.stdout.write("runci pr-states: no open pull request has this commit as its head\n")
            return Exit.OK
        return _show(api, repo, pull, event, options)
    except (ApiError, ValueError) as error:
        raise RunciError(f"pr-states: {error}: run the job again", Exit.FINDINGS) from error


def _show(api: Api, repo: str, number_: int, event: Event, options: Namespace) -> int:
    found = api.get(f"{repo}/pulls/{number_}")
    head = read_pull(found, event.repository_id).head_sha
    if head is None:
        raise ApiError("the pull request's head")
    newest = newest_runs(api, repo, found, pr_test_workflows(options))
    states = [
        State(
            item.name,
            text(item.run, "conclusion") or text(item.run, "status"),
            text(item.run, "html_url"),
            item.denied,
        )
        for item in newest
    ]
    # Read as late as possible: GitHub has no write that fails when the author edited in between.
    body = text(api.get(f"{repo}/pulls/{number_}"), "body") or ""
    updated = update(body, head, states)
    if options.dry_run:
        sys.stdout.write(updated)
    elif updated != body:
        api.send("PATCH", f"{repo}/pulls/{number_}", {"body": updated})
    return Exit.OK
