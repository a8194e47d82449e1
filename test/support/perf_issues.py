"""The issues of the nightly in memory, for tests of what is told and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perf_verdicts import night, worse

from runci.commands.perf_notify import decide
from runci.config.perf import Config, read_config
from runci.nightly.bisect import Searched
from runci.nightly.notify.actions import Action, Create
from runci.nightly.notify.issue import (
    MOST,
    Issue,
    Links,
    Memory,
    Now,
    Stage,
    Topic,
    compose,
    read_issue,
)
from runci.nightly.verdict import Verdict, Verdicts

CONFIG = read_config(Path(__file__).parents[1] / "perf.yml")
LINKS = Links("https://github.com/octo/kernels", "https://octo.github.io/kernels/")
KEY_OF_ONE = "0123456789abcdef"
OPEN, OVER = Stage.OPEN, Stage.OVER


@dataclass
class Repository:
    """Carries actions out on issues in memory; `tell` says what was done."""

    config: Config = CONFIG
    issues: list[Issue] = field(default_factory=list)
    titles: dict[int, str] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)

    def tell(self, verdicts: Verdicts, searched: Sequence[Searched] = ()) -> list[str]:
        """One run of notify, and that a second one finds nothing to do."""
        todo = decide(verdicts, self.issues, self.config, LINKS, searched)
        done = [self._carry_out(action) for action in todo]
        assert decide(verdicts, self.issues, self.config, LINKS, searched) == ()
        return done

    def _carry_out(self, action: Action) -> str:
        if isinstance(action, Create):
            number = len(self.issues) + 1
            self._keep(number, action.body, is_open=True)
            self.titles[number] = action.title
            return f"open #{number}"
        if action.comment:
            self.comments.setdefault(action.number, []).append(action.comment)
        before = self.at(action.number)
        assert before.is_open == action.was_open
        self.issues.remove(before)
        self._keep(action.number, action.body, is_open=action.is_open)
        verb = "edit"
        if action.is_open != action.was_open:
            verb = "reopen" if action.is_open else "close"
        return f"{verb} #{action.number}{' with a comment' if action.comment else ''}"

    def _keep(self, number: int, body: str, *, is_open: bool) -> None:
        issue = read_issue(number, body, is_open=is_open)
        assert issue is not None
        assert len(body) <= MOST
        self.issues.append(issue)

    def at(self, number: int) -> Issue:
        return next(issue for issue in self.issues if issue.number == number)

    def by_hand(self, number: int, *, is_open: bool) -> None:
        issue = self.at(number)
        self.issues[self.issues.index(issue)] = replace(issue, is_open=is_open)

    def open_ones(self) -> list[int]:
        return sorted(issue.number for issue in self.issues if issue.is_open)


def topic(now: Now, **changes: Any) -> Topic:
    usual = Topic(KEY_OF_ONE, now, night(30), "It", ("fact",), "standing", "over", "back", "news")
    return replace(usual, **{"change": 0.05, **changes})


def issue(stage: Stage, *, is_open: bool, **memory: Any) -> Issue:
    known = Memory(KEY_OF_ONE, stage, **{"night": night(29), "worst": 0.05, **memory})
    found = read_issue(5, compose(topic(Now.BAD), known, closed_by_hand=False), is_open=is_open)
    assert found is not None
    return found


def many(number: int, count: int, change: float = 0.05) -> list[Verdict]:
    return [worse(number, f"metric {n}", change) for n in range(count)]
