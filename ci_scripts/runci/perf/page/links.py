"""Links of the page: a text, and an address only where it is known and harmless."""

from __future__ import annotations

from dataclasses import dataclass

from runci.perf.page import words


@dataclass(frozen=True, slots=True)
class Link:
    """`url` is None for plain text."""

    text: str
    url: str | None = None


def commit_link(run_url: str, commit: str | None, since: str | None = None) -> Link:
    """A commit by its first nine characters; `since` links to all commits after that one."""
    return Link(words.short(commit), words.commit_url(run_url, commit, since))


def run_link(run_url: str, run_id: str) -> Link:
    """A run of the nightly."""
    return Link(f"run {run_id}" if run_id else words.NONE, words.safe_url(run_url))
