"""An issue's text: its mark, how it stands, the evidence and its links; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from runci.core.errors import RunciError
from runci.nightly.notify.model import Issue, Memory, Stage, Topic
from runci.nightly.page import words
from runci.text.markdown import code

MOST = 65_536  # characters that GitHub stores of a text
_MARK = re.compile(r"<!-- runci:perf-issue ([0-9a-f]{16}) (.*)-->")
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


def key_of(*parts: str) -> str:
    """A topic's key. A series has its digest instead."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def mark(memory: Memory) -> str:
    """The line; nothing in it can end the comment."""
    data = msgspec.json.encode(memory, order="sorted").decode()
    return f"<!-- runci:perf-issue {memory.key} {data.replace('>', chr(92) + 'u003e')} -->"


def read_issue(number: int, body: str, *, is_open: bool) -> Issue | None:
    """An issue that our account wrote; None without our mark, on a line of its own.

    Whoever may edit the issue may write above it, and can spoil the rest of the line; then it
    remembers only its topic.
    """
    text = re.sub(r"\r\n?", "\n", body).strip()
    found = _marked(text)
    if found is None:
        return None
    try:
        memory = msgspec.json.decode(found[2], type=Memory)
    except (msgspec.DecodeError, RecursionError):
        memory = Memory("", Stage.OPEN)
    if memory.key != found[1]:
        memory = Memory(found[1], Stage.OPEN if is_open else Stage.OVER)
    return Issue(number, is_open, text, memory)


def _marked(text: str) -> re.Match[str] | None:
    """The first line that is our mark; one within a block of code is a quotation."""
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (found := _MARK.fullmatch(line.strip())):
            return found
    return None


def short_digests(names: Iterable[str]) -> tuple[str, ...]:
    """What `Memory.members` keeps of names, sorted."""
    return tuple(sorted({hashlib.sha256(name.encode()).hexdigest()[:12] for name in names}))


def compose(topic: Topic, memory: Memory, *, closed_by_hand: bool) -> str:
    """The whole body. Evidence that would not fit is cut at the end of a paragraph."""
    standing = topic.standing
    if closed_by_hand:
        standing = f"**Closed by hand, and not over.** {standing}"
    parts = [mark(memory), standing, *topic.facts]
    rules = f"---\n\n{_rules(topic)}"
    left_out = "(More does not fit here.)"
    room = MOST - len(rules) - len(left_out) - 4
    while len(parts) > 3 and len("\n\n".join(parts)) > room:
        parts = [*parts[:-2], left_out] if parts[-1] == left_out else [*parts[:-1], left_out]
    return "\n\n".join([*parts, rules])


def ended(body: str, memory: Memory, over: str) -> str:
    """The body as it was, with another mark and, after it, another paragraph."""
    found = _marked(body)
    above, _, below = body.partition(found[0]) if found else ("", "", body)
    _, _, evidence = below.strip().partition("\n\n")
    parts = (above.strip(), mark(memory), over, evidence)
    return "\n\n".join(part for part in parts if part)


def worse_comment(topic: Topic, before: float | None) -> str:
    """By how much it got worse since it was last told."""
    return (
        f"**Worse:** {words.change(topic.change)} on {topic.night}, after {words.change(before)} "
        "when this was last told."
    )


def _rules(topic: Topic) -> str:
    """When this issue changes, for whoever reads it."""
    more = "more of it"
    if topic.change is not None:
        more = f"worse by another {words.percent(topic.min_change)}"
    return (
        "`runci perf notify` rewrites this text every night. It comments only when somebody should "
        f"know: {more}, over, or back. It closes this issue when it is over, and reopens it when "
        f"it is back. Closed by hand, it stays closed until it is {more}, or back; that accepts "
        "nothing."
    )
