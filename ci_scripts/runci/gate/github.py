"""GitHub's API through PyGithub: time limits, bounded retries, whole lists or an error.

PyGithub's objects fill in what is missing with None and fetch more behind one's back; a gate needs
to see what was answered, so this uses its connection and reads plain JSON.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from github import Auth, Github, GithubException
from requests.exceptions import RequestException
from urllib3.util import Retry

from runci.gate.api import MOST_PAGES, PAGE, ApiError, question

SECONDS_A_REQUEST = 10
SECONDS_IN_ALL = 60.0
RETRIES = 2
_NEXT = re.compile(r'rel="next"')


class GitHubApi:
    """The live API. Never waits longer than `seconds` in all, rate limits included."""

    def __init__(
        self,
        token: str,
        base_url: str,
        *,
        timeout: int = SECONDS_A_REQUEST,
        seconds: float = SECONDS_IN_ALL,
    ) -> None:
        # Only reads are repeated, and never because of a rate limit, which could last an hour.
        retry = Retry(
            total=RETRIES,
            backoff_factor=0.3,
            status_forcelist=(500, 502, 503, 504),
            allowed_methods=("GET",),
            respect_retry_after_header=False,
            raise_on_status=False,
        )
        self._requester = Github(
            auth=Auth.Token(token) if token else None,
            base_url=base_url.rstrip("/"),
            timeout=timeout,
            retry=retry,
            user_agent="runci",
            seconds_between_requests=None,
            seconds_between_writes=None,
        ).requester
        self._end = time.monotonic() + seconds

    def get(self, path: str, **query: str) -> Any:
        """One object."""
        return self._ask("GET", path, query)[1]

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:
        """A whole list, page by page; more than MOST_PAGES of them is an error."""
        found: list[Any] = []
        for page in range(1, MOST_PAGES + 1):
            numbers = {"per_page": str(PAGE), "page": str(page)}
            headers, answer = self._ask("GET", path, {**query, **numbers})
            items = answer.get(key) if key and isinstance(answer, dict) else answer
            if not isinstance(items, list):
                raise ApiError(f"{question(path, query)}: page {page} is no list")
            found += items
            if not _NEXT.search(str(headers.get("link", ""))):
                self._whole(path, found, answer, key)
                return found
        raise ApiError(f"{question(path, query)}: more than {MOST_PAGES} pages")

    def send(self, verb: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something, once."""
        return self._ask(verb, path, {}, dict(body))[1]

    @staticmethod
    def _whole(path: str, found: list[Any], last: Any, key: str | None) -> None:
        if key is None:
            return
        total = last.get("total_count")
        if total != len(found):
            raise ApiError(f"GET {path}: {len(found)} of {total} listed")

    def _ask(
        self, verb: str, path: str, query: Mapping[str, str], body: Any = None
    ) -> tuple[dict[str, Any], Any]:
        if time.monotonic() > self._end:
            raise ApiError(f"{verb} {path}: the API took too long")
        try:
            return self._requester.requestJsonAndCheck(
                verb, path, parameters=dict(query) or None, input=body
            )
        except GithubException as error:
            raise ApiError(f"{verb} {path}: status {error.status}", error.status) from error
        except (RequestException, OSError, ValueError, RuntimeError) as error:
            raise ApiError(f"{verb} {path}: {type(error).__name__}") from error
