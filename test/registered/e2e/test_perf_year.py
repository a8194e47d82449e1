"""A year of nights with planted faults, through every step of the nightly, in real processes.

`test/support/year/nights.py` says what happens on which night; here is what must come of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from year.nights import (
    BUSY,
    DEAD,
    EARLIER,
    HOT,
    LATER,
    METRICS,
    NEW_DRIVER,
    NIGHTS,
    SPIKES,
    UNUSABLE,
    nights,
)

from runci import register_cpu_ci
from runci.nightly.measure.state import Host

register_cpu_ci(est_time=200, stage="base-a", runner_config="cpu")

SUPPORT = Path(__file__).parents[2] / "support"
PYTHON = Path(__file__).parents[3] / ".venv-perf/bin/python"
NIGHT = {night.number: night.date for night in nights()}
MACHINE = Host().machine().gpu


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    assert PYTHON.exists(), "no environment with Otava: run `make .venv-perf/stamp`"
    folder = tmp_path_factory.mktemp("year")
    paths = [str(SUPPORT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [str(PYTHON), "-m", "year.run", str(folder)]
    subprocess.run(command, env=environment, check=True)
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    pages = ("page.html", "summary.md", "badge.svg")
    return outcome | {name: (folder / name).read_text() for name in pages}


def verdicts(year: dict[str, Any], metric: str) -> dict[int, dict[str, Any]]:
    """A metric's verdict by night: of the driver that ran then."""
    found = {}
    for number, night in enumerate(year["nights"]):
        major = 590 if number >= NEW_DRIVER else 580
        for verdict in night["verdicts"]:
            if verdict["id"]["metric"] == metric and verdict["id"]["driver_major"] == major:
                found[number] = verdict
    return found


def with_status(year: dict[str, Any], metric: str, status: str) -> list[int]:
    return [n for n, verdict in verdicts(year, metric).items() if verdict["status"] == status]


@pytest.mark.parametrize(
    ("metric", "status", "first", "last", "since"),
    [
        ("gemm", "regression", 61, 74, 60),  # a step, confirmed by the second night, accepted
        # A step, taken back: a spike was as large before, so that it takes a third night.
        ("attention", "regression", 122, 151, 120),
        ("attention", "recovered", 152, 158, 150),
        ("tokens", "regression", 281, NIGHTS - 1, 280),  # more is better there; no driver ends it
        ("scale", "regression", NEW_DRIVER + 1, NIGHTS - 1, NEW_DRIVER),  # and none hides a step
        ("bits", "regression", 300, 301, 300),  # exact: at once, and over at once
    ],
)
def test_each_planted_change_is_found_on_its_night_with_its_commit(
    year: dict[str, Any], metric: str, status: str, first: int, last: int, since: int
) -> None:
    assert with_status(year, metric, status) == list(range(first, last + 1))
    verdict = verdicts(year, metric)[first]
    assert verdict["since"] == NIGHT[since]
    assert verdict["since_commit"] == year["commits"][str(since)]


def test_an_improvement_is_told_and_then_expected(year: dict[str, Any]) -> None:
    first = with_status(year, "tokens", "improvement")[0]
    assert 211 <= first <= 217  # seven nights at most
    verdict = verdicts(year, "tokens")[first]
    assert verdict["since_commit"] == year["commits"]["210"]
    assert verdict["high"] < -0.03


def test_a_creep_that_is_never_a_step_is_found_against_the_pinned_baseline(
    year: dict[str, Any],
) -> None:
    """Half a percent every eight nights: 3 % since night 220, when the host was off."""
    found = with_status(year, "norm", "regression")
    assert DEAD.stop <= found[0] <= 244
    assert found == list(range(found[0], NIGHTS))  # and it stays, whatever comes later
    assert verdicts(year, "norm")[found[0]]["confirmed_by"] == "the pinned baseline"


@pytest.mark.parametrize("metric", ["copy", "sort"])
def test_what_only_looked_bad_is_no_regression(year: dict[str, Any], metric: str) -> None:
    """Nights that were slow once, and a machine with two modes."""
    assert with_status(year, metric, "regression") == []
    assert metric in SPIKES.values() or METRICS[metric][4] > 0


def test_of_a_machine_with_two_modes_nothing_is_claimed(year: dict[str, Any]) -> None:
    """The median of a night's pairs leaves most of it out; what is left is watched, and no more."""
    found = verdicts(year, "sort").values()
    assert {v["status"] for v in found} <= {"steady", "too little history", "missing night"}
    assert sum(v["watch"] for v in found) > 10
    assert len(with_status(year, "copy", "noisy")) <= 3


def test_a_spike_is_watched_for_a_night(year: dict[str, Any]) -> None:
    for number, metric in SPIKES.items():
        assert verdicts(year, metric)[number]["watch"], (number, metric)
        assert not verdicts(year, metric)[number + 1]["watch"], (number, metric)


def test_a_hot_machine_changes_nothing(year: dict[str, Any]) -> None:
    """4 % slower for eleven nights, candidate and baseline alike."""
    for metric in ("gemm", "attention", "norm", "tokens", "copy"):
        for number in HOT:
            verdict = verdicts(year, metric)[number]
            assert (verdict["status"], verdict["watch"]) == ("steady", False), (metric, number)


def test_a_new_driver_goes_on_with_the_ratio(year: dict[str, Any]) -> None:
    """Nothing is forgotten, and what came on the same night makes both of them suspect."""
    for metric in ("gemm", "attention", "copy"):
        found = verdicts(year, metric)
        assert {found[n]["status"] for n in range(NEW_DRIVER, NIGHTS)} == {"steady"}, metric
    [step] = verdicts(year, "scale")[NIGHTS - 1]["steps"]
    assert step["driver"] == "590 (before: 580)"


def test_a_second_step_while_one_is_open_has_its_own_night_and_commit(
    year: dict[str, Any],
) -> None:
    steps = verdicts(year, "tokens")[NIGHTS - 1]["steps"]
    assert [step["since_commit"] for step in steps] == [year["commits"][n] for n in ("280", "310")]


def test_nights_that_did_not_count_are_missing(year: dict[str, Any]) -> None:
    missing = [*UNUSABLE, *DEAD]
    assert with_status(year, "copy", "missing night") == missing
    assert with_status(year, "bits", "missing night") == list(DEAD)  # a busy GPU changes no bit
    assert all(year["nights"][number]["check"] == 1 for number in missing)


def test_a_year_ends_with_exactly_the_right_issues(year: dict[str, Any]) -> None:
    found = sorted(
        (
            issue["title"].removesuffix(f" on {MACHINE}").removeprefix("Nightly regression: "),
            issue["state"],
            [c["body"].split(":**")[0].split("**,")[0].strip("*") for c in issue["comments"]],
        )
        for issue in year["issues"]
    )
    assert found == [
        (
            "Nightly: metrics are missing",
            "closed",
            ["It runs again", "Missing again", "It runs again"],
        ),
        ("attention", "closed", ["Bisected", "Recovered"]),
        ("bits", "closed", ["Recovered"]),
        ("gemm", "closed", ["Accepted"]),
        # The new driver's series takes over what was open, and its issue.
        ("norm", "open", ["Worse"]),  # 6 % where 3 % was told
        ("scale", "open", []),
        ("tokens", "open", ["Worse"]),
    ]


def test_an_open_issue_says_what_a_maintainer_needs(year: dict[str, Any]) -> None:
    [tokens] = [
        issue for issue in year["issues"] if "tokens" in issue["title"] and issue["state"] == "open"
    ]
    since = year["commits"]["310"]  # the last of its two steps
    assert f"...{since}" in tokens["body"]  # the commits between which it began
    assert "higher is better" in tokens["body"]
    assert "runci perf measure kernels" in tokens["body"]
    assert "runci perf accept tokens" in tokens["body"]


def test_the_culprit_of_a_busy_day_is_bisected_and_stands_in_the_issue(
    year: dict[str, Any],
) -> None:
    bisected, culprit = year["bisected"], year["culprits"][str(BUSY)]
    found = bisected["found"]
    assert bisected["status"] == 0, bisected["said"]
    assert found["commits"][len(EARLIER)] == culprit
    assert len(found["commits"]) == len(EARLIER) + 1 + len(LATER)
    assert found["suspects"] == [culprit]
    assert found["bad"] == year["commits"][str(BUSY)]  # which is not the culprit
    issue = bisected["issue"]
    assert f"/octo/kernels/commit/{culprit})" in issue["body"]
    assert "Fuse the mask into attention" in issue["comments"][-1]["body"]
    [closed] = [one for one in year["issues"] if "attention" in one["title"]]
    assert f"/octo/kernels/commit/{culprit})" in closed["body"]  # 30 nights later, too


def test_a_lost_series_is_an_error_and_closes_nothing(year: dict[str, Any]) -> None:
    lost = year["lost"]
    assert lost["check"] == 2
    assert lost["file"] in lost["said"] and "restore it" in lost["said"]
    assert not lost["written"]  # so that there is nothing to tell by


def test_quiet_nights_disturb_nobody(year: dict[str, Any]) -> None:
    """Nothing is written before the first fault, nor between one that is over and the next."""
    for number in (*range(60), *range(160, 220)):
        if number not in UNUSABLE:
            assert year["nights"][number]["writes"] == [], NIGHT[number]
            assert year["nights"][number]["check"] == 0, NIGHT[number]
    assert year["again"] == []  # and nothing is written twice


def test_the_page_of_the_last_night_tells_the_same(year: dict[str, Any]) -> None:
    open_ones = [v for v in year["nights"][-1]["verdicts"] if v["status"] == "regression"]
    assert sorted(v["id"]["metric"] for v in open_ones) == ["norm", "scale", "tokens"]
    assert "3 regressions" in year["page.html"]
    assert "3 regressions" in year["summary.md"]
    assert "3 regressions" in year["badge.svg"]
    for name in METRICS:
        assert name in year["page.html"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
