"""Many metrics that get worse at once are one issue of their machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import Repository, many
from perf_verdicts import GPU, of_night, recovered, series, steady, worse

from runci import register_cpu_ci
from runci.nightly.notify.series import MOST_NEW, machine_key
from runci.nightly.verdict import Status

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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
