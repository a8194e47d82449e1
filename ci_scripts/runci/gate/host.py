"""What a GPU host adds to the decision: its own list of repositories, workflows and refs.

The host believes nothing that a workflow says: which labels are needed comes from its own list, or
where that says none from the repository's default branch, and what run it is for is checked against
the API.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from runci.config.gate import Host, HostWorkflow
from runci.core.globs import matches
from runci.gate.api import Api, ApiError
from runci.gate.decide import decide, denied
from runci.gate.events import Event, number, sha, text
from runci.gate.facts import collect
from runci.gate.request import Decision, GateRequest, Outcome
from runci.text.markdown import one_line

RULE = "host-list"


def decide_on_host(event: Event, host: Host, api: Api, now: datetime) -> Decision:
    """The host's own decision; an `ignore` starts nothing, so here it denies."""
    workflow = listed(event, host)
    if isinstance(workflow, Decision):
        return workflow
    try:
        _check_run(event, api)
    except ApiError as error:
        return denied(f"not known: {error}")
    request: GateRequest = collect(event, api, now, host_labels=workflow.labels)
    decision = decide(request)
    if decision.outcome is Outcome.IGNORE:
        return replace(decision, outcome=Outcome.DENY)
    return decision


def listed(event: Event, host: Host) -> HostWorkflow | Decision:
    """The entry of the host's list for this run, or the denial that there is none."""
    places = [r for r in host.repositories if r.id == event.repository_id]
    # A workflow of another repository is called by name: its text is not this repository's.
    places = [r for r in places if r.name == event.repository == event.workflow_repository]
    if not places:
        return _refused(f"repository {event.repository} is not on this host's list")
    workflows = [w for place in places for w in place.workflows if w.path == event.workflow]
    if not workflows:
        return _refused(f"workflow {event.workflow} is not on this host's list")
    for workflow in workflows:
        if event.workflow_ref and matches(event.workflow_ref, workflow.refs):
            return workflow
    return _refused(f"workflow {event.workflow} is not on this host's list at {event.workflow_ref}")


def _refused(reason: str) -> Decision:
    remedy = "Start GPU jobs from a listed workflow, or ask the host's administrator to list it."
    return Decision(Outcome.DENY, RULE, reason, remedy)


def _check_run(event: Event, api: Api) -> None:
    """The run that GitHub knows by this number must be the one that the files here describe."""
    run = api.get(f"/repos/{event.repository}/actions/runs/{event.run_id}")
    stated = event.name, event.attempt, event.repository_id
    if stated != (text(run, "event"), number(run, "run_attempt"), number(run, "repository", "id")):
        raise ApiError("the run is another than the one in the host's files")
    if event.name in ("pull_request", "merge_group") and sha(run, "head_sha") != event.run_sha:
        raise ApiError("the run is for another commit than the one in the host's files")
    if (text(run, "path") or "").partition("@")[0] != event.workflow:
        raise ApiError("the run is of another workflow than the one in the host's files")
    if text(run, "status") not in ("in_progress", "queued", "waiting", "pending", "requested"):
        raise ApiError("the run is over")


def log_line(event: Event, decision: Decision, now: datetime) -> str:
    """One line of the host's log: what was asked and what was answered."""
    who = event.sender.login if event.sender else "?"
    fields = (
        now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        decision.outcome.value,
        decision.rule,
        f"repository={event.repository}",
        f"workflow={event.workflow}@{event.workflow_ref}",
        f"run={event.run_id}/{event.attempt}",
        f"event={event.name}",
        f"pull={event.pull}",
        f"commit={event.run_sha}",
        f"sender={who}",
        f"reason={decision.reason}",
    )
    return one_line(" ".join(fields)) + "\n"
