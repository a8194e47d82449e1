"""Asks GitHub, in the order of the decision table, for what the gate's decision needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from runci.config.gate import PERMISSIONS, STATUS, load_permissions, load_status
from runci.core.errors import RunciError
from runci.gate.api import Api, ApiError
from runci.gate.cooldown import gpu_runs
from runci.gate.decide import decide
from runci.gate.events import BASE, Event, at, flag, number, person, sha, text
from runci.gate.labels import history, last_labeled
from runci.gate.request import Act, GateRequest, Permission, Person, Pull, Queue
from runci.gate.rules import UnknownFactError, entry_of, ours, relying_on_entry
from runci.gate.settings import read_setting
from runci.gate.slash import RerunTest, RunCi, parse
from runci.gate.trees import Commits, changed_paths

# GitHub's older word for each level; a custom role has only this one.
_OLDER = {
    Permission.ADMIN: "admin",
    Permission.MAINTAIN: "write",
    Permission.WRITE: "write",
    Permission.TRIAGE: "read",
    Permission.READ: "read",
    Permission.NONE: "none",
}
_LEVELS = {level.name.lower(): level for level in Permission}
_CUSTOM = {name: level for level, name in _OLDER.items() if level not in (2, 4)}


def collect(
    event: Event,
    api: Api,
    now: datetime,
    host_labels: tuple[str, ...] | None = BASE,
    *,
    extra: bool = False,
) -> GateRequest:
    """Everything the decision about this run needs, asked live.

    `extra`: the workflow needs the second label too. `host_labels`: those that a host asks for.
    """
    asked = GateRequest(extra=extra, host_labels=host_labels)
    return _Collector(event, api, now).collect(asked)


class _Collector:
    def __init__(self, event: Event, api: Api, now: datetime) -> None:
        self._event, self._api, self._now = event, api, now
        self._repo = f"/repos/{event.repository}"
        self._accounts = Accounts(api, self._repo)
        self._events: list[Any] = []  # of the pull request, once they were asked for
        self._commits = Commits(api, self._repo)

    def collect(self, request: GateRequest) -> GateRequest:
        request = self._from_event(request)
        if self._event.repository is None:
            return replace(request, unknown=("the repository of the event",))
        for stage in self._stages():
            if _is_settled(request):
                break
            request = _tried(stage, request)
        if decide(request).allowed and request.for_pull:
            request = _tried(self._once_more, request)
        return request

    def _stages(self) -> tuple[Callable[[GateRequest], GateRequest], ...]:
        return (
            self._repository,
            self._permissions,  # before all else: whether an event is about a label of ours
            self._started_by,
            self._asked_by,
            self._pull,
            self._merge,
            self._status,
            self._queue,
            self._labelled,
            self._base,
            self._comments,
            self._paths,
            self._gpu_runs,
            self._history,  # last: most decisions do without it
        )

    def _from_event(self, request: GateRequest) -> GateRequest:
        event = self._event
        return replace(
            request,
            event=event.name,
            action=event.action,
            label=event.label,
            attempt=event.attempt,
            ref=event.ref,
            for_pull=event.for_pull,
            run_sha=event.run_sha,
            run_base=event.run_base,
            retargets=event.retargets,
            queue=Queue(event.queue_ref, event.queue_base, event.merge_sha),
            sender=event.sender,
        )

    def _repository(self, request: GateRequest) -> GateRequest:
        found = self._api.get(self._repo)
        if number(found, "id") is None or number(found, "id") != self._event.repository_id:
            raise ApiError("the repository is another than the event's")
        return replace(
            request,
            default_branch=text(found, "default_branch"),
            repository_is_fork=flag(found, "fork"),
        )

    def _started_by(self, request: GateRequest) -> GateRequest:
        """The payload of a re-run names the first run's sender, so the run itself is asked."""
        event = self._event
        if event.attempt == 1:
            starter = event.sender
        else:
            run = self._api.get(f"{self._repo}/actions/runs/{event.run_id}")
            if number(run, "run_attempt") != event.attempt or text(run, "event") != event.name:
                raise ApiError("the run is at another attempt or of another event")
            starter = person(at(run, "triggering_actor"))
        return replace(request, triggering=starter and self._accounts.with_permission(starter))

    def _asked_by(self, request: GateRequest) -> GateRequest:
        event = self._event
        if event.name != "workflow_dispatch" or event.comment is None:
            return request
        comment = self._api.get(f"{self._repo}/issues/comments/{event.comment}")
        command = parse(text(comment, "body") or "")
        if not (text(comment, "issue_url") or "").endswith(f"{self._repo}/issues/{event.pull}"):
            raise ApiError("the comment of the dispatch is on another pull request")
        if not isinstance(command, RerunTest) or command.target != event.test:
            raise ApiError("the comment of the dispatch asks for something else")
        return replace(request, asked_by=self._accounts.act(comment))

    def _pull(self, request: GateRequest) -> GateRequest:
        if self._event.name == "merge_group":
            return request
        found = self._read_pull()
        if found.author is not None:
            found = replace(found, author=self._accounts.with_permission(found.author))
        return replace(request, pull=found)

    def _read_pull(self) -> Pull:
        if self._event.pull is None:
            raise ApiError("the number of the pull request")
        found = self._api.get(f"{self._repo}/pulls/{self._event.pull}")
        if number(found, "base", "repo", "id") != self._event.repository_id:
            raise ApiError("the pull request is another repository's")
        return read_pull(found, self._event.repository_id)

    def _merge(self, request: GateRequest) -> GateRequest:
        if self._event.name != "pull_request":
            return request
        if self._event.merge_sha is None:
            raise ApiError("the run's merge commit (GITHUB_SHA)")
        merge = self._commits.commit(self._event.merge_sha)
        merges = len(merge.parents) == 2 and merge.parents[1] == request.run_sha
        if merges:
            base = self._commits.branch(_base_of(_of(request)))
            merges = self._commits.contains(base.sha, merge.parents[0])
        return replace(request, merges_head=merges)

    def _permissions(self, request: GateRequest) -> GateRequest:
        if not request.for_pull and request.event != "merge_group":
            return request
        found = read_setting(self._commits, request.default_branch or "", PERMISSIONS)
        given = load_permissions(found.data, found.path)
        return replace(
            request,
            people=given.people,
            protected=given.protected,
            merge_queue=given.merge_queue,
            labels=given.labels,
        )

    def _status(self, request: GateRequest) -> GateRequest:
        found = read_setting(self._commits, request.default_branch or "", STATUS)
        return replace(request, status=load_status(found.data, found.path))

    def _queue(self, request: GateRequest) -> GateRequest:
        """What the queue's ref points to now: GitHub deletes it with the group."""
        ref = request.queue.ref if request.queue else None
        if self._event.name != "merge_group" or ref is None or request.queue is None:
            return request
        found = self._api.get(f"{self._repo}/git/ref/{quote(ref.removeprefix('refs/'))}")
        live = sha(found, "object", "sha") if text(found, "ref") == ref else None
        return replace(request, queue=replace(request.queue, live_sha=live))

    def _labelled(self, request: GateRequest) -> GateRequest:
        pull = _of(request)
        names = set(ours(request)) & set(pull.labels or ())
        self._events = self._api.pages(f"{self._repo}/issues/{pull.number}/events")
        acts = label_acts(self._events, names, self._accounts)
        return replace(request, pull=replace(pull, labelled=acts))

    def _base(self, request: GateRequest) -> GateRequest:
        pull, base = _of(request), request.status.min_base_sha if request.status else None
        if base is None:
            return request
        contained = self._commits.contains(pull.head_sha or "", base)
        return replace(request, pull=replace(pull, contains_base=contained))

    def _comments(self, request: GateRequest) -> GateRequest:
        pull = _of(request)
        comments = self._api.pages(f"{self._repo}/issues/{pull.number}/comments")
        acts = run_ci_comments(comments, pull.head_sha, self._accounts)
        return replace(request, pull=replace(pull, comments=acts))

    def _paths(self, request: GateRequest) -> GateRequest:
        """GitHub's list of a pull request's files names no commit: a push could hide some."""
        before, after = self._compared(request)
        paths: tuple[str, ...] = ()
        if before != after:
            listings = (self._commits.entries(tree, recursive=True) for tree in (before, after))
            paths = changed_paths(*listings)
        return replace(request, pull=replace(_of(request), paths=paths))

    def _compared(self, request: GateRequest) -> tuple[str, str]:
        """The trees of what the run checks out and of where that left the base branch."""
        if request.event == "pull_request":
            merge = self._commits.commit(self._event.merge_sha or "")
            return self._commits.commit(merge.parents[0]).tree, merge.tree
        head = self._commits.commit(request.run_sha or "")
        base = self._commits.branch(_base_of(_of(request)))
        return self._commits.merge_base(base.sha, head.sha).tree, head.tree

    def _history(self, request: GateRequest) -> GateRequest:
        try:
            acts = history(self._api, self._event, request, self._events, self._now)
        except UnknownFactError:
            return request
        return replace(request, pull=replace(_of(request), history=acts))

    def _gpu_runs(self, request: GateRequest) -> GateRequest:
        try:
            people = relying_on_entry(request)
            entries = [entry_of(who, request) for who in people]
        except UnknownFactError:
            return request
        minutes = max((entry.cooldown_minutes for entry in entries if entry), default=0)
        runs = gpu_runs(self._api, self._event, people, self._now, minutes)
        return replace(request, gpu_runs=runs)

    def _once_more(self, request: GateRequest) -> GateRequest:
        """A push between two questions would mix the facts of two commits."""
        if not same_pull(_of(request), self._read_pull()):
            raise ApiError("the pull request changed while it was being read")
        return request


def _tried(stage: Callable[[GateRequest], GateRequest], request: GateRequest) -> GateRequest:
    try:
        return stage(request)
    except (ApiError, RunciError) as error:
        return replace(request, unknown=(*request.unknown, str(error)))


def _is_settled(request: GateRequest) -> bool:
    """Whether more facts could not change the answer."""
    return bool(request.unknown) or decide(request).rule != "unknown"


def _of(request: GateRequest) -> Pull:
    if request.pull is None:
        raise ApiError("the pull request")
    return request.pull


def _base_of(pull: Pull) -> str:
    if pull.base_ref is None:
        raise ApiError("the pull request's base branch")
    return pull.base_ref


def same_pull(before: Pull, after: Pull) -> bool:
    """Whether nothing changed that the decision read."""
    read = ("is_open", "draft", "head_sha", "base_ref", "same_repository")
    same = all(getattr(before, name) == getattr(after, name) for name in read)
    return same and sorted(before.labels or ()) == sorted(after.labels or ())


def read_pull(found: object, repository_id: int | None) -> Pull:
    """A pull request as the API gives it, without the permission of its author."""
    labels = at(found, "labels")
    names = [text(label, "name") for label in labels] if isinstance(labels, list) else [None]
    state = text(found, "state")
    head = at(found, "head")
    return Pull(
        number=number(found, "number") or 0,
        is_open=state == "open" if state in ("open", "closed") else None,
        draft=flag(found, "draft"),
        author=person(at(found, "user")),
        head_sha=sha(head, "sha"),
        base_ref=text(found, "base", "ref"),
        # The repository of a deleted fork is null: it was not this one.
        same_repository=number(head, "repo", "id") == repository_id if head else None,
        labels=None if None in names else tuple(name for name in names if name),
    )


class Accounts:
    """Looks up what people may do in one repository (`/repos/OWNER/NAME`)."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api, self._repo = api, repo
        self._known: dict[int, Permission] = {}

    def with_permission(self, who: Person) -> Person:
        """The person with their level now. Raises ApiError; apps and bots are not asked about."""
        if not who.human:
            return who
        if who.id not in self._known:
            path = f"{self._repo}/collaborators/{quote(who.login)}/permission"
            self._known[who.id] = level_of(self._api.get(path), who)
        return replace(who, permission=self._known[who.id])

    def act(self, found: object, sha: str | None = None) -> Act | None:
        """A comment as an act of its author; None where the account is gone.

        `edited` also where the times are missing. An app that writes with a person's token is
        named in `performed_via_github_app`.
        """
        who = person(at(found, "user"))
        if who is None:
            return None
        created = text(found, "created_at")
        return Act(
            self.with_permission(who),
            sha=sha,
            edited=created is None or created != text(found, "updated_at"),
            through_app=at(found, "performed_via_github_app") is not None,
        )


def level_of(answer: object, who: Person) -> Permission:
    """The level in an answer about a person. Raises ApiError where it does not fit together.

    A custom role counts as the level that GitHub maps it to, so never as maintain.
    """
    if number(answer, "user", "id") != who.id:
        raise ApiError(f"the login {who.login} belongs to another account now")
    older, role = text(answer, "permission"), text(answer, "role_name")
    level = _LEVELS.get(role or "") if role in _LEVELS else _CUSTOM.get(older or "")
    if level is None or _OLDER[level] != older:
        raise ApiError(f"the permission of {who.login}")
    return level


def label_acts(events: Sequence[Any], names: Set[str], accounts: Accounts) -> dict[str, Act]:
    """Who put on each of these labels last; none for a label that was taken off since."""
    acts = {}
    for name, event in last_labeled(events, names).items():
        who = person(at(event, "actor"))
        if who is not None:
            through_app = at(event, "performed_via_github_app") is not None
            acts[name] = Act(accounts.with_permission(who), through_app=through_app)
    return acts


def run_ci_comments(
    comments: Sequence[Any], head: str | None, accounts: Accounts
) -> tuple[Act, ...]:
    """The comments `/run-ci FULL_SHA` that name the head commit."""
    acts = []
    for comment in comments:
        command = parse(text(comment, "body") or "")
        if isinstance(command, RunCi) and command.sha == head:
            acts.append(accounts.act(comment, command.sha))
    return tuple(act for act in acts if act is not None)
