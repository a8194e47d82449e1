"""Metrics with one cause are one issue: of a commit, or of their machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import Repository, many
from perf_verdicts import BAD, GOOD, GPU, of_night, recovered, series, steady, worse

from runci import register_cpu_ci
from runci.nightly.bisect import Searched
from runci.nightly.notify.topics import MOST_NEW, machine_key
from runci.nightly.record import Direction, anchor
from runci.nightly.verdict import Ended, Status, Verdict

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


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


def by(commit: str, number: int, names: range, change: float = 0.05) -> list[Verdict]:
    """Metrics that got worse by one commit, the later ones more."""
    return [worse(number, f"metric {n}", change + n / 1000, since_commit=commit) for n in names]


def test_what_one_commit_made_worse_is_one_issue_with_a_row_a_metric() -> None:
    repository = Repository()
    assert repository.tell(of_night(20, *by(BAD, 20, range(14)))) == ["open #1"]
    assert repository.titles[1] == f"Nightly regression: 14 metrics since {BAD[:9]} on {GPU}"
    body = repository.at(1).body
    assert body.count(f"/compare/{GOOD}...{BAD})") == 1  # and not in each row
    rows = [line for line in body.splitlines() if line.startswith("| [`metric ")]
    assert [line.split("`")[1] for line in rows] == [f"metric {n}" for n in reversed(range(14))]
    assert all(f"#{anchor(series(f'metric {n}'))})" in body for n in range(14))
    # The most by another `min_change` is news, and so are more metrics; fewer are none.
    assert repository.tell(of_night(21, *by(BAD, 21, range(14), 0.09))) == [
        "edit #1 with a comment"
    ]
    assert repository.tell(of_night(22, *by(BAD, 22, range(16)))) == ["edit #1 with a comment"]
    assert repository.tell(of_night(23, *by(BAD, 23, range(3)))) == ["edit #1"]
    some = [*by(BAD, 24, range(1)), steady(24, "metric 1", status=Status.NOISY)]
    assert repository.tell(of_night(24, *some)) == ["edit #1"]
    assert repository.tell(of_night(25, *(recovered(25, f"metric {n}") for n in range(16)))) == [
        "close #1 with a comment"
    ]
    assert repository.tell(of_night(30, *by(BAD, 30, range(2)))) == ["reopen #1 with a comment"]


def test_a_metric_whose_commit_has_an_issue_joins_it() -> None:
    repository = Repository()
    repository.tell(of_night(20, *by(BAD, 20, range(1))))
    assert repository.tell(of_night(21, *by(BAD, 21, range(3)))) == ["edit #1 with a comment"]
    assert repository.tell(of_night(22, recovered(22, "metric 0"), *by(BAD, 22, range(1, 3)))) == [
        "edit #1"
    ]
    over = [recovered(23, f"metric {n}") for n in range(3)]
    assert repository.tell(of_night(23, *over)) == ["close #1 with a comment"]


@pytest.mark.parametrize(
    "changed",
    [
        {"since_commit": "e" * 40},
        {"last_good": "e" * 40},
        {"id": series("metric 1", gpu="NVIDIA H200")},
    ],
)
def test_what_has_another_cause_has_another_issue(changed: dict[str, Any]) -> None:
    one, two = by(BAD, 20, range(2))
    found = Repository().tell(of_night(20, one, replace(two, **changed)))
    assert found == ["open #1", "open #2"]


@pytest.mark.parametrize("commits", [{"last_good": BAD}, {"since_commit": ""}, {"last_good": ""}])
def test_nights_of_one_commit_share_no_cause(commits: dict[str, str]) -> None:
    """Nothing was changed between them: what they have in common is not the commit."""
    found = [replace(verdict, **commits) for verdict in by(BAD, 20, range(2))]
    assert Repository().tell(of_night(20, *found)) == ["open #1", "open #2"]


def searched(suspects: tuple[str, ...], metric: str = "metric 0") -> Searched:
    return Searched(
        series=series(metric),
        direction=Direction.LOWER,
        good=GOOD,
        bad=BAD,
        change=0.05,
        commits=("e" * 40, BAD),
        suspects=suspects,
        confidence=0.995,
        author="@eve <b>" if len(suspects) == 1 else "",
        subject="Faster!" if len(suspects) == 1 else "",
        said="found after 9 pairs",
    )


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_bisection_found_is_said_once_and_stays_in_the_issue(count: int) -> None:
    repository = Repository()
    repository.tell(of_night(20, *by(BAD, 20, range(count))))
    night = of_night(21, *by(BAD, 21, range(count)))
    culprit = "e" * 40
    unrelated = searched((BAD,), "another metric")
    assert repository.tell(night, [unrelated, searched((culprit,))]) == ["edit #1 with a comment"]
    (said,) = repository.comments[1]
    assert f"/commit/{culprit})" in said and "Faster" in said
    assert "@eve" not in said and "<b>" not in said
    assert f"/commit/{culprit})" in repository.at(1).body
    assert repository.tell(of_night(22, *by(BAD, 22, range(count)))) == ["edit #1"]
    assert "**Found by bisecting:** [`eeeeeeeee`]" in repository.at(1).body
    same = of_night(22, *by(BAD, 22, range(count)))
    assert repository.tell(same, [searched((culprit,))]) == []
    over = [recovered(23, f"metric {n}") for n in range(count)]
    assert repository.tell(of_night(23, *over)) == ["close #1 with a comment"]
    assert repository.at(1).memory.culprit == ""
    # By another commit now: what was found before is no news of this one.
    repository.tell(of_night(30, *by("b" * 40, 30, range(count))))
    assert "Found by bisecting" not in repository.at(repository.open_ones()[0]).body


def test_a_bisection_without_a_culprit_lists_what_is_left() -> None:
    repository = Repository()
    found = searched(("e" * 40, BAD))
    assert repository.tell(of_night(20, *by(BAD, 20, range(2))), [found]) == ["open #1"]
    night = of_night(21, *by(BAD, 21, range(2)))
    assert repository.tell(night, [replace(found, said="otherwise")]) == ["edit #1 with a comment"]
    assert repository.comments[1][0].count("/commit/") == 2
    assert "Found by bisecting" not in repository.at(1).body


def test_what_is_measured_no_longer_is_closed_with_the_reason() -> None:
    repository = Repository()
    repository.tell(of_night(20, *by(BAD, 20, range(2)), worse(20, "alone")))
    ended = tuple(
        Ended(series(name), f"the benchmark of {name} is no longer in perf.yml")
        for name in ("metric 0", "metric 1", "alone")
    )
    some = replace(of_night(21, *by(BAD, 21, range(1)), steady(21)), ended=ended[1:])
    assert repository.tell(some) == ["edit #1", "close #2 with a comment"]
    assert "the benchmark of alone is no longer in perf.yml" in repository.comments[2][-1]
    assert repository.tell(replace(of_night(22, steady(22)), ended=ended)) == [
        "close #1 with a comment"
    ]
    assert "the benchmark of metric 0 is no longer" in repository.comments[1][-1]


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
