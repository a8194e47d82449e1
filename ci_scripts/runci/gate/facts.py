"""Asks GitHub, in the order of the decision table, for what the gate's decision needs.

Each stage adds facts; asking stops at the first rule that matches, so a denied run costs few
questions. What cannot be learnt becomes `unknown`, which denies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from runci.errors import RunciError
from runci.gate.api import Api, ApiError
from runci.gate.authority import UnknownFactError, ours, relying_on_entry
from runci.gate.decide import decide
from runci.gate.events import BASE, Event, at, flag, number, person, sha, text
from runci.gate.people import Accounts
from runci.gate.pull import changed_paths, label_acts, run_ci_comments, same_pull
from runci.gate.request import GateRequest, Pull
from runci.gate.runs import gpu_runs
from runci.gate.settings import PERMISSIONS, STATUS, load_people, load_status
from runci.gate.slash import RerunTest, parse


def collect(
    event: Event, api: Api, now: datetime, needed_labels: tuple[str, ...] = BASE
) -> GateRequest:
    """Everything the decision about this run needs, asked live."""
    return _Collector(event, api, now).collect(needed_labels)


class _Collector:
    def __init__(self, event: Event, api: Api, now: datetime) -> None:
        self._event, self._api, self._now = event, api, now
        self._repo = f"/repos/{event.repository}"
        self._accounts = Accounts(api, self._repo)

    def collect(self, needed_labels: tuple[str, ...]) -> GateRequest:
        request = self._from_event(needed_labels)
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
            self._started_by,
            self._asked_by,
            self._pull,
            self._merge,
            self._settings,
            self._labelled,
            self._base,
            self._comments,
            self._paths,
            self._gpu_runs,
        )

    def _from_event(self, needed_labels: tuple[str, ...]) -> GateRequest:
        event = self._event
        return GateRequest(
            event=event.name,
            action=event.action,
            label=event.label,
            attempt=event.attempt,
            ref=event.ref,
            needed_labels=needed_labels,
            for_pull=event.for_pull,
            run_sha=event.run_sha,
            run_base=event.run_base,
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
        commit = self._api.get(f"{self._repo}/git/commits/{self._event.merge_sha}")
        parents = at(commit, "parents")
        merged = [sha(parent, "sha") for parent in parents] if isinstance(parents, list) else [None]
        if None in merged:
            raise ApiError("the parents of the run's merge commit")
        return replace(request, merges_head=len(merged) == 2 and merged[1] == request.run_sha)

    def _settings(self, request: GateRequest) -> GateRequest:
        branch = request.default_branch or ""
        return replace(
            request,
            status=load_status(read_file(self._api, self._repo, STATUS, branch)),
            people=load_people(read_file(self._api, self._repo, PERMISSIONS, branch)),
        )

    def _labelled(self, request: GateRequest) -> GateRequest:
        pull = _of(request)
        names = set(ours(request)) & set(pull.labels or ())
        events = self._api.pages(f"{self._repo}/issues/{pull.number}/events")
        acts = label_acts(events, names, self._accounts)
        return replace(request, pull=replace(pull, labelled=acts))

    def _base(self, request: GateRequest) -> GateRequest:
        """`ahead` and `identical` are GitHub's words for a head that contains the commit."""
        pull, base = _of(request), request.status.min_base_sha if request.status else None
        if base is None:
            return request
        path = f"{self._repo}/compare/{base}...{pull.head_sha}"
        found = self._api.get(path, per_page="1")
        status = text(found, "status")
        if status not in ("ahead", "identical", "behind", "diverged"):
            raise ApiError(f"GET {path}: no status")
        contained = status in ("ahead", "identical")
        contained = contained and sha(found, "merge_base_commit", "sha") == base
        return replace(request, pull=replace(pull, contains_base=contained))

    def _comments(self, request: GateRequest) -> GateRequest:
        pull = _of(request)
        comments = self._api.pages(f"{self._repo}/issues/{pull.number}/comments")
        acts = run_ci_comments(comments, pull.head_sha, self._accounts)
        return replace(request, pull=replace(pull, comments=acts))

    def _paths(self, request: GateRequest) -> GateRequest:
        """The list names no commit: another one, pushed for this moment only, could hide files."""
        pull = _of(request)
        live = self._api.get(f"{self._repo}/pulls/{pull.number}")
        if sha(live, "head", "sha") != pull.head_sha:
            raise ApiError("the pull request changed while it was being read")
        files = self._api.pages(f"{self._repo}/pulls/{pull.number}/files")
        return replace(request, pull=replace(pull, paths=changed_paths(live, files)))

    def _gpu_runs(self, request: GateRequest) -> GateRequest:
        try:
            people = relying_on_entry(request)
        except UnknownFactError:
            return request
        return replace(request, gpu_runs=gpu_runs(self._api, self._event, people, self._now))

    def _once_more(self, request: GateRequest) -> GateRequest:
        """A push between two questions would mix the facts of two commits."""
        if not same_pull(_of(request), self._read_pull()):
            raise ApiError("the pull request changed while it was being read")
        return request


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


def read_file(api: Api, repo: str, path: str, branch: str) -> bytes:
    """A file of a branch. Raises ApiError where there is none."""
    found = api.get(f"{repo}/contents/{path}", ref=branch)
    content = text(found, "content")
    if content is None or text(found, "encoding") != "base64" or text(found, "type") != "file":
        raise ApiError(f"{path} on {branch} is no readable file: add it")
    try:
        return base64.b64decode(content)
    except binascii.Error as error:
        raise ApiError(f"{path} on {branch} is not base64") from error


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
