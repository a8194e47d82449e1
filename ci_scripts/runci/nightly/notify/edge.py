"""Asks GitHub for our issues, and carries out what was decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from runci.core.errors import RunciError
from runci.gate.api import Api, ApiError
from runci.gate.events import at, live_api, number, text
from runci.nightly.notify.actions import Action, Change, Create
from runci.nightly.notify.issue import Issue, read_issue

LABEL = "perf-regression"
WORKFLOW_ACCOUNT = "github-actions[bot]"  # who writes with a workflow's token
_COLOR = "b60205"
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


class Issues:
    """Our issues in one repository (`/repos/OWNER/NAME`). Every method raises ApiError."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api, self._repo = api, repo
        self._login = _own_login(api)

    def read(self) -> tuple[Issue, ...]:
        """All of ours, open and closed: with our label, or by our account where it was taken off.

        The list has no count to compare with, so it is read from both ends: where one reading was
        cut, or an issue came in between, they differ, and nothing may be opened on such grounds.
        """
        found: dict[int, Issue] = {}
        for which in ({"labels": LABEL}, {"creator": self._login}):
            there, back = (self._list(direction, which) for direction in ("asc", "desc"))
            if {issue.number for issue in there} != {issue.number for issue in back}:
                raise ApiError(
                    f"GET {self._repo}/issues: the list was cut, or changed while it was read"
                )
            found |= {issue.number: issue for issue in back}
        return tuple(found[ident] for ident in sorted(found))

    def _list(self, direction: str, which: Mapping[str, str]) -> list[Issue]:
        found = self._api.pages(
            f"{self._repo}/issues",
            state="all",
            sort="created",
            direction=direction,
            **which,
        )
        return [issue for item in found if (issue := self._ours(item)) is not None]

    def _ours(self, item: object) -> Issue | None:
        """The issue, where our account wrote it: anybody can copy a mark."""
        ident, state = number(item, "number"), text(item, "state")
        if ident is None or state not in ("open", "closed"):
            raise ApiError(f"GET {self._repo}/issues: an issue without number or state")
        if text(item, "user", "login") != self._login or at(item, "pull_request") is not None:
            return None
        return read_issue(ident, text(item, "body") or "", is_open=state == "open")

    def carry_out(self, actions: Iterable[Action], tell: Callable[[str], None]) -> None:
        """Do all of it, in order, telling each. What fails ends it; the next run does the rest."""
        labelled = False
        for action in actions:
            if isinstance(action, Create):
                if not labelled:
                    self._make_label()
                    labelled = True
                tell(f"opened #{self._create(action)}: {action.title}")
            else:
                self._change(action)
                tell(told(action))

    def _create(self, action: Create) -> int:
        path = f"{self._repo}/issues"
        body = {"title": action.title, "body": action.body, "labels": [LABEL]}
        made = self._api.send("POST", path, body)
        labels = at(made, "labels")
        names = [text(label, "name") for label in labels] if isinstance(labels, list) else []
        login = text(made, "user", "login")
        if login != self._login or LABEL not in names:
            # Else every night would find none of ours, and open it again.
            raise ApiError(
                f"POST {path}: made by {login!r} with the labels {names}, but issues are found "
                f"again by {self._login!r} and {LABEL!r}; close it by hand, and give the job a "
                "token with `issues: write`"
            )
        return number(made, "number") or 0

    def _change(self, change: Change) -> None:
        """The comment first: when the rest fails, the next run finds it and does not repeat it."""
        path = f"{self._repo}/issues/{change.number}"
        if change.comment and not self._has(path, change.comment):
            self._api.send("POST", f"{path}/comments", {"body": change.comment})
        body: dict[str, Any] = {"body": change.body}
        if change.is_open != change.was_open:
            body["state"] = "open" if change.is_open else "closed"
            reason = "completed" if change.done else "not_planned"
            body["state_reason"] = "reopened" if change.is_open else reason
        self._api.send("PATCH", path, body)

    def _has(self, path: str, comment: str) -> bool:
        return any(
            text(said, "user", "login") == self._login
            and _plain(text(said, "body") or "") == _plain(comment)
            for said in self._api.pages(f"{path}/comments")
        )

    def _make_label(self) -> None:
        try:
            self._api.get(f"{self._repo}/labels/{quote(LABEL)}")
        except ApiError as error:
            if error.status != 404:
                raise
            about = "The nightly found that something got worse"
            body = {"name": LABEL, "color": _COLOR, "description": about}
            self._api.send("POST", f"{self._repo}/labels", body)


def live_issues(environ: Mapping[str, str]) -> Issues:
    """Ours in the repository that the environment names.

    Raises RunciError where it names none, or has no token.
    """
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not _NAME.fullmatch(repository):
        raise RunciError(
            f"GITHUB_REPOSITORY is {repository!r}: set it to OWNER/NAME to read its issues"
        )
    if not environ.get("GITHUB_TOKEN"):
        raise RunciError(
            "GITHUB_TOKEN is not set: give the job `permissions: issues: write` and pass it the "
            "token, or pass --dry-run"
        )
    return Issues(live_api(environ), f"/repos/{repository}")


def told(change: Change) -> str:
    """A change that was made, for the log."""
    verb = "closed" if change.was_open and not change.is_open else "rewrote"
    if change.is_open and not change.was_open:
        verb = "reopened"
    said = " and commented on" if change.comment and verb == "rewrote" else ""
    return f"{verb}{said} #{change.number}: {change.what}"


def _own_login(api: Api) -> str:
    """Whose token this is; a workflow's may not ask, and is known by that."""
    try:
        login = text(api.get("/user"), "login")
    except ApiError as error:
        if error.status != 403:
            raise
        return WORKFLOW_ACCOUNT
    if not login:
        raise ApiError("GET /user: an account without a name")
    return login


def _plain(body: str) -> str:
    return body.replace("\r\n", "\n").strip()
