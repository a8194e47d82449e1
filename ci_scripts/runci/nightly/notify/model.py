"""What stages of `runci perf notify` hand on: issues as they are, topics, and what to do."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


class Stage(str, enum.Enum):
    """What an issue says of its topic."""

    OPEN = "open"
    OVER = "over"
    DUPLICATE = "duplicate"  # of an older issue, which goes on


@dataclass(frozen=True, slots=True)
class Memory:
    """What an issue remembers from night to night, in its mark.

    `night` is the newest one told of. `worst` is the largest change told of (relative, above 0 is
    worse), `members` are digests of what it was opened for or commented on, `until` is the newest
    missing night told of, `page` the report that it links to, `history` the branch that it is
    about: two nightlies of one repository leave each other's issues alone. `culprit` is the commit
    that a bisection found, `bisected` the digest of what was said of the last one.
    """

    key: str
    stage: Stage
    night: str = ""
    worst: float | None = None
    members: tuple[str, ...] = ()
    until: str = ""
    page: str = ""
    history: str = ""
    culprit: str = ""
    bisected: str = ""


@dataclass(frozen=True, slots=True)
class Issue:
    """One of our issues; `body` has newlines only as `\\n`, and no space around it."""

    number: int
    is_open: bool
    body: str
    memory: Memory


class Now(enum.Enum):
    """What the verdicts say of a topic. UNKNOWN: nothing that would change an issue."""

    BAD = "bad"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that an issue can be about; texts are Markdown, `title` is plain.

    `aliases` are the keys of its former names. `facts` are the body's paragraphs, `standing` its
    sentence about how long this has lasted, `over` the comment that closes it. `news` is what was
    added to `members`. `min_change` is how much more of `change` is worth a comment.
    `culprit` is the commit that a bisection found, `bisected` what is said of one of this run.
    """

    key: str
    now: Now
    night: str
    title: str = ""
    facts: tuple[str, ...] = ()
    standing: str = ""
    over: str = ""
    back: str = ""
    news: str = ""
    change: float | None = None
    min_change: float = 0.03
    members: tuple[str, ...] = ()
    until: str = ""
    page: str = ""
    history: str = ""
    aliases: tuple[str, ...] = ()
    culprit: str = ""
    bisected: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Open an issue."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Change:
    """Comment on an issue, where `comment` is not empty; then write its body, open or closed.

    `what` is the reason, for a person.
    """

    number: int
    what: str
    body: str
    is_open: bool
    comment: str = ""
    was_open: bool = True
    done: bool = True  # closed because it is over, and not as a duplicate


Action: TypeAlias = Create | Change


def main_issue(issues: Sequence[Issue], key: str, aliases: Sequence[str] = ()) -> Issue | None:
    """The topic's oldest issue that is no duplicate."""
    ours = [i for i in about_topic(issues, key, aliases) if i.memory.stage is not Stage.DUPLICATE]
    return min(ours, key=lambda issue: issue.number, default=None)


def about_topic(issues: Sequence[Issue], key: str, aliases: Sequence[str]) -> list[Issue]:
    """Every issue about a topic."""
    return [issue for issue in issues if issue.memory.key in (key, *aliases)]
