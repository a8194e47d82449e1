"""What is told of nights and metrics that are missing.

Of each night the nightly tells, and at noon the watch, which decides as of the newest night that
ran or should have.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import Repository
from perf_verdicts import night, of_night, steady, suite, unmeasured, worse

from runci import register_cpu_ci
from runci.nightly.notify.topics import KEY, stretch

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
