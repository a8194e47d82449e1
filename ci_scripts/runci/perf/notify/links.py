"""Links in issues: to the page, to commits and what lies between them; only where harmless."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from runci.errors import RunciError
from runci.perf.notify.model import Issue
from runci.perf.page import words
from runci.report.markdown import code

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:/[A-Za-z0-9._~/?&=%+,;:@-]*)?")


@dataclass(frozen=True, slots=True)
class Links:
    """`repository` such as https://github.com/octo/kernels, and the report; empty: no links."""

    repository: str = ""
    page: str = ""

    def for_issue(self, issue: Issue | None) -> Links:
        """With the page that an issue links to where none is known now, as when nights are watched.

        Whoever may edit the issue may have written another: only an address is taken.
        """
        if self.page or issue is None or not _ADDRESS.fullmatch(issue.memory.page):
            return self
        return replace(self, page=issue.memory.page)

    def commit(self, commit: str | None) -> str:
        """A commit's first digits, as Markdown."""
        if not commit:
            return "not known"
        shown = code(words.short(commit))
        if not (self.repository and _COMMIT.fullmatch(commit)):
            return shown
        return f"[{shown}]({self.repository}/commit/{commit})"

    def range(self, good: str | None, bad: str | None) -> str:
        """All commits after `good` up to `bad`, as Markdown; empty where one is not known."""
        if not good or not bad:
            return ""
        shown = code(f"{words.short(good)}...{words.short(bad)}")
        if not (self.repository and _COMMIT.fullmatch(good) and _COMMIT.fullmatch(bad)):
            return shown
        return f"[{shown}]({self.repository}/compare/{good}...{bad})"

    def report(self, anchor: str = "") -> str:
        """The page, as Markdown; empty where there is none."""
        if not self.page:
            return ""
        return f"[the report of the night]({self.page}{f'#{anchor}' if anchor else ''})"


def make_links(server: str, repository: str, page: str | None) -> Links:
    """Checks what goes into links. Raises RunciError for an address of the page that is none."""
    if page and not _ADDRESS.fullmatch(page):
        raise RunciError(f"--page {page!r} is no address, such as https://octo.github.io/kernels/")
    base = f"{server.rstrip('/')}/{repository}"
    return Links(base if repository and _ADDRESS.fullmatch(base) else "", page or "")
