"""The part of the played GitHub that keeps issues: list, create, update, comments, labels.

A world has "issues", each {"number", "user", "title", "body", "labels", "state", "comments"}, and
with "pull_request": True it is one that the list of issues has too. Pull request 7 of `fake_github`
is not in this list. What nobody may do is answered as GitHub answers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MOST = 65_536  # characters of a text


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer with another status than 200."""

    status: int


def answer(world: dict[str, Any], verb: str, path: str, query: Mapping[str, str], body: Any) -> Any:
    """The answer to a request below the repository; None where it is not about issues here."""
    for known, pattern, give in _ROUTES:
        found = re.fullmatch(pattern, path)
        if known == verb and found:
            return give(world, query, body, *found.groups())
    return None


def user(world: Mapping[str, Any]) -> Any:
    """Whose token it is: a workflow's own may not ask."""
    login = world["token"]
    return Refused(403) if login.endswith("[bot]") else _account(world, login)


def _account(world: Mapping[str, Any], login: str) -> dict[str, Any]:
    kind = "Bot" if login.endswith("[bot]") else "User"
    return {"login": login, "id": 1 + sum(map(ord, login)), "type": kind}


def _shown(world: Mapping[str, Any], issue: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        "id": 700_000 + issue["number"],
        "number": issue["number"],
        "title": issue["title"],
        "body": issue["body"],
        "state": issue["state"],
        "state_reason": issue.get("state_reason"),
        "user": _account(world, issue["user"]),
        "labels": [{"id": i, "name": name} for i, name in enumerate(issue["labels"], 1)],
        "comments": len(issue.get("comments", [])),
    }
    return {**found, "pull_request": {}} if issue.get("pull_request") else found


def _listed(world: dict[str, Any], query: Mapping[str, str], _body: Any) -> Any:
    wanted = set(filter(None, query.get("labels", "").split(",")))
    state = query.get("state", "open")
    found = [
        issue
        for issue in world["issues"]
        if wanted <= set(issue["labels"])
        and query.get("creator", issue["user"]) == issue["user"]
        and state in ("all", issue["state"])
    ]
    found.sort(key=lambda issue: issue["number"], reverse=query.get("direction", "desc") == "desc")
    return [_shown(world, issue) for issue in found]


def _created(world: dict[str, Any], _query: Mapping[str, str], body: Any) -> Any:
    if not body.get("title") or len(body["title"]) > 256 or len(body["body"]) > MOST:
        return Refused(422)
    if world["drops_labels"]:  # of an account without write access
        body = {**body, "labels": []}
    world["labels"] = sorted({*world["labels"], *body["labels"]})
    number = max([world["pull"]["number"], *(i["number"] for i in world["issues"])]) + 1
    issue = {"number": number, "user": world["token"], "state": "open", "comments": [], **body}
    world["issues"].append(issue)
    return _shown(world, issue)


def _found(world: Mapping[str, Any], number: str) -> Any:
    return next((i for i in world["issues"] if i["number"] == int(number)), None)


def _updated(world: dict[str, Any], _query: Mapping[str, str], body: Any, number: str) -> Any:
    issue = _found(world, number)
    if issue is None:
        return None
    reasons = (None, "completed", "not_planned", "reopened")
    if set(body) - {"title", "body", "state", "state_reason", "labels"}:
        return Refused(422)
    if body.get("state", "open") not in ("open", "closed") or len(body.get("body", "")) > MOST:
        return Refused(422)
    if body.get("state_reason") not in reasons:
        return Refused(422)
    issue.update(body)
    return _shown(world, issue)


def _commented(world: dict[str, Any], _query: Mapping[str, str], body: Any, number: str) -> Any:
    issue = _found(world, number)
    if issue is None:
        return None
    if not body["body"] or len(body["body"]) > MOST:
        return Refused(422)
    issue.setdefault("comments", []).append({"user": world["token"], "body": body["body"]})
    return {"id": len(issue["comments"])}


def _comments(world: dict[str, Any], _query: Mapping[str, str], _body: Any, number: str) -> Any:
    issue = _found(world, number)
    if issue is None:
        return None
    return [
        {
            "id": ident,
            "user": _account(world, said["user"]),
            "body": said["body"],
            "created_at": "2026-11-01T11:00:00Z",
            "updated_at": "2026-11-01T11:00:00Z",
        }
        for ident, said in enumerate(issue.get("comments", []), 1)
    ]


def _label(world: dict[str, Any], _query: Mapping[str, str], _body: Any, name: str) -> Any:
    return {"name": name} if name in world["labels"] else None


def _new_label(world: dict[str, Any], _query: Mapping[str, str], body: Any) -> Any:
    if body["name"] in world["labels"]:
        return Refused(422)
    world["labels"].append(body["name"])
    return {"name": body["name"]}


_ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("GET", "/issues", _listed),
    ("POST", "/issues", _created),
    ("PATCH", r"/issues/(\d+)", _updated),
    ("GET", r"/issues/(\d+)/comments", _comments),
    ("POST", r"/issues/(\d+)/comments", _commented),
    ("GET", r"/labels/([^/]+)", _label),
    ("POST", "/labels", _new_label),
)
