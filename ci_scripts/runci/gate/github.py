"""GitHub's API over HTTP: time limits, bounded retries, whole lists or an error.

A gate needs to see what was answered, so answers are plain JSON, as they came.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from runci.gate.api import MOST_PAGES, PAGE, ApiError, question

SECONDS_A_REQUEST = 10
SECONDS_IN_ALL = 60.0
RETRIES = 2
# GitHub answers so for what was renamed, and asks for the same request at the new place.
REDIRECTS = (301, 302, 307, 308)
MOST_REDIRECTS = 3
# Not Response.links: that ends at a `;` within an address, and the list would seem whole.
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
        self._base = base_url.rstrip("/")
        self._timeout = timeout
        self._end = time.monotonic() + seconds
        self._session = _session(token)

    def get(self, path: str, **query: str) -> Any:
        """One object."""
        return self._ask("GET", path, query)[1]

    def pages(self, path: str, key: str | None = None, **query: str) -> list[Any]:
        """A whole list, page by page; more than MOST_PAGES of them is an error.

        A header that names no further page proves nothing about a full one: a proxy drops it.
        """
        found: list[Any] = []
        for page in range(1, MOST_PAGES + 1):
            numbers = {"per_page": str(PAGE), "page": str(page)}
            headers, answer = self._ask("GET", path, {**query, **numbers})
            items = answer.get(key) if key and isinstance(answer, dict) else answer
            if not isinstance(items, list):
                raise ApiError(f"{question(path, query)}: page {page} is no list")
            found += items
            if len(items) < PAGE and not _NEXT.search(str(headers.get("link", ""))):
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
    ) -> tuple[Mapping[str, str], Any]:
        """The headers and what the JSON says; None where a change was answered with nothing."""
        try:
            response = self._answer(verb, path, query, body)
            status = response.status_code
            # What was read must be there, not on its way (202) or somewhere else.
            if not 200 <= status < 300 or (verb == "GET" and status != 200):
                raise ApiError(f"{verb} {path}: status {status}", status)
            empty = verb != "GET" and not response.content
            return response.headers, None if empty else json.loads(response.content)
        except (RequestException, HTTPError, OSError, ValueError, RuntimeError) as error:
            raise ApiError(f"{verb} {path}: {type(error).__name__}") from error

    def _answer(self, verb: str, path: str, query: Mapping[str, str], body: Any) -> Response:
        """The answer, from where the server moved it to; never from another server."""
        url = self._base + path
        for _ in range(1 + MOST_REDIRECTS):
            if time.monotonic() > self._end:
                raise ApiError(f"{verb} {path}: the API took too long")
            response = self._session.request(
                verb, url, params=query, json=body, timeout=self._timeout, allow_redirects=False
            )
            if response.status_code not in REDIRECTS:
                return response
            url, query = urljoin(url, response.headers.get("location", "")), {}
            if urlsplit(url)[:2] != urlsplit(self._base)[:2]:
                raise ApiError(f"{verb} {path}: moved to another server", response.status_code)
        raise ApiError(f"{verb} {path}: moved too often", response.status_code)


def _session(token: str) -> Session:
    # Only reads are repeated, and never because of a rate limit, which could last an hour.
    retry = Retry(
        total=RETRIES,
        backoff_factor=0.3,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=("GET",),
        respect_retry_after_header=False,
        raise_on_status=False,
    )

    def authorize(request: PreparedRequest) -> PreparedRequest:
        if token:
            request.headers["Authorization"] = f"token {token}"
        return request

    session = Session()
    # A header alone would give way to what a .netrc file says, and without a token that is sent.
    session.auth = authorize
    session.headers["User-Agent"] = "runci"
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session
