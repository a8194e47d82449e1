"""The block in a pull request's text that shows its PR Test workflows. Pure.

The block stands first, because what stands before it could swallow it: an open comment or block of
code. All lines that look like its marks are ours to remove, so a mark that the author wrote cannot
make the next update keep an old block, or lose a word of theirs between two marks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runci.report.markdown import escaped

BEGIN = "<!-- runci:pr-states:begin -->"
END = "<!-- runci:pr-states:end -->"
MOST = 65536  # characters that GitHub stores of a text
_MARK = re.compile(r"[ \t]*<!-- runci:pr-states:(begin|end) -->[ \t]*")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_URL = re.compile(r"https?://[A-Za-z0-9.:_/-]+")
_LONGEST = 300

_WORDS = {
    "success": "✅ passed",
    "failure": "❌ failed",
    "cancelled": "⏹️ cancelled",
    "timed_out": "❌ timed out",
    "action_required": "⏸️ waits for approval to run",
    "startup_failure": "❌ did not start",
    "skipped": "⏭️ skipped",
    "neutral": "⏭️ skipped",
    "stale": "⏭️ stale",
    "in_progress": "⏳ running",
}


@dataclass(frozen=True, slots=True)
class State:
    """The newest run of one workflow for the head commit.

    `state` is the run's conclusion, else its status; None: there is no run. `blocked` is the gate's
    reason. Both it and the names are text of others.
    """

    workflow: str
    state: str | None = None
    url: str | None = None
    blocked: str | None = None


def update(body: str, head_sha: str, states: Sequence[State]) -> str:
    """The text of the pull request with one current block; the author's words stay as they are.

    Raises ValueError when the text would be longer than GitHub takes.
    """
    ending = "\r\n" if "\r\n" in body else "\n"
    rest = without_block(body)
    lines = [*block(head_sha, states), ""]
    text = ending.join(lines) + ending + rest
    if len(text) > MOST:
        raise ValueError(f"the pull request's text leaves no room for the states ({MOST} at most)")
    return text


def without_block(body: str) -> str:
    """The author's own words: without blocks, without marks, without the blank line after them."""
    kept: list[str] = []
    opened: int | None = None
    after = False
    for line in _LINES.findall(body):
        mark = _MARK.fullmatch(line.rstrip("\r\n"))
        if mark is None:
            if not (after and not line.strip("\r\n")):
                kept.append(line)
            after = False
        elif mark[1] == "begin":
            opened, after = len(kept), False  # a mark inside a block begins it anew
        elif opened is not None:
            del kept[opened:]
            opened, after = None, True
    return "".join(kept)


def block(head_sha: str, states: Sequence[State]) -> list[str]:
    """The block's lines, marks included. It names no time, so that it changes with states only."""
    lines = [BEGIN, f"| CI for `{head_sha[:12]}` | state |", "|---|---|"]
    for state in states:
        words = _WORDS.get(state.state or "", "⏳ queued" if state.state else "not started")
        if state.blocked is not None:
            words = f"⛔ blocked: {escaped(state.blocked, _LONGEST)}"
        if state.url and _URL.fullmatch(state.url):
            words += f" ([run]({state.url}))"
        lines.append(f"| {escaped(state.workflow, _LONGEST)} | {words} |")
    return [*lines, END]
