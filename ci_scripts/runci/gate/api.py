"""GitHub's API as the gate sees it: what it answers, recorded answers, and one kind of failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

PAGE = 100
MOST_PAGES = 30  # of one list: 3,000 comments or events of a pull request
FAILED = "runci: failed"  # the key of a recorded failure


class ApiError(Exception):
    """The API gave no whole answer; the text says which and never quotes what it sent.

    `status` is the answer's, None where there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Api(Protocol):
    """Reads and writes. Every method raises ApiError when it cannot give the whole answer."""

    def get(self, path: str, **query: str) -> Any:
        """One object."""

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:
        """A whole list; `key` is where it stands in each page, beside `total_count`."""

    def send(self, verb: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something."""


def question(path: str, query: Mapping[str, str]) -> str:
    """The name of a question in a file of recorded answers."""
    return f"GET {path}?{urlencode(sorted(query.items()))}" if query else f"GET {path}"


class Recorded:
    """Answers from a file; it has none to what was not asked when they were recorded."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def get(self, path: str, **query: str) -> Any:
        """The recorded answer, or the recorded failure."""
        asked = question(path, query)
        if asked not in self._answers:
            raise ApiError(f"{asked}: no recorded answer")
        found = self._answers[asked]
        if isinstance(found, dict) and FAILED in found:
            raise ApiError(str(found[FAILED]))
        return found

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:  # noqa: ARG002
        """The recorded list."""
        found = self.get(path, **query)
        if not isinstance(found, list):
            raise ApiError(f"{question(path, query)}: the recorded answer is no list")
        return found

    def send(self, verb: str, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Refuse: what is recorded cannot be changed."""
        raise ApiError(f"{verb} {path}: offline")


class Recorder:
    """Passes questions on and keeps the answers, failures too, for a later `--explain`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.answers: dict[str, Any] = {}

    def get(self, path: str, **query: str) -> Any:
        """Ask and keep."""
        return self._kept(question(path, query), lambda: self._api.get(path, **query))

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:
        """Ask for a list and keep it."""
        asked = question(path, query)
        found: list[Any] = self._kept(asked, lambda: self._api.pages(path, key, **query))
        return found

    def send(self, verb: str, path: str, body: Mapping[str, Any]) -> Any:
        """Pass on."""
        return self._api.send(verb, path, body)

    def _kept(self, asked: str, ask: Callable[[], Any]) -> Any:
        try:
            self.answers[asked] = answer = ask()
        except ApiError as error:
            self.answers[asked] = {FAILED: str(error)}
            raise
        return answer
