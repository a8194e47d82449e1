"""What one topic and its issue call for, and what one verdict says: the tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import CONFIG, LINKS, OPEN, OVER, Repository, issue, topic
from perf_verdicts import night, of_night, recovered, steady, unmeasured, worse

from runci import register_cpu_ci
from runci.commands.perf_notify import decide
from runci.nightly.notify.actions import Action, Change, Create, actions
from runci.nightly.notify.issue import Now, Stage, read_issue
from runci.nightly.notify.topics import now_of
from runci.nightly.verdict import Confirmed, Status, Verdict

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

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


# What a verdict says.

STATUSES = [
    (worse(20), Now.BAD),
    (worse(20, confirmed_by=Confirmed.PAIRED), Now.BAD),
    (worse(20, confirmed_by=Confirmed.BUDGET), Now.BAD),
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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
