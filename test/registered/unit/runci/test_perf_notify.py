"""What the nightly's issues say and when: every decision, without a network."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from perf_verdicts import (
    BAD,
    BENCHMARK,
    GOOD,
    GPU,
    night,
    of_night,
    recovered,
    series,
    steady,
    suite,
    unmeasured,
    worse,
)

from runci import register_cpu_ci
from runci.cli import parser
from runci.errors import RunciError
from runci.perf.config import Config, read_config
from runci.perf.metric import anchor
from runci.perf.notify.actions import actions
from runci.perf.notify.body import MOST, compose, ended
from runci.perf.notify.command import decide
from runci.perf.notify.links import Links, make_links
from runci.perf.notify.marks import key_of, mark, read_issue
from runci.perf.notify.model import Action, Change, Create, Issue, Memory, Now, Stage, Topic
from runci.perf.notify.nights import KEY, stretch
from runci.perf.notify.series import MOST_NEW, machine_key, now_of
from runci.perf.verdict import Confirmed, Status, Verdict, Verdicts
from runci.report.markdown import block, code, escaped

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
CONFIG = read_config(ROOT / "test" / "perf.yml")
LINKS = Links("https://github.com/octo/kernels", "https://octo.github.io/kernels/")
KEY_OF_ONE = "0123456789abcdef"


@dataclass
class Repository:
    """Carries actions out on issues in memory; `log` has what was done since it was last asked."""

    config: Config = CONFIG
    issues: list[Issue] = field(default_factory=list)
    titles: dict[int, str] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)

    def tell(self, verdicts: Verdicts) -> list[str]:
        """One run of notify, and that a second one finds nothing to do."""
        todo = decide(verdicts, self.issues, self.config, LINKS)
        done = [self._carry_out(action) for action in todo]
        assert decide(verdicts, self.issues, self.config, LINKS) == ()
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


# One topic and one issue: the table of `actions`.


def topic(now: Now, **changes: Any) -> Topic:
    usual = Topic(KEY_OF_ONE, now, night(30), "It", ("fact",), "standing", "over", "back", "news")
    return replace(usual, **{"change": 0.05, **changes})


def issue(stage: Stage, *, is_open: bool, **memory: Any) -> Issue:
    known = Memory(KEY_OF_ONE, stage, **{"night": night(29), "worst": 0.05, **memory})
    found = read_issue(5, compose(topic(Now.BAD), known, closed_by_hand=False), is_open=is_open)
    assert found is not None
    return found


OPEN, OVER = Stage.OPEN, Stage.OVER
TABLE = [
    # now, change; issue: None or (says, is open) → is open, comment; None: nothing
    (Now.BAD, 0.05, None, "create"),
    (Now.BAD, 0.05, (OPEN, True), (True, "")),
    (Now.BAD, 0.079, (OPEN, True), (True, "")),
    (Now.BAD, 0.08, (OPEN, True), (True, "Worse")),
    (Now.BAD, 0.01, (OPEN, True), (True, "")),
    (Now.BAD, 0.05, (OPEN, False), (False, "")),
    (Now.BAD, 0.08, (OPEN, False), (True, "Worse")),
    (Now.BAD, 0.05, (OVER, False), (True, "back")),
    (Now.BAD, 0.05, (OVER, True), (True, "back")),
    (Now.OVER, 0.0, None, None),
    (Now.OVER, 0.0, (OPEN, True), (False, "over")),
    (Now.OVER, 0.0, (OPEN, False), (False, "")),
    (Now.OVER, 0.0, (OVER, True), None),
    (Now.OVER, 0.0, (OVER, False), None),
    (Now.UNKNOWN, 0.09, None, None),
    (Now.UNKNOWN, 0.09, (OPEN, True), None),
    (Now.UNKNOWN, 0.09, (OPEN, False), None),
    (Now.UNKNOWN, 0.09, (OVER, False), None),
]


@pytest.mark.parametrize(("now", "change", "there", "expected"), TABLE)
def test_what_is_done_about_one_topic(
    now: Now, change: float, there: tuple[Stage, bool] | None, expected: Any
) -> None:
    issues = [issue(there[0], is_open=there[1])] if there else []
    done = actions([topic(now, change=change)], issues)
    if expected is None:
        assert done == ()
    elif expected == "create":
        (created,) = done
        assert isinstance(created, Create)
    else:
        (changed,) = done
        assert isinstance(changed, Change)
        assert (changed.is_open, bool(changed.comment)) == (expected[0], bool(expected[1]))
        assert expected[1] in changed.comment
        after = read_issue(5, changed.body, is_open=changed.is_open)
        assert after is not None
        assert after.memory.stage is (OVER if now is Now.OVER else OPEN)
        assert actions([topic(now, change=change)], [after]) == ()


def test_an_earlier_night_changes_nothing() -> None:
    late = issue(OPEN, is_open=True, night=night(31))
    assert actions([topic(Now.BAD, change=0.5)], [late]) == ()
    assert actions([topic(Now.OVER)], [late]) == ()


def test_small_steps_add_up_to_one_that_is_told() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20, change=0.05)))
    for number, change in ((21, 0.06), (22, 0.07), (23, 0.079)):
        assert repository.tell(of_night(number, worse(number, change=change))) == ["edit #1"]
    assert repository.tell(of_night(24, worse(24, change=0.081))) == ["edit #1 with a comment"]
    assert "8.1 % worse" in repository.comments[1][0]
    assert "5.0 % worse" in repository.comments[1][0]
    # Better again and as bad as before is nothing that was not told.
    for number, change in ((25, 0.04), (26, 0.081), (27, 0.11)):
        assert repository.tell(of_night(number, worse(number, change=change))) == ["edit #1"]


def test_exactly_min_change_more_is_worse() -> None:
    """Though 0.29 - 0.26 is a little less than 0.03."""
    repository = Repository()
    repository.tell(of_night(20, worse(20, change=0.26)))
    assert repository.tell(of_night(21, worse(21, change=0.29))) == ["edit #1 with a comment"]


def test_a_change_that_lost_its_memory_is_told_from_now_on() -> None:
    spoiled = issue(OPEN, is_open=True, worst=None)
    (change,) = actions([topic(Now.BAD, change=0.07)], [spoiled])
    assert isinstance(change, Change)
    assert not change.comment
    after = read_issue(5, change.body, is_open=True)
    assert after is not None
    assert after.memory.worst == 0.07


# What a verdict says.

STATUSES = [
    (worse(20), Now.BAD),
    (worse(20, confirmed_by=Confirmed.PAIRED), Now.BAD),
    (worse(20, confirmed_by=Confirmed.BASELINE), Now.BAD),
    (worse(20, confirmed_by=Confirmed.NOT_YET), Now.UNKNOWN),
    (worse(20, confirmed_by=Confirmed.NOT_YET, accepted=True), Now.UNKNOWN),
    (recovered(20), Now.OVER),
    (steady(20), Now.OVER),
    (steady(20, watch=True), Now.UNKNOWN),
    (steady(20, status=Status.IMPROVEMENT), Now.OVER),
    (steady(20, status=Status.NOISY), Now.UNKNOWN),
    (steady(20, status=Status.TOO_LITTLE), Now.UNKNOWN),
    (steady(20, status=Status.TOO_LITTLE, accepted=True), Now.OVER),
    (steady(20, status=Status.NOISY, accepted=True), Now.OVER),
    (unmeasured(20), Now.UNKNOWN),
]


@pytest.mark.parametrize(("verdict", "now"), STATUSES)
def test_only_what_is_sure_opens_or_closes(verdict: Verdict, now: Now) -> None:
    assert now_of(verdict) is now


def test_every_status_is_in_the_table() -> None:
    assert {verdict.status for verdict, _ in STATUSES} == set(Status)
    assert {verdict.confirmed_by for verdict, _ in STATUSES} >= set(Confirmed) - {Confirmed.EXACT}


# One series over many nights.


def test_the_life_of_an_issue() -> None:
    repository = Repository()
    assert repository.tell(of_night(19, steady(19, watch=True))) == []
    assert repository.tell(of_night(20, worse(20))) == ["open #1"]
    assert repository.tell(of_night(21, worse(21))) == ["edit #1"]
    assert "Still open on 2026-12-21, 2 nights" in repository.at(1).body
    assert repository.tell(of_night(22, steady(22, status=Status.NOISY))) == []
    assert repository.tell(of_night(23, recovered(23))) == ["close #1 with a comment"]
    assert repository.tell(of_night(24, recovered(24))) == []
    assert "**Recovered:** `M=4 warm`" in repository.comments[1][-1]
    assert repository.tell(of_night(25, steady(25))) == []
    assert repository.tell(of_night(40, worse(40, since=39))) == ["reopen #1 with a comment"]
    assert "It is back" in repository.comments[1][-1]
    accepted = steady(41, accepted=True, status=Status.TOO_LITTLE)
    assert repository.tell(of_night(41, accepted)) == ["close #1 with a comment"]
    assert "**Accepted:**" in repository.comments[1][-1]
    assert repository.tell(of_night(42, steady(42, accepted=True))) == []


def test_a_closed_issue_keeps_its_evidence() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    evidence = repository.at(1).body.split("\n\n", 2)[2]
    repository.tell(of_night(23, recovered(23)))
    assert repository.at(1).body.split("\n\n", 2)[2] == evidence


def test_an_issue_closed_by_hand_stays_closed() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    repository.by_hand(1, is_open=False)
    assert repository.tell(of_night(21, worse(21))) == ["edit #1"]
    assert "Closed by hand" in repository.at(1).body
    assert repository.tell(of_night(22, worse(22, change=0.07))) == ["edit #1"]
    assert repository.open_ones() == []
    assert repository.tell(of_night(23, worse(23, change=0.09))) == ["reopen #1 with a comment"]
    assert "Closed by hand" not in repository.at(1).body.split("---")[0].replace("---", "")[:400]


def test_an_issue_closed_by_hand_opens_when_the_regression_comes_back() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    repository.by_hand(1, is_open=False)
    assert repository.tell(of_night(23, recovered(23))) == ["edit #1"]
    assert repository.comments == {}
    assert repository.tell(of_night(30, worse(30, since=29))) == ["reopen #1 with a comment"]


def test_an_issue_that_a_person_reopened_stays_open() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    repository.tell(of_night(23, recovered(23)))
    repository.by_hand(1, is_open=True)
    assert repository.tell(of_night(24, steady(24))) == []
    assert repository.open_ones() == [1]


def test_two_metrics_and_two_machines_have_issues_of_their_own() -> None:
    other = worse(20, id=series(gpu="NVIDIA RTX PRO 6000"))
    repository = Repository()
    done = repository.tell(of_night(20, worse(20), worse(20, "M=8 warm"), other))
    assert done == ["open #1", "open #2", "open #3"]
    assert len({issue.memory.key for issue in repository.issues}) == 3


def test_a_night_without_figures_leaves_the_evidence_alone() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20), steady(20, "M=8 warm")))
    bare = worse(21, value=None, level=None, reason="worse; tonight: no run")
    assert repository.tell(of_night(21, bare, steady(21, "M=8 warm"))) == []


def test_a_regression_told_late_is_told() -> None:
    """The night that confirmed it could not reach GitHub, and then the machine died."""
    bare = worse(21, value=None, level=None)
    assert Repository().tell(of_night(21, bare, steady(21, "M=8 warm"))) == ["open #1"]


def test_a_series_that_ended_closes_its_issue() -> None:
    """`runci perf accept` ends what is measured no longer; then it has no verdict at all."""
    repository = Repository()
    repository.tell(of_night(20, worse(20, "gone"), steady(20)))
    repository.tell(of_night(21, *many(21, 11)))
    assert repository.open_ones() == [2]
    assert "**Ended:**" in repository.comments[1][0]
    other = steady(22, id=series(gpu="NVIDIA H200"))
    assert repository.tell(of_night(22, other)) == ["close #2 with a comment"]
    assert repository.tell(of_night(23, worse(23, "gone"))) == ["reopen #1 with a comment"]


def test_verdicts_of_nothing_end_nothing() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    assert repository.tell(of_night(21, missing=[21])) == ["open #2"]


def test_two_nightlies_leave_each_others_issues_alone() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20), missing=[19]))
    repository.config = replace(CONFIG, branch="perf-history-h200")
    other = series(gpu="NVIDIA H200")
    assert repository.tell(of_night(21, steady(21, id=other))) == []
    assert repository.tell(of_night(22, worse(22, id=other), missing=[21])) == [
        "open #3",
        "open #4",
    ]
    repository.config = CONFIG
    assert repository.tell(of_night(23, worse(23), missing=[19])) == [
        "close #1 with a comment",
        "edit #2",
    ]


# Tests that fail.


def test_a_failed_suite_lists_its_tests() -> None:
    repository = Repository()
    verdict, tests = suite(20, "test/a.py::test_x", "test/a.py::test_y[@bob `|`]")
    assert repository.tell(of_night(20, verdict, suites=[tests])) == ["open #1"]
    body = repository.at(1).body
    assert "- `test/a.py::test_x`\n" in body
    assert "- ``test/a.py::test_y[@bob `|`]``\n" in body
    assert f"git checkout {BAD}\n" in body
    assert "runci run --suite nightly-kernel-1-gpu-small\n" in body
    assert "runci perf measure" not in body
    assert "driver" not in body
    assert "| confirmed by | nothing more: one failure is enough |" in body
    assert "know: more of it, over, or back" in body


def test_another_failed_test_is_news_once() -> None:
    repository = Repository()

    def tell(number: int, *failures: str) -> list[str]:
        verdict, tests = suite(number, *failures)
        return repository.tell(of_night(number, verdict, suites=[tests]))

    assert tell(20, "a::x") == ["open #1"]
    assert tell(21, "a::x") == ["edit #1"]
    assert tell(22, "a::x", "a::y") == ["edit #1 with a comment"]
    assert "a::y" in repository.comments[1][0]
    assert tell(23, "a::x") == ["edit #1"]
    assert tell(24, "a::x", "a::y") == ["edit #1"]
    assert tell(25) == ["close #1 with a comment"]


def test_a_suite_that_did_not_run_leaves_its_issue_alone() -> None:
    repository = Repository()
    verdict, tests = suite(20, "a::x")
    repository.tell(of_night(20, verdict, suites=[tests]))
    assert repository.tell(of_night(21, replace(verdict, night=night(21)))) == []


# Many at once.


def many(number: int, count: int, change: float = 0.05) -> list[Verdict]:
    return [worse(number, f"metric {n}", change) for n in range(count)]


def test_ten_at_once_are_ten_issues() -> None:
    assert len(Repository().tell(of_night(20, *many(20, MOST_NEW)))) == MOST_NEW == 10


def test_more_at_once_are_one_issue() -> None:
    repository = Repository()
    assert repository.tell(of_night(20, *many(20, 43))) == ["open #1"]
    body = repository.at(1).body
    assert all(f"`metric {n}`" in body for n in range(43))
    assert GPU in repository.titles[1]
    assert repository.tell(of_night(21, *many(21, 43))) == ["edit #1"]
    # Most recover: the rest needs no new issues, it was told.
    some = [*many(22, 3), *(recovered(22, f"metric {n}") for n in range(3, 43))]
    assert repository.tell(of_night(22, *some)) == ["edit #1"]
    assert "`metric 3`" not in repository.at(1).body
    # One that had recovered comes back: alone it gets an issue of its own.
    again = [*many(23, 3), worse(23, "metric 7")]
    assert repository.tell(of_night(23, *again)) == ["edit #1", "open #2"]
    over = [recovered(24, f"metric {n}") for n in range(43)]
    assert repository.tell(of_night(24, *over)) == [
        "close #1 with a comment",
        "close #2 with a comment",
    ]
    assert repository.tell(of_night(30, *many(30, 20))) == ["reopen #1 with a comment"]


def test_many_at_once_begin_with_what_they_share() -> None:
    same = [replace(verdict, since_commit="c" * 40) for verdict in many(20, 11)]
    other = [replace(same[0], since_commit="d" * 40), *same[1:]]
    bodies = []
    for verdicts in (same, other):
        repository = Repository()
        repository.tell(of_night(20, *verdicts))
        bodies.append(repository.at(1).body)
    assert "Begin with the commit that they share" in bodies[0]
    assert "Begin with the machine" in bodies[1]


def test_those_that_have_an_issue_are_not_counted_again() -> None:
    repository = Repository()
    repository.tell(of_night(20, *many(20, 8)))
    done = repository.tell(of_night(21, *many(21, 18)))
    assert [step for step in done if step.startswith("open")] == [
        f"open #{n}" for n in range(9, 19)
    ]
    assert repository.tell(of_night(22, *many(22, 29))).count("open #19") == 1
    assert len(repository.issues) == 19
    assert repository.at(19).memory.key == machine_key(series().machine_key)


def test_each_machine_is_counted_alone() -> None:
    other = [replace(v, id=replace(v.id, gpu="NVIDIA H200")) for v in many(20, 8)]
    assert len(Repository().tell(of_night(20, *many(20, 8), *other))) == 16


def test_more_in_a_later_night_join_the_machines_issue_with_a_comment() -> None:
    repository = Repository()
    repository.tell(of_night(20, *many(20, 11)))
    repository.by_hand(1, is_open=False)
    assert repository.tell(of_night(21, *many(21, 15)))[0] == "edit #1"
    assert len(repository.issues) == 5
    assert repository.tell(of_night(22, *many(22, 30))) == [
        "reopen #1 with a comment",
        *(f"edit #{n}" for n in range(2, 6)),
    ]


def test_a_noisy_night_does_not_end_the_machines_issue() -> None:
    repository = Repository()
    repository.tell(of_night(20, *many(20, 11)))
    noisy = [steady(21, f"metric {n}", status=Status.NOISY) for n in range(11)]
    assert repository.tell(of_night(21, *noisy)) == []
    some = [*noisy[:4], *many(21, 11)[4:]]
    assert repository.tell(of_night(21, *some)) == ["edit #1"]
    assert repository.tell(of_night(22, *many(22, 11))) == ["edit #1"]


# Nights that are missing. Of each night the nightly tells, and at noon the watch, which decides as
# of the newest night that ran or should have.


def test_one_missing_night_is_told_and_over_when_the_next_one_ran() -> None:
    """It is not due yet when the next one runs, but that one finds that it was left out."""
    repository = Repository()
    assert repository.tell(of_night(9, steady(9))) == []
    gap = of_night(11, steady(11), missing=[10])
    assert repository.tell(gap) == ["open #1"]
    assert repository.at(1).memory.key == KEY
    assert repository.titles[1] == "Nightly: nights are missing"
    assert "- `2026-12-10`\n" in repository.at(1).body
    assert repository.tell(of_night(12, steady(12), missing=[10])) == ["close #1 with a comment"]
    assert repository.tell(of_night(13, steady(13), missing=[10])) == []


def test_a_dead_machine_is_one_issue_however_long() -> None:
    repository = Repository()
    assert repository.tell(of_night(10, unmeasured(10), missing=[10])) == ["open #1"]
    for last in range(11, 60):
        nights = range(max(10, last - 29), last + 1)  # a month is listed
        there = of_night(last, unmeasured(last), missing=nights)
        assert repository.tell(there) == ["edit #1"]
    assert "30 nights, `2026-12-30` to `2027-01-28`" in repository.at(1).body
    # The night before the one that ran was not told of yet: no news, for it is over.
    back = of_night(61, steady(61), missing=range(32, 61))
    assert repository.tell(back) == ["close #1 with a comment"]
    assert "`2027-01-01` to `2027-01-29`" in repository.comments[1][0]
    assert repository.tell(of_night(62, steady(62), missing=range(33, 61))) == []
    later = of_night(70, unmeasured(70), missing=[*range(41, 61), 70])
    assert repository.tell(later) == ["reopen #1 with a comment"]
    assert "1 night, `2027-02-08`" in repository.comments[1][1]


def test_a_second_run_of_the_night_that_measures_ends_it() -> None:
    repository = Repository()
    assert repository.tell(of_night(20, unmeasured(20), missing=[20])) == ["open #1"]
    assert repository.tell(of_night(20, steady(20))) == ["close #1 with a comment"]
    again = Repository()
    assert again.tell(of_night(20, unmeasured(20), missing=[10, 20])) == ["open #1"]
    assert again.tell(of_night(20, steady(20), missing=[10])) == ["close #1 with a comment"]


def test_a_run_that_measured_nothing_is_a_missing_night() -> None:
    """The tests of the night ran, and its machine was in use."""
    verdict, tests = suite(20)
    repository = Repository()
    dead = of_night(20, unmeasured(20), verdict, missing=[20], suites=[tests])
    assert repository.tell(dead) == ["open #1"]
    assert repository.tell(of_night(21, steady(21), missing=[20])) == ["close #1 with a comment"]


def test_the_watch_needs_no_record() -> None:
    """No history but the nights: verdicts with nothing but what is missing."""
    repository = Repository()
    assert repository.tell(of_night(1, missing=[1])) == ["open #1"]
    assert repository.tell(of_night(2, missing=[1, 2])) == ["edit #1"]
    assert repository.comments == {}
    # Tests without any metric end nothing.
    assert repository.tell(of_night(3, missing=[1, 2], suites=[suite(3)[1]])) == []


def test_a_night_whose_figures_cannot_be_used_is_told_with_the_reason() -> None:
    """It ran and its tests passed, and yet no metric has a value."""
    repository = Repository()
    verdict, tests = suite(20)
    useless = unmeasured(20, reason="a negative time"), verdict
    assert repository.tell(of_night(20, *useless, suites=[tests])) == ["open #1"]
    assert "580/sm120_ba_gemm/1): a negative time`" in repository.at(1).body


def test_a_night_that_is_dead_in_part_keeps_its_evidence() -> None:
    """An open regression without figures on a night that is missing."""
    repository = Repository()
    repository.tell(of_night(19, worse(19, since=18)))
    bare = worse(20, since=18, value=None)
    assert repository.tell(of_night(20, bare, missing=[20])) == ["open #2"]


def test_an_issue_about_nights_closed_by_hand_stays_so_until_it_ran() -> None:
    repository = Repository()
    repository.tell(of_night(10, missing=[10]))
    repository.by_hand(1, is_open=False)
    assert repository.tell(of_night(11, missing=[10, 11])) == ["edit #1"]
    assert repository.tell(of_night(13, steady(13), missing=[10, 11, 12])) == ["edit #1"]
    assert repository.comments == {}
    again = of_night(15, missing=[10, 11, 12, 15])
    assert repository.tell(again) == ["reopen #1 with a comment"]


def test_a_metric_that_disappears_is_told_with_the_nights() -> None:
    repository = Repository()
    gone = [steady(20), unmeasured(20, "M=8 warm", reason="not in the record")]
    assert repository.tell(of_night(20, *gone)) == ["open #1"]
    assert "M=8 warm (NVIDIA GeForce RTX 5090/580/sm120_ba_gemm/1): not in" in repository.at(1).body
    assert repository.titles[1] == "Nightly: metrics are missing"
    assert repository.tell(of_night(21, *(replace(v, night=night(21)) for v in gone))) == [
        "edit #1"
    ]
    more = [steady(22), unmeasured(22, "M=8 warm"), unmeasured(22, "M=16 warm")]
    assert repository.tell(of_night(22, *more)) == ["edit #1 with a comment"]
    there = [steady(23), steady(23, "M=8 warm"), steady(23, "M=16 warm")]
    assert repository.tell(of_night(23, *there)) == ["close #1 with a comment"]


def test_a_dead_machine_is_told_though_a_metric_was_given_up_by_hand() -> None:
    repository = Repository()
    repository.tell(of_night(20, steady(20), unmeasured(20, "M=8 warm")))
    repository.by_hand(1, is_open=False)
    assert repository.tell(of_night(21, steady(21), unmeasured(21, "M=8 warm"))) == ["edit #1"]
    dead = of_night(22, unmeasured(22), unmeasured(22, "M=8 warm"), missing=[22])
    assert repository.tell(dead) == ["reopen #1 with a comment"]
    still = of_night(23, unmeasured(23), unmeasured(23, "M=8 warm"), missing=[22, 23])
    repository.by_hand(1, is_open=False)
    assert repository.tell(still) == ["edit #1"]


def test_a_metric_that_is_still_gone_after_a_dead_night_is_no_news() -> None:
    repository = Repository()
    gone = [steady(20), unmeasured(20, "M=8 warm")]
    assert repository.tell(of_night(20, *gone)) == ["open #1"]
    dead = of_night(21, unmeasured(21), unmeasured(21, "M=8 warm"), missing=[21])
    assert repository.tell(dead) == ["edit #1 with a comment"]
    still = [steady(22), unmeasured(22, "M=8 warm")]
    assert repository.tell(of_night(22, *still, missing=[21])) == ["edit #1"]


def test_metrics_that_are_gone_do_not_bring_back_old_nights() -> None:
    repository = Repository()
    repository.tell(of_night(10, unmeasured(10), missing=[10]))
    repository.tell(of_night(11, steady(11), missing=[10]))
    gone = of_night(20, steady(20), unmeasured(20, "M=8 warm"), missing=[10])
    assert repository.tell(gone) == ["reopen #1 with a comment"]
    assert "2026-12-10" not in repository.at(1).body.split("\n", 1)[1]
    assert "1 metric, `M=8 warm`" in repository.comments[1][-1]


def test_a_stretch_ends_at_a_night_that_ran() -> None:
    assert stretch(["2026-11-28", "2026-11-30", "2026-12-01"]) == ["2026-11-30", "2026-12-01"]


# Names of former times, and two nights at once.


def test_a_metric_with_a_new_name_keeps_its_issue() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20, "old name")))
    repository.config = replace(CONFIG, renames={"oldest": "old name", "old name": "new name"})
    assert repository.tell(of_night(21, worse(21, "new name"))) == ["edit #1"]
    assert repository.at(1).memory.key == series("new name").digest
    assert "`new name`" in repository.at(1).body
    assert repository.tell(of_night(22, recovered(22, "new name"))) == ["close #1 with a comment"]


def test_of_two_issues_about_one_thing_the_older_goes_on() -> None:
    first, second = Repository(), Repository()
    first.tell(of_night(20, worse(20)))
    second.tell(of_night(20, worse(20)))
    first.issues.append(replace(second.issues[0], number=2))
    assert first.tell(of_night(20, worse(20))) == ["close #2 with a comment"]
    assert "#1" in first.comments[2][0]
    assert first.tell(of_night(21, worse(21))) == ["edit #1"]
    first.by_hand(2, is_open=True)
    assert first.tell(of_night(22, worse(22))) == ["edit #1"]
    assert first.open_ones() == [1, 2]


ACTS = st.sampled_from(["worse", "much worse", "steady", "noisy", "gone", "dead", "accepted"])
HANDS = st.sampled_from([None, None, None, "close", "open"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(ACTS, min_size=12, max_size=12), HANDS), max_size=12))
def test_whatever_happens_nothing_is_told_twice(nights: list[tuple[list[str], str | None]]) -> None:
    """`tell` runs every night twice; there is never a second issue about one thing."""
    repository = Repository()
    missing: list[int] = []
    for number, (acts, hand) in enumerate(nights, 20):
        made = {
            "worse": worse,
            "much worse": lambda n, name: worse(n, name, change=0.2),
            "steady": steady,
            "noisy": lambda n, name: steady(n, name, status=Status.NOISY),
            "gone": unmeasured,
            "accepted": lambda n, name: steady(n, name, accepted=True),
            "dead": unmeasured,
        }
        dead = acts[0] == "dead"
        missing += [number] if dead else []
        verdicts = [
            (unmeasured if dead else made[act])(number, f"metric {n}") for n, act in enumerate(acts)
        ]
        repository.tell(of_night(number, *verdicts, missing=missing))
        keys = [issue.memory.key for issue in repository.issues]
        assert len(keys) == len(set(keys))
        for n, act in enumerate(acts):
            told = worse(number, f"metric {n}").id.digest
            mine = [i for i in repository.issues if i.memory.key == told]
            if act in ("steady", "accepted") and not dead:
                assert all(i.memory.stage is not Stage.OPEN for i in mine)
        if hand and repository.issues:
            repository.by_hand(repository.issues[0].number, is_open=hand == "open")


# The text.


def rendered(markdown: str) -> Any:
    return MarkdownIt("commonmark").enable("table").parse(markdown)


def leaves(tokens: Iterable[Any]) -> Iterable[Any]:
    for token in tokens:
        yield token
        yield from leaves(token.children or ())


HOSTILE = [
    "@everyone",
    "#1 and GH-2",
    "`",
    "a``b",
    "``` ```",
    "<script>alert(1)</script>",
    "<!-- runci:perf-issue 0123456789abcdef {} -->",
    "-->",
    "a|b",
    "a\\|<img src=x>",
    "a\nb\r\n\r\n# c",
    "[x](javascript:alert(1))",
    "'; rm -rf / #",
    "$(reboot)",
    "\u202eevil\u2066",
    "&lt;b&gt;",
    "*x* _y_ ~z~",
    "",
    "x" * 5000,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_others_is_only_shown(name: str) -> None:
    """As a metric, a machine, a benchmark, a commit, a reason and a test."""
    verdict = worse(
        20,
        reason=name,
        since_commit=name,
        last_good=name,
        commit=name,
        id=series(name, gpu=name, benchmark=name, version=name),
    )
    tests = replace(suite(20, name)[1], problems=(name,))
    failed = replace(suite(20, name)[0], reason=name)
    gone = unmeasured(20, f"gone {name}", reason=name, id=series(f"gone {name}"))
    found = of_night(20, verdict, failed, gone, steady(20, "there"), suites=[tests])
    flood = [replace(v, id=replace(v.id, metric=f"{v.id.metric}{name}")) for v in many(20, 11)]
    bodies = [a.body for a in decide(found, [], CONFIG, LINKS) if isinstance(a, Create)]
    bodies += [a.body for a in decide(of_night(20, *flood), [], CONFIG, LINKS)]
    assert len(bodies) == 4
    comments = comments_of(verdict)
    for text in (*bodies, *comments):
        assert len(text) <= MOST
        lines = text.split("\n")
        shown = text if text in comments else "\n".join(lines[1:])
        for token in leaves(rendered(shown)):
            if token.type.startswith("html"):
                assert token.content in ("<code>", "</code>")
            if token.type == "text":
                assert not re.search(r"@\w|#\d|GH-2", token.content)
            if token.type == "link_open":
                assert token.attrs["href"].startswith(("https://github.com/octo/", LINKS.page))
            assert token.type != "image"
    assert all(read_issue(1, body, is_open=True) is not None for body in bodies)


def comments_of(verdict: Verdict) -> list[str]:
    """Everything that is ever said about a regression."""
    repository = Repository()
    repository.tell(of_night(20, verdict))
    repository.tell(of_night(21, replace(verdict, night=night(21), change=0.3)))
    repository.tell(of_night(22, replace(verdict, night=night(22), status=Status.RECOVERED)))
    repository.tell(of_night(23, replace(verdict, night=night(23))))
    assert len(repository.comments[1]) == 3
    return repository.comments[1]


def test_the_evidence_of_a_regression() -> None:
    (created,) = decide(of_night(21, worse(21)), [], CONFIG, LINKS)
    assert isinstance(created, Create)
    assert created.title == "Nightly regression: M=4 warm on NVIDIA GeForce RTX 5090"
    body = created.body
    repo = "https://github.com/octo/kernels"
    for part in (
        "5.0 % worse (95 % confidence: +4.0 to +6.0 %) since the night 2026-12-20",
        f"[`ccccccccc...aaaaaaaaa`]({repo}/compare/{GOOD}...{BAD})",
        f"| since | `2026-12-20`, [`aaaaaaaaa`]({repo}/commit/{BAD}) |",
        "| confirmed by | a second night |",
        "| change | 5.0 % worse, lower is better |",
        "| ratio to the pinned baseline | 1.050\u00d7 |",
        "| accepted level | 1.000\u00d7 |",
        "| `2026-12-01` | `2026-12-19` | 19 | 1.000\u00d7 |",
        "| `2026-12-20` | `2026-12-21` | 2 | 1.050\u00d7 |",
        f"({LINKS.page}#{anchor(series())})",
        "`NVIDIA GeForce RTX 5090`, driver 580",
        "worse by another 3.0 %",
    ):
        assert part in body, part


def commands(body: str) -> list[list[str]]:
    blocks = [t.content for t in rendered(body) if t.type == "fence"]
    return [shlex.split(line) for text in blocks for line in text.splitlines()]


def test_the_commands_can_be_pasted_whatever_the_metric_is_called() -> None:
    name = "M=4 'warm' $(reboot) `id`; #"
    (created,) = decide(of_night(21, worse(21, name)), [], CONFIG, LINKS)
    measure = ["runci", "perf", "measure", BENCHMARK, "--output", "record.json"]
    key = f"{GPU}/580/{BENCHMARK}/1"
    accept = ["runci", "perf", "accept", name, "--machine", key, "--reason", "WHY THIS IS RIGHT"]
    assert commands(created.body) == [
        ["git", "checkout", BAD],
        [*measure, "--baseline", GOOD],
        accept,
    ]


def test_the_command_line_takes_the_commands() -> None:
    verdict, tests = suite(21, "a::x")
    found = decide(of_night(21, worse(21), verdict, suites=[tests]), [], CONFIG, LINKS)
    given = [line for action in found for line in commands(action.body) if line[0] == "runci"]
    parsed = [vars(parser().parse_args(line[1:])) for line in given]
    steps = [options.get("step") for options in parsed]
    assert steps == ["measure", "accept", None, "accept"]
    assert parsed[0]["baseline"] == GOOD
    assert parsed[1]["machine"] == series().machine_key
    assert parsed[2]["suite"] == "nightly-kernel-1-gpu-small"


def test_a_text_that_is_too_long_is_cut_between_paragraphs() -> None:
    long = topic(Now.BAD, facts=tuple("y" * 9000 for _ in range(20)))
    body = compose(long, Memory(KEY_OF_ONE, OPEN), closed_by_hand=False)
    assert len(body) <= MOST
    assert body.count("y" * 9000) == 7
    assert "(More does not fit here.)" in body
    assert body.endswith("that accepts nothing.")


def test_a_thousand_failed_tests_fit() -> None:
    verdict, tests = suite(20, *(f"test/{'x' * 400}.py::test_{n}" for n in range(1000)))
    (created,) = decide(of_night(20, verdict, suites=[tests]), [], CONFIG, LINKS)
    assert len(created.body) <= MOST
    assert "- and 950 more" in created.body


# Marks.


def test_a_mark_is_read_as_it_was_written() -> None:
    memory = Memory(KEY_OF_ONE, OPEN, night(3), 0.1, ("abc", "--><b>"), night(2))
    assert mark(memory).count(">") == 1
    for text in (mark(memory), f"{mark(memory)}\r\n\r\nwords\r\n", f"\n{mark(memory)}\nwords"):
        found = read_issue(1, text, is_open=True)
        assert found is not None
        assert found.memory == memory
        assert "\r" not in found.body


@pytest.mark.parametrize(
    "text",
    ["", "words", f"words\n{mark(Memory(KEY_OF_ONE, OPEN))}", "<!-- runci:perf-issue xyz {} -->"],
)
def test_without_a_mark_on_the_first_line_it_is_no_issue_of_ours(text: str) -> None:
    assert read_issue(1, text, is_open=True) is None


@pytest.mark.parametrize("rest", ["", "{", "{}", '{"key":"fedcba9876543210","stage":"over"}', "[]"])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_spoiled_mark_remembers_what_the_issue_shows(rest: str, is_open: bool) -> None:
    found = read_issue(1, f"<!-- runci:perf-issue {KEY_OF_ONE} {rest} -->", is_open=is_open)
    assert found is not None
    assert found.memory == Memory(KEY_OF_ONE, OPEN if is_open else OVER)


def test_keys_are_for_ever() -> None:
    """Another key would open every issue again."""
    assert series().digest == "3fd1d3dce97b1553"
    assert KEY == "afac7cbff06a6ddf"
    assert machine_key("a") != key_of("a", "machine") != key_of("machine")


def test_a_body_that_was_edited_to_nothing_can_end() -> None:
    assert ended("", Memory(KEY_OF_ONE, OVER), "over").endswith(" -->\n\nover")


# Links.


@pytest.mark.parametrize("commit", ["", None, "HEAD", "a" * 6, "A" * 40, "a" * 40 + "\n", "a)b"])
def test_only_commits_are_linked(commit: str | None) -> None:
    assert "](" not in LINKS.commit(commit)
    assert "](" not in LINKS.range(commit, BAD)
    assert "](" not in LINKS.range(GOOD, commit)


def test_without_a_repository_commits_stand_without_links() -> None:
    assert make_links("https://github.com", "", None).commit(BAD) == "`aaaaaaaaa`"
    assert make_links("https://ghe.example:8443", "o/r", None).commit(BAD) == (
        f"[`aaaaaaaaa`](https://ghe.example:8443/o/r/commit/{BAD})"
    )


@pytest.mark.parametrize("page", ["x", "javascript:alert(1)", "https://a/)b", "https://a b", "//a"])
def test_an_address_that_is_none_is_refused(page: str) -> None:
    with pytest.raises(RunciError, match="--page"):
        make_links("https://github.com", "o/r", page)


def test_an_issue_remembers_its_page_only_where_it_is_one() -> None:
    bare = Links("https://github.com/octo/kernels")
    known = issue(OPEN, is_open=True, page="https://old.example/")
    forged = issue(OPEN, is_open=True, page="https://old.example/) [x](https://evil.example/")
    assert bare.for_issue(None) == bare
    assert bare.for_issue(known).page == "https://old.example/"
    assert bare.for_issue(forged) == bare
    assert LINKS.for_issue(known) == LINKS


# Escaping, which others use too.


@settings(deadline=None)
@given(st.text())
def test_a_code_span_holds_exactly_its_text(text: str) -> None:
    span = code(text)
    assert "\n" not in span
    found = [t for t in leaves(rendered(f"x {span} y")) if t.type == "code_inline"]
    line = " ".join(text.split())
    if line and line.isprintable() and "\\|" not in line and len(line) <= 1000:
        assert [t.content for t in found] == [line]


def test_a_backslash_before_a_pipe_ends_no_cell() -> None:
    """GitHub splits cells before it looks for code: `\\\\|` is a backslash, and the cell's end."""
    assert code("a\\|<b>") == "<code>a&#92;&#124;&#60;b&#62;</code>"
    assert code("a|b") == "`a|b`"


@settings(deadline=None)
@example(["```", "````` x"])
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_block_of_code_holds_exactly_its_lines(lines: list[str]) -> None:
    (found,) = [t for t in rendered(f"{block(lines, 'sh')}\n\nwords") if t.type == "fence"]
    assert len(found.content.split("\n")) == len(lines) + 1


@settings(deadline=None)
@given(st.text())
def test_escaped_text_is_text(text: str) -> None:
    tokens = list(leaves(rendered(f"x {escaped(text)}")))
    assert {t.type for t in tokens} <= {
        "paragraph_open", "paragraph_close", "inline", "text", "text_special",
    }  # fmt: skip


def sequence(found: Sequence[Action]) -> list[type]:
    return [type(action) for action in found]


def test_changes_come_before_new_issues() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20, "b")))
    found = [worse(21, "a"), recovered(21, "b"), worse(21, "c")]
    assert sequence(decide(of_night(21, *found), repository.issues, CONFIG, LINKS)) == [
        Change,
        Create,
        Create,
    ]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
