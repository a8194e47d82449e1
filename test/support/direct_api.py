"""The played GitHub as an `Api` without sockets, for tests that ask it ten thousand times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fake_github import FakeGitHub
from fake_issues import Refused

from runci.gate.api import PAGE, ApiError


class DirectApi:
    """What `GitHubApi` gives over HTTP from this server, faults included; slow is too slow."""

    def __init__(self, fake: FakeGitHub) -> None:
        self._fake = fake

    def get(self, path: str, **query: str) -> Any:
        """One object."""
        return self._ask("GET", path, query, None)[0]

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:
        """A whole list. Raises ApiError where it counts more than it gives."""
        answer, kind = self._ask("GET", path, query, None)
        items = answer.get(key) if key and isinstance(answer, dict) else answer
        if not isinstance(items, list):
            raise ApiError(f"GET {path}: no list")
        cut = {"short": items[:-1], "no-link": items[:PAGE], "same": items[:PAGE]}
        found = cut.get(kind or "", items)
        if key is not None and answer["total_count"] != len(found):
            raise ApiError(f"GET {path}: {len(found)} of {answer['total_count']} listed")
        return found

    def send(self, verb: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something."""
        return self._ask(verb, path, {}, dict(body))[0]

    def _ask(self, verb: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        fake = self._fake
        fake.requests.append((verb, path, body))
        kind = fake.take_fault(path)
        if kind in ("slow", "garbage", "cut"):
            raise ApiError(f"{verb} {path}: {kind}")
        if kind is not None and kind[:3].isdecimal():
            raise ApiError(f"{verb} {path}: status {kind}", int(kind[:3]))
        answer = fake.answer(verb, path, query, body)
        if answer is None or isinstance(answer, Refused):
            status = 404 if answer is None else answer.status
            raise ApiError(f"{verb} {path}: status {status}", status)
        answer = json.loads(json.dumps(answer))  # as it was then
        for asked, change in list(fake.after.items()):
            if asked in path:
                del fake.after[asked]
                change(fake.world)
        return answer, kind
