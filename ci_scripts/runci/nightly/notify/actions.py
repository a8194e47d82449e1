"""What there is to tell of a night, compared with the issues there are: what to do; pure.

| the topic is | the issue is | and says | what is done |
|---|---|---|---|
| bad | none | | open one |
| bad | open | open | write the body; comment if it is worse |
| bad | closed, by a person | open | write the body; comment and reopen if it is worse |
| bad | open or closed | over | comment that it is back; open |
| over | open | open | comment and close |
| over | closed, by a person | open | write that it is over, without a word |
| over | open or closed | over | nothing: open again it is a person's |
| unknown | any | any | nothing |

Nothing is done either for a night before the one that the issue tells of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from runci.config.perf import Config
from runci.nightly.bisect import Searched
from runci.nightly.notify.issue import (
    Issue,
    Links,
    Memory,
    Now,
    Stage,
    Topic,
    about_topic,
    compose,
    ended,
    main_issue,
    short_digests,
    worse_comment,
)
from runci.nightly.notify.topics import Context, nights_topic, series_topics, tells
from runci.nightly.record import SeriesId
from runci.nightly.verdict import Verdicts

_EXACT = 1e-9  # 0.08 - 0.05 is a little less than 0.03


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


def decide(
    verdicts: Verdicts,
    issues: Sequence[Issue],
    config: Config,
    links: Links,
    searched: Sequence[Searched] = (),
) -> tuple[Action, ...]:
    """What to do about a night, with the issues about this configuration's history."""
    ours = _ours(issues, config)
    return actions(topics(verdicts, ours, links, config, searched), ours)


def issue_numbers(
    verdicts: Verdicts, issues: Sequence[Issue], config: Config
) -> Mapping[SeriesId, int]:
    """The open issue that tells of each series already, the oldest of several."""
    context = _context(verdicts, _ours(issues, config), Links(), config)
    found: dict[SeriesId, int] = {}
    for issue in sorted(context.issues, key=lambda issue: issue.number):
        for verdict in verdicts.verdicts if issue.memory.stage is Stage.OPEN else ():
            if tells(issue, verdict.id, context):
                found.setdefault(verdict.id, issue.number)
    return found


def topics(
    verdicts: Verdicts,
    issues: Sequence[Issue],
    links: Links,
    config: Config,
    searched: Sequence[Searched] = (),
) -> Iterable[Topic]:
    """Missing nights first, then what `series_topics` gives."""
    context = _context(verdicts, issues, links, config, searched)
    found = [nights_topic(verdicts, issues, links)]
    if verdicts.verdicts:  # of nothing nothing ends
        found += series_topics(verdicts, context)
    return (replace(topic, history=config.branch) for topic in found)


def _ours(issues: Sequence[Issue], config: Config) -> Sequence[Issue]:
    return [issue for issue in issues if issue.memory.history in ("", config.branch)]


def _context(
    verdicts: Verdicts,
    issues: Sequence[Issue],
    links: Links,
    config: Config,
    searched: Sequence[Searched] = (),
) -> Context:
    heirs = {one.heir for one in verdicts.ended if one.heir is not None}
    return Context(
        issues,
        links,
        verdicts.suites,
        config.renames,
        config.rule.min_change,
        searched,
        {heir: tuple(o.id for o in verdicts.ended if o.heir == heir) for heir in heirs},
    )


def actions(topics: Iterable[Topic], issues: Sequence[Issue]) -> tuple[Action, ...]:
    """What to do, changes of issues first; nothing where every issue is right as it is."""
    changes: list[Action] = []
    created: list[Action] = []
    for topic in topics:
        issue = main_issue(issues, topic.key, topic.aliases)
        if issue is not None:
            changes += _duplicates(topic, issue, issues)
        found = _one(topic, issue)
        if isinstance(found, Create):
            created.append(found)
        elif found is not None:
            changes.append(found)
    return (*changes, *created)


def _duplicates(topic: Topic, oldest: Issue, issues: Sequence[Issue]) -> list[Action]:
    """Two nights at once may open two issues. One that a person reopened stays open."""
    return [
        Change(
            issue.number,
            f"a duplicate of #{oldest.number}",
            ended(
                issue.body,
                replace(issue.memory, stage=Stage.DUPLICATE),
                f"**A duplicate of #{oldest.number}**, which goes on.",
            ),
            is_open=False,
            comment=f"A duplicate of #{oldest.number}, which is older and goes on.",
            done=False,
        )
        for issue in about_topic(issues, topic.key, topic.aliases)
        if issue.number > oldest.number and issue.is_open
        if issue.memory.stage is not Stage.DUPLICATE
    ]


def _one(topic: Topic, issue: Issue | None) -> Action | None:
    if topic.now is Now.UNKNOWN or (issue and topic.night < issue.memory.night):
        return None
    if topic.now is Now.BAD:
        if issue is None:
            return Create(topic.title, compose(topic, _told(topic), closed_by_hand=False))
        return _changed(issue, _bad(topic, issue))
    if issue is None or issue.memory.stage is Stage.OVER:
        return None
    return _changed(issue, _over(topic, issue))


def _bad(topic: Topic, issue: Issue) -> Change:
    before = issue.memory
    if before.stage is Stage.OVER:
        body = compose(topic, _told(topic), closed_by_hand=False)
        return Change(issue.number, "it is back", body, True, topic.back, issue.is_open)
    told = _told(topic)
    told = replace(told, bisected=told.bisected or before.bisected)
    comment = _news(topic, before)
    if comment:
        body = compose(topic, told, closed_by_hand=False)
        return Change(issue.number, "it is worse", body, True, comment, issue.is_open)
    worst = topic.change if before.worst is None else before.worst
    body = compose(topic, replace(told, worst=worst), closed_by_hand=not issue.is_open)
    if told.bisected != before.bisected:
        what, said = "a bisection ended", topic.bisected
        return Change(issue.number, what, body, issue.is_open, said, issue.is_open)
    what = "it is still so" if issue.is_open else "still so, but closed by hand"
    return Change(issue.number, what, body, issue.is_open, was_open=issue.is_open)


def _over(topic: Topic, issue: Issue) -> Change:
    memory = replace(_told(topic), stage=Stage.OVER, worst=None)
    body = ended(issue.body, memory, topic.over)
    comment = topic.over if issue.is_open else ""
    return Change(issue.number, "it is over", body, False, comment, issue.is_open)


def _told(topic: Topic) -> Memory:
    """What an issue remembers that tells all of the topic as it is now."""
    return Memory(
        key=topic.key,
        stage=Stage.OPEN,
        night=topic.night,
        worst=topic.change,
        members=tuple(sorted(topic.members)),
        until=topic.until,
        page=topic.page,
        history=topic.history,
        culprit=topic.culprit,
        bisected=short_digests([topic.bisected])[0] if topic.bisected else "",
    )


def _news(topic: Topic, before: Memory) -> str:
    """The comment on what got worse since it was last told; empty without any."""
    if set(topic.members) - set(before.members):
        return topic.news
    if topic.change is None or before.worst is None:
        return ""
    if topic.change - before.worst < topic.min_change - _EXACT:
        return ""
    return worse_comment(topic, before.worst)


def _changed(issue: Issue, change: Change) -> Change | None:
    same = change.body == issue.body and change.is_open == issue.is_open
    return None if same and not change.comment else change
