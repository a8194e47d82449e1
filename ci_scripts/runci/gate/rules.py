"""The tests of the gate's rules, and the questions that they share: each gives a reason or None."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeVar

from runci.config.gate import PERMISSIONS, STATUS, Entry, Labels
from runci.core.globs import matches
from runci.gate.request import (
    Act,
    GateRequest,
    Permission,
    Person,
    Pull,
    Queue,
)

EVENTS = ("schedule", "push", "workflow_dispatch", "pull_request", "merge_group")
_QUEUE = "refs/heads/gh-readonly-queue/"
_GROUP = "pr-[1-9][0-9]*-[0-9a-f]{40}"

# `.gitmodules`: a submodule brings files that no list of changed files names. What pip and pytest
# read beside, or before, pyproject.toml decides as much as it does, and so does the file that make
# prefers to the Makefile. suites.yml, perf.yml and the baseline say what runs where, and what may
# be left out. A lock, or a list of requirements, says whose code runs before the tests, whatever
# installs from it.
PROTECTED = (
    ".github/**",
    "ci_scripts/**",
    "pyproject.toml",
    "requirements*.txt",
    "requirements/**",
    "constraints*.txt",
    "uv.lock",
    "uv.toml",
    "pylock*.toml",
    "poetry.lock",
    "pdm.lock",
    "Pipfile",
    "Pipfile.lock",
    "pixi.toml",
    "pixi.lock",
    "conda-lock.yml",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    ".npmrc",
    "yarn.lock",
    "pnpm-lock.yaml",
    "Cargo.lock",
    "Makefile",
    "GNUmakefile",
    ".ci/**",
    "suites.yml",
    "runci.yml",
    "perf.yml",
    "runci-baseline.json",
    "ci-permissions.yml",
    "ci-status.yml",
    "conftest.py",
    "setup.py",
    "setup.cfg",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    ".gitmodules",
)
_PROTECTED = tuple(glob.casefold() for glob in PROTECTED)
# In messages: the files may stand at the root, too.
_PERMISSIONS, _STATUS = (path.rpartition("/")[2] for path in (PERMISSIONS, STATUS))

_T = TypeVar("_T")


class UnknownFactError(Exception):
    """A rule needs what is not known; the text says what."""


def known(value: _T | None, what: str) -> _T:
    """The value; raises UnknownFactError where there is none."""
    if value is None:
        raise UnknownFactError(what)
    return value


def labels_of(request: GateRequest) -> Labels:
    """What the gate's labels are called; only the default branch says so."""
    return known(request.labels, f"the labels in {_PERMISSIONS}")


def needed_labels(request: GateRequest) -> tuple[str, ...]:
    """The labels without which nothing runs, and that approve a commit."""
    if request.host_labels is not None:
        return request.host_labels
    labels = labels_of(request)
    return (labels.run, labels.extra) if request.extra else (labels.run,)


def ours(request: GateRequest) -> tuple[str, ...]:
    """The labels that mean something to this workflow."""
    labels = labels_of(request)
    return (*needed_labels(request), labels.bypass_maintenance, labels.bypass_fastfail)


def is_other_label(request: GateRequest) -> bool:
    """Whether the event is about a label that means nothing to this workflow.

    Case does not count, as it does not where a workflow's expression chooses the run's lane and the
    name of its last job: what is ignored here must not be a required check there.
    """
    if request.event != "pull_request":
        return False
    if known(request.action, "what happened to the pull request") not in ("labeled", "unlabeled"):
        return False
    label = known(request.label, "the label of the event")
    names = {form for name in ours(request) for form in _forms(name)}
    return names.isdisjoint(_forms(label))


def _forms(label: str) -> tuple[str, str]:
    """Without case, folded and in capitals: they differ for letters such as a dotless i."""
    return label.casefold(), label.upper()


def is_protected(path: str, more: Iterable[str] = ()) -> bool:
    """Whether a change to this path needs a maintainer's grant.

    A protected folder's own name counts: it could become a link or a submodule. Case does not: a
    disk that ignores it would write `.GitHub` over `.github`. A link or submodule (with a slash at
    its end) may put anything in its place. `more`: globs beside the built-in.
    """
    if path.endswith("/"):
        return True
    name = path.casefold()
    globs = (*_PROTECTED, *(glob.casefold() for glob in more))
    return matches(name, globs) or matches(f"{name}/", globs)


def level(person: Person) -> Permission:
    """What somebody may do; apps and bots have no authority whatever they may write."""
    if not person.human:
        return Permission.NONE
    return known(person.permission, f"the permission of {person.login}")


def entry_of(person: Person, request: GateRequest) -> Entry | None:
    """Somebody's entry in ci-permissions.yml: by number, for a login can change hands."""
    if not person.human:
        return None
    people = known(request.people, _PERMISSIONS)
    return next((entry for entry in people if entry.id == person.id), None)


def grants(request: GateRequest, least: Permission = Permission.WRITE) -> bool:
    """Whether somebody with at least this level authorized exactly the head commit."""
    return grant(request, least) is not None


def grant(
    request: GateRequest, least: Permission = Permission.WRITE
) -> tuple[Literal["comment", "label"], Act] | None:
    """What authorized exactly the head commit, by somebody with at least this level."""
    # A label from before comes last, for it costs questions to learn what it approved.
    return _grant_now(request, least) or next(
        (("label", act) for act in _history(request) if _is_for_head(act, request, least)), None
    )


def _grant_now(
    request: GateRequest, least: Permission
) -> tuple[Literal["comment", "label"], Act] | None:
    """A comment, or the label of this event."""
    pull = pull_of(request)
    labels = _label_acts(request, pull)
    for act in known(pull.comments, "the pull request's comments"):
        if _is_for_head(act, request, least):
            return "comment", act
    return next((("label", act) for act in labels if _is_for_head(act, request, least)), None)


def _is_for_head(act: Act, request: GateRequest, least: Permission) -> bool:
    pull = pull_of(request)
    head = known(pull.head_sha, "the pull request's head commit")
    return act.sha == head and _is_valid(act, pull, least)


def _history(request: GateRequest) -> tuple[Act, ...]:
    if not has_history(request):
        return ()
    return known(pull_of(request).history, "which commit the labels were put on for")


def has_history(request: GateRequest) -> bool:
    """Whether a label from before may count: not for a push, which is what it did not approve."""
    if request.event != "pull_request":
        return False
    if known(request.attempt, "the number of the attempt") > 1:
        return True
    action = known(request.action, "what happened to the pull request")
    return action not in ("opened", "synchronize")


def dated_labels(request: GateRequest) -> dict[str, Act]:
    """The labels from before that would be a grant, if they were put on for the head."""
    pull = pull_of(request)
    if not has_history(request):
        return {}
    needed = needed_labels(request)
    acts = {name: act for name, act in pull.labelled.items() if name in needed}
    return {name: act for name, act in acts.items() if _is_valid(act, pull, Permission.WRITE)}


def _label_acts(request: GateRequest, pull: Pull) -> tuple[Act, ...]:
    """The label of this event as a grant: the one who put it on for the event is the one who did
    last, so that a label taken off and put on again by somebody else revokes it."""
    if (request.event, request.action) != ("pull_request", "labeled"):
        return ()
    label = known(request.label, "the label of the event")
    if label not in needed_labels(request):
        return ()
    sender = known(request.sender, "who put the label on")
    last = known(pull.labelled.get(label), f"who put the label {label} on last")
    if last.by.id != sender.id or not sender.human:
        return ()
    return (Act(last.by, known(request.run_sha, "the run's commit"), through_app=last.through_app),)


def _is_valid(act: Act, pull: Pull, least: Permission) -> bool:
    author = known(pull.author, "the pull request's author")
    if act.edited or act.through_app or act.by.id == author.id:
        return False
    return level(act.by) >= least


def pull_of(request: GateRequest) -> Pull:
    """The pull request; it must be known here."""
    return known(request.pull, "the pull request")


def is_bypassed(request: GateRequest) -> bool:
    """Whether somebody with maintain or admin lifted the maintenance for this pull request."""
    pull, bypass = pull_of(request), labels_of(request).bypass_maintenance
    if bypass not in known(pull.labels, "the pull request's labels"):
        return False
    act = known(pull.labelled.get(bypass), f"who put on {bypass}")
    return not act.through_app and level(act.by) >= Permission.MAINTAIN


def is_insider(request: GateRequest) -> bool:
    """An author with write access, on a branch of this repository."""
    pull = pull_of(request)
    inside = known(pull.same_repository, "where the branch is")
    return inside and level(known(pull.author, "the author")) >= Permission.WRITE


def relying_on_entry(request: GateRequest) -> tuple[Person, ...]:
    """The people whose entry in ci-permissions.yml this run would be allowed by."""
    people = []
    pull = pull_of(request)
    author = known(pull.author, "the author")
    inside = known(pull.same_repository, "where the branch is")
    listed = inside and not is_insider(request) and entry_of(author, request)
    # A label from before would lift every cooldown of a commit for ever.
    if listed and not _grant_now(request, Permission.WRITE):
        people.append(author)
    again = known(request.attempt, "the number of the attempt") > 1
    starter = known(request.triggering, "who started this attempt") if again else None
    if starter and starter.human and level(starter) < Permission.WRITE:
        people.append(starter)
    return tuple(people)


def unknown(request: GateRequest) -> str | None:
    """Anything that could not be learnt."""
    return f"not known: {'; '.join(request.unknown)}" if request.unknown else None


def other_event(request: GateRequest) -> str | None:
    """Only five events can lead to a GPU, and only one of them without a commit of its own."""
    event = known(request.event, "the event's name")
    for_pull = known(request.for_pull, "whether the run is for a pull request")
    fits = for_pull if event == "pull_request" else not for_pull or event == "workflow_dispatch"
    if event in EVENTS and fits:
        return None
    return f"the event {event!r} never uses a GPU"


def other_label(request: GateRequest) -> str | None:
    """A label that is none of ours."""
    return f"the label is none of {', '.join(ours(request))}" if is_other_label(request) else None


def other_edit(request: GateRequest) -> str | None:
    """An edit of the title or the text, which changes nothing that is tested."""
    if request.event != "pull_request" or request.action != "edited":
        return None
    changed = known(request.retargets, "what the edit changed")
    return None if changed else "the edit left the base branch as it was"


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
    if request.event == "merge_group":
        return None  # `other_queue` asks for its ref
    return None if ref == f"refs/heads/{branch}" else f"the ref is {ref}, not {branch}"


def other_queue(request: GateRequest) -> str | None:
    """A merge queue that is not allowed, or another commit than the queue's for the branch."""
    if request.event != "merge_group":
        return None
    if not known(request.merge_queue, f"merge_queue in {_PERMISSIONS}"):
        return f"{_PERMISSIONS} does not say `merge_queue: allow`"
    status = known(request.status, _STATUS)
    if status.paused:
        return f"CI is paused for maintenance: {status.reason or 'no reason given'}"
    return _wrong_group(request, known(request.queue, "the queue's commit"))


def _wrong_group(request: GateRequest, queue: Queue) -> str | None:
    branch = known(request.default_branch, "the default branch")
    if known(request.action, "what happened to the group") != "checks_requested":
        return f"the group was {request.action}"
    if known(queue.base_ref, "the queue's base") != f"refs/heads/{branch}":
        return f"the queue is for {queue.base_ref}, not {branch}"
    ref = known(queue.ref, "the queue's ref")
    if not re.fullmatch(f"{_QUEUE}{re.escape(branch)}/{_GROUP}", ref):
        return f"{ref} is no ref of the queue for {branch}"
    if known(request.ref, "the ref of the run") != ref:
        return f"the run is on {request.ref}, not {ref}"
    head = known(request.run_sha, "the group's commit")
    out, live = known(queue.checked_out, "GITHUB_SHA"), known(queue.live_sha, "the queue's ref now")
    if {head, out, live} != {head}:
        return f"the group is {head[:12]}, the run's commit {out[:12]}, its ref now {live[:12]}"
    return None


def queued(request: GateRequest) -> str | None:
    """The commit of the queue, which somebody who may merge put there."""
    head = known(request.run_sha, "the commit") if request.event == "merge_group" else ""
    return f"{head[:12]} is in the merge queue" if head else None


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
    return None if merges else f"the run's merge commit is not one of {head[:12]} into {now}"


def draft(request: GateRequest) -> str | None:
    """A draft."""
    is_draft = known(pull_of(request).draft, "whether the pull request is a draft")
    return "the pull request is a draft" if is_draft else None


def paused(request: GateRequest) -> str | None:
    """Maintenance, unless bypassed."""
    status = known(request.status, _STATUS)
    if not status.paused or is_bypassed(request):
        return None
    return f"CI is paused for maintenance: {status.reason or 'no reason given'}"


def old_base(request: GateRequest) -> str | None:
    """A head without the commit that CI needs, unless bypassed."""
    needed = known(request.status, _STATUS).min_base_sha
    if needed is None or is_bypassed(request):
        return None
    if known(pull_of(request).contains_base, "whether the head contains the required commit"):
        return None
    return f"the branch does not contain the required commit {needed[:12]}"


def label_missing(request: GateRequest) -> str | None:
    """Nobody asked for GPUs, or the label was taken off again."""
    on = known(pull_of(request).labels, "the pull request's labels")
    missing = [name for name in needed_labels(request) if name not in on]
    if not missing:
        return None
    alike = {name.lower() for name in missing}
    other = [name for name in on if name.lower() in alike]
    case = f"; it has {' and '.join(other)}: the settings must write it so" if other else ""
    return f"the pull request does not have the label {' and '.join(missing)}{case}"


def protected(request: GateRequest) -> str | None:
    """An outsider's change to what decides about CI."""
    if is_insider(request):
        return None
    paths = known(pull_of(request).paths, "the changed files")
    more = known(request.protected, f"the protected paths in {_PERMISSIONS}")
    touched = [path for path in paths if is_protected(path, more)]
    if not touched or grants(request, Permission.MAINTAIN):
        return None
    others = f" and {len(touched) - 1} more" if len(touched) > 1 else ""
    return f"it changes {touched[0]}{others}, which decides about CI"


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
        return f"{person.login} is listed in {_PERMISSIONS}"
    return None


def granted(request: GateRequest) -> str | None:
    """Exactly this commit was authorized."""
    found = grant(request)
    if found is None:
        return None
    (kind, act), head = found, known(pull_of(request).head_sha, "the head commit")
    if kind == "comment":
        return f"{act.by.login} authorized {head[:12]} in a comment"
    return (
        f"the label that {act.by.login} put on approved {head[:12]}; it does not show a push "
        "between reading and labelling: `/run-ci` with the full commit is the better way"
    )


def label_unclear(request: GateRequest) -> str | None:
    """A label that may have been put on for this commit, or for another one."""
    pull = pull_of(request)
    head = known(pull.head_sha, "the head commit")
    for act in _history(request):
        if act.doubt and _is_valid(act, pull, Permission.WRITE):
            return (
                f"the label that {act.by.login} put on approved another event "
                f"({act.doubt}): comment `/run-ci {head}`"
            )
    return None


def otherwise(request: GateRequest) -> str:
    """No grant for this commit counts here."""
    head = known(pull_of(request).head_sha, "the head commit")
    return f"no grant for {head[:12]} by somebody with write access, other than its author"
