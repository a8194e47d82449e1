"""Live permissions of accounts, asked once each and checked against the account's number."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from runci.gate.api import Api, ApiError
from runci.gate.events import at, number, person, text
from runci.gate.request import Act, Permission, Person

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
