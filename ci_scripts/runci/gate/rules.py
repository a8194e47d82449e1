"""The tests of the gate's rules: each gives the reason when its rule matches, else None.

One function a row of the table in `gate.py`, in its order.
"""

from __future__ import annotations

from runci.gate.authority import (
    entry_of,
    grants,
    is_bypassed,
    is_insider,
    is_other_label,
    is_protected,
    known,
    level,
    ours,
    pull_of,
    relying_on_entry,
)
from runci.gate.request import GateRequest, Permission

EVENTS = ("schedule", "push", "workflow_dispatch", "pull_request")


def unknown(request: GateRequest) -> str | None:
    """Anything that could not be learnt."""
    return f"not known: {'; '.join(request.unknown)}" if request.unknown else None


def other_event(request: GateRequest) -> str | None:
    """Only four events can lead to a GPU, and only one of them without a commit of its own."""
    event = known(request.event, "the event's name")
    for_pull = known(request.for_pull, "whether the run is for a pull request")
    fits = for_pull if event == "pull_request" else not for_pull or event == "workflow_dispatch"
    if event in EVENTS and fits:
        return None
    return f"the event {event!r} never uses a GPU"


def other_label(request: GateRequest) -> str | None:
    """A label that is none of ours."""
    return f"the label is none of {', '.join(ours(request))}" if is_other_label(request) else None


def rerun(request: GateRequest) -> str | None:
    """A re-run asks for the GPUs again, so whoever asks counts."""
    if known(request.attempt, "the number of the attempt") == 1:
        return None
    person = known(request.triggering, "who started this attempt")
    # The slash commands re-run with the workflow's token: it adds no authority, all else is asked.
    if request.event == "pull_request" and person.is_workflow_bot:
        return None
    if level(person) >= Permission.WRITE:
        return None
    if request.event == "pull_request" and entry_of(person, request):
        return None
    return f"{person.login}, who started this re-run, has no write access"


def other_ref(request: GateRequest) -> str | None:
    """A schedule, push or dispatch that is not the default branch's, or is a fork's."""
    if request.event == "pull_request":
        return None
    if known(request.repository_is_fork, "whether the repository is a fork"):
        return f"a {request.event} in a fork"
    ref = known(request.ref, "the ref of the run")
    branch = known(request.default_branch, "the default branch")
    return None if ref == f"refs/heads/{branch}" else f"the ref is {ref}, not {branch}"


def trusted(request: GateRequest) -> str | None:
    """What is on the default branch was merged by somebody with write access."""
    if request.event in ("schedule", "push"):
        return f"{request.event} on the default branch"
    return None


def dispatcher(request: GateRequest) -> str | None:
    """A dispatch by somebody without write access; for the workflow's token its asker counts."""
    if request.event != "workflow_dispatch":
        return None
    person = known(request.triggering, "who started the workflow")
    if person.is_workflow_bot and known(request.for_pull, "what the dispatch is for"):
        act = known(request.asked_by, "whose command the dispatch carries out")
        if act.edited or act.through_app:
            return f"the comment of {act.by.login} was edited or written by an app"
        person = act.by
    if level(person) >= Permission.WRITE:
        return None
    return f"{person.login}, who started the workflow, has no write access"


def dispatched(request: GateRequest) -> str | None:
    """A dispatch for the default branch itself."""
    if request.event != "workflow_dispatch":
        return None
    if known(request.for_pull, "what the dispatch is for"):
        return None
    return "dispatched on the default branch by somebody with write access"


def closed(request: GateRequest) -> str | None:
    """A pull request that is closed or merged."""
    is_open = known(pull_of(request).is_open, "whether the pull request is open")
    return None if is_open else f"pull request #{pull_of(request).number} is closed"


def superseded(request: GateRequest) -> str | None:
    """A commit that is no longer the head, or a merge into what is no longer the base."""
    pull = pull_of(request)
    run, head = known(request.run_sha, "the run's commit"), known(pull.head_sha, "the head commit")
    if run != head:
        return f"the run is for {run[:12]}, the pull request's head is now {head[:12]}"
    if request.event != "pull_request":
        return None
    base, now = known(request.run_base, "the run's base"), known(pull.base_ref, "the base branch")
    if base != now:
        return "the pull request's base branch was changed after this run"
    # GitHub makes the merge commit on its own time: a push in between, and back, swaps it.
    merges = known(request.merges_head, "what the run's merge commit merges")
    return None if merges else f"the run's merge commit is not one of {head[:12]}"


def draft(request: GateRequest) -> str | None:
    """A draft."""
    is_draft = known(pull_of(request).draft, "whether the pull request is a draft")
    return "the pull request is a draft" if is_draft else None


def paused(request: GateRequest) -> str | None:
    """Maintenance, unless bypassed."""
    status = known(request.status, ".github/ci-status.yml")
    if not status.paused or is_bypassed(request):
        return None
    return f"CI is paused for maintenance: {status.reason or 'no reason given'}"


def old_base(request: GateRequest) -> str | None:
    """A head without the commit that CI needs, unless bypassed."""
    needed = known(request.status, ".github/ci-status.yml").min_base_sha
    if needed is None or is_bypassed(request):
        return None
    if known(pull_of(request).contains_base, "whether the head contains the required commit"):
        return None
    return f"the branch does not contain the required commit {needed[:12]}"


def label_missing(request: GateRequest) -> str | None:
    """Nobody asked for GPUs, or the label was taken off again."""
    on = known(pull_of(request).labels, "the pull request's labels")
    missing = [name for name in request.needed_labels if name not in on]
    return f"the pull request does not have the label {' and '.join(missing)}" if missing else None


def protected(request: GateRequest) -> str | None:
    """An outsider's change to what decides about CI."""
    if is_insider(request):
        return None
    paths = known(pull_of(request).paths, "the changed files")
    touched = [path for path in paths if is_protected(path)]
    if not touched or grants(request, Permission.MAINTAIN):
        return None
    more = f" and {len(touched) - 1} more" if len(touched) > 1 else ""
    return f"it changes {touched[0]}{more}, which decides about CI"


def cooldown(request: GateRequest) -> str | None:
    """Somebody whose only authority is an entry in ci-permissions.yml, again too soon."""
    for person in relying_on_entry(request):
        entry = known(entry_of(person, request), f"the entry of {person.login}")
        runs = known(request.gpu_runs, f"the recent runs of {person.login}")
        recent = [run.minutes_ago for run in runs if run.actor_id == person.id]
        if any(minutes < entry.cooldown_minutes for minutes in recent):
            wait = max(1, round(entry.cooldown_minutes - min(recent)))
            return (
                f"{person.login} used a GPU {round(min(recent))} minutes ago; {wait} more to wait"
            )
    return None


def author(request: GateRequest) -> str | None:
    """An author who could push to the repository anyway, or has an entry."""
    pull = pull_of(request)
    if is_insider(request):
        return f"{known(pull.author, 'the author').login} has write access"
    person = known(pull.author, "the author")
    inside = known(pull.same_repository, "where the branch is")
    if inside and entry_of(person, request):
        return f"{person.login} is listed in ci-permissions.yml"
    return None


def granted(request: GateRequest) -> str | None:
    """Exactly this commit was authorized."""
    head = known(pull_of(request).head_sha, "the head commit")
    return f"somebody with write access authorized {head[:12]}" if grants(request) else None


def otherwise(request: GateRequest) -> str:
    """Nobody authorized this commit."""
    head = known(pull_of(request).head_sha, "the head commit")
    return f"nobody with write access, other than its author, authorized {head[:12]}"
