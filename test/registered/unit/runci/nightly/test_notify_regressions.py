"""What is told of regressions and failed tests over many nights, and when."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import CONFIG, Repository, many
from perf_verdicts import BAD, night, of_night, recovered, series, steady, suite, unmeasured, worse

from runci import register_cpu_ci
from runci.nightly.notify.actions import issue_numbers
from runci.nightly.notify.issue import Stage
from runci.nightly.verdict import Ended, Status

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")


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


def test_another_driver_goes_on_in_the_same_issue() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20)))
    newer = series(driver_major=590)
    taken = Ended(series(), "measured on driver 590 since then", newer)
    for number in (21, 22):
        told = replace(of_night(number, worse(number, id=newer)), ended=(taken,))
        assert "open" not in "".join(repository.tell(told))
        assert repository.open_ones() == [1]
    over = replace(of_night(23, recovered(23, id=newer)), ended=(taken,))
    assert repository.tell(over) == ["close #1 with a comment"]


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


# Names of former times, and two nights at once.


def test_a_metric_with_a_new_name_keeps_its_issue() -> None:
    repository = Repository()
    repository.tell(of_night(20, worse(20, "old name")))
    repository.config = replace(CONFIG, renames={"oldest": "old name", "old name": "new name"})
    assert repository.tell(of_night(21, worse(21, "new name"))) == ["edit #1"]
    assert repository.at(1).memory.key == series("new name").digest
    assert "`new name`" in repository.at(1).body
    assert repository.tell(of_night(22, recovered(22, "new name"))) == ["close #1 with a comment"]


def test_the_open_issue_of_each_series_is_known() -> None:
    repository = Repository()
    shared = [worse(20, f"metric {n}", since_commit=BAD) for n in range(2)]
    first = of_night(20, worse(20, "old name"), *shared, steady(20))
    repository.tell(first)
    renamed = replace(CONFIG, renames={"old name": "new name"})
    later = of_night(20, worse(20, "new name"), *shared, steady(20))
    alone, together = 1, 2
    numbers = issue_numbers(later, repository.issues, renamed)
    assert {one.metric: number for one, number in numbers.items()} == {
        "new name": alone,
        "metric 0": together,
        "metric 1": together,
    }
    elsewhere = replace(CONFIG, branch="another-history")
    assert issue_numbers(first, repository.issues, elsewhere) == {}
    repository.tell(of_night(22, recovered(22, "old name"), steady(22)))
    assert series("old name") not in issue_numbers(first, repository.issues, CONFIG)


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
