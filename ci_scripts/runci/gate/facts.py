"""Asks GitHub, in the order of the decision table, for what the gate's decision needs."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from runci.config.gate import PERMISSIONS, STATUS, load_people, load_protected, load_status
from runci.core.errors import RunciError
from runci.gate.api import Api, ApiError
from runci.gate.decide import decide
from runci.gate.events import BASE, Event, at, flag, number, person, sha, text
from runci.gate.request import Act, GateRequest, GpuRun, Permission, Person, Pull
from runci.gate.rules import UnknownFactError, ours, relying_on_entry
from runci.gate.slash import RerunTest, RunCi, parse

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

# GitHub lets a run be started again for 30 days after its first attempt.
_OLDEST = timedelta(days=31)
_WINDOW = timedelta(days=7)  # the longest cooldown that ci-permissions.yml allows
_MOST_RUNS = 30
_HOSTED = re.compile(r"(?:ubuntu|windows|macos)-[a-z0-9.-]+")
_SET_UP = re.compile(r"(?:Set up|Complete) (?:job|runner)|.*\bgate\b.*", re.IGNORECASE)
_NOT_BEGUN = ("queued", "pending", "waiting")  # where the worker was killed before it
MOST_FILES = 3000  # what GitHub lists of one pull request


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
        status = load_status(read_file(self._api, self._repo, STATUS, branch))
        given = read_file(self._api, self._repo, PERMISSIONS, branch)
        people, more = load_people(given), load_protected(given)
        return replace(request, status=status, people=people, protected=more)

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


def read_file(api: Api, repo: str, path: str, branch: str) -> bytes:
    """A file of a branch. Raises ApiError where there is none."""
    found = api.get(f"{repo}/contents/{path}", ref=branch)
    content = text(found, "content")
    if content is None or text(found, "encoding") != "base64" or text(found, "type") != "file":
        raise ApiError(f"{path} on {branch} is no readable file: add it")
    try:
        return base64.b64decode(content)
    except ValueError as error:  # binascii.Error, and what is not ASCII
        raise ApiError(f"{path} on {branch} is not base64") from error


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
    for somebody in people:
        runs = api.pages(path, "workflow_runs", actor=somebody.login, created=f">={since}")
        recent = [run for run in runs if _is_recent(run, now)]
        if len(recent) > _MOST_RUNS:
            raise ApiError(f"more than {_MOST_RUNS} recent runs of {somebody.login}")
        for run in recent:
            found += [
                GpuRun(somebody.id, minutes) for minutes in minutes_since_gpu(api, event, run, now)
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
    """Whether a job was let through to a machine that is not GitHub's. Raises ApiError."""
    labels, steps = at(job, "labels"), at(job, "steps")
    if not isinstance(labels, list):
        raise ApiError("the labels of a job")
    if all(_is_hosted(label) for label in labels):
        return False
    if text(job, "status") != "completed":
        return True
    if not isinstance(steps, list):
        raise ApiError("the steps of a job")
    return any(_ran(step) for step in steps)


def _is_hosted(label: Any) -> bool:
    return isinstance(label, str) and _HOSTED.fullmatch(label) is not None


def _ran(step: object) -> bool:
    if at(step, "conclusion") == "skipped" or text(step, "status") in _NOT_BEGUN:
        return False
    return not _SET_UP.fullmatch(text(step, "name") or "")


def _time(data: object, key: str) -> datetime:
    value = text(data, key)
    try:
        moment = datetime.fromisoformat((value or "").replace("Z", "+00:00"))
    except ValueError as error:
        raise ApiError(f"the time {key} of a run") from error
    if moment.tzinfo is None:
        raise ApiError(f"the time {key} of a run")
    return moment


def label_acts(events: Sequence[Any], names: Set[str], accounts: Accounts) -> dict[str, Act]:
    """Who put on each of these labels last; none for a label that was taken off since."""
    last: dict[str, Any] = {}
    for event in sorted(events, key=lambda event: number(event, "id") or 0):
        name = text(event, "label", "name")
        if name is None or name not in names:
            continue
        if text(event, "event") == "labeled":
            last[name] = event
        elif text(event, "event") == "unlabeled":
            last.pop(name, None)
    acts = {}
    for name, event in last.items():
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


def changed_paths(pull: object, files: Sequence[Any]) -> tuple[str, ...]:
    """Every changed path, with the former names of renamed files. Raises ApiError when cut off."""
    count = at(pull, "changed_files")
    if not isinstance(count, int) or isinstance(count, bool):
        raise ApiError("the number of changed files")
    if count > MOST_FILES:
        raise ApiError(f"the pull request changes {count} files, GitHub lists {MOST_FILES}")
    if count != len(files):
        raise ApiError(f"{len(files)} of {count} changed files were listed")
    paths: list[str] = []
    for file in files:
        name, status = text(file, "filename"), text(file, "status")
        former = text(file, "previous_filename")
        if name is None or status is None or (status == "renamed" and former is None):
            raise ApiError("a changed file without its name")
        paths += [name] if former is None else [name, former]
    return tuple(paths)
