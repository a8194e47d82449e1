"""The nightly's workflows, run under act with recorded samples: what is remembered and told.

The history is a branch of the scratch repository; GitHub is played on this machine. What act cannot
show is said in `test_workflows_act`. Each run takes seconds, so each shows several things.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from act_nightly import BITS, BRANCH, NIGHTS, RECORDED, Nightly
from act_workflows import TOLERATED, Ran

from runci import register_cpu_ci
from runci.nightly.bisect import Searched
from runci.nightly.history.lines import Turn
from runci.nightly.record import decode

register_cpu_ci(est_time=95, stage="base-a", runner_config="cpu")

KERNEL, LINEAR = RECORDED
SUITE = "nightly-kernel-1-gpu-small"
TESTS, MEASURE, BISECT = "nightly-kernel-5090", "measure-5090", "bisect-5090"
EVERYTHING = {
    *("plan", "gate", TESTS, MEASURE),
    *("verdict", "report", "notify", "nightly-finish"),
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nightly]:
    folder = tmp_path_factory.mktemp("act")
    yield Nightly(folder)
    shutil.rmtree(folder, ignore_errors=True)


def issues(ran: Ran) -> dict[str, dict[str, Any]]:
    """By title, without the machine."""
    found = ran.github.world["issues"]
    return {issue["title"].partition(" on ")[0]: issue for issue in found}


def refs(scratch: Nightly) -> dict[str, str]:
    """Every branch and its commit."""
    lines = scratch.git("for-each-ref", "--format=%(refname:short) %(objectname)").splitlines()
    return dict(line.split() for line in lines)


def test_a_quiet_night_is_remembered_and_disturbs_nobody(scratch: Nightly) -> None:
    scratch.remember()
    before = refs(scratch)
    ran = scratch.run(
        "nightly-sm120.yml", scratch.saved("schedule"), settings={"PERF_PAGES": "true"}
    )
    assert ran.all_of("success") == {*EVERYTHING, "pages"} == set(ran.jobs), str(ran)
    assert not issues(ran)
    # On the GPU first the default branch's gate, then what is tested and measured.
    assert ran.checkouts[TESTS] == [scratch.base, scratch.base]
    assert ran.checkouts[MEASURE] == [scratch.base, scratch.base, before[BRANCH]]

    after = refs(scratch)
    assert {name for name in after if after[name] != before.get(name)} == {BRANCH}
    scratch.git("merge-base", "--is-ancestor", before[BRANCH], after[BRANCH])
    history = scratch.history()
    points = {series.id.metric: series.points for series in history.series.values()}
    assert {name: len(found) for name, found in points.items()} == {
        **dict.fromkeys((KERNEL, LINEAR, BITS), NIGHTS + 1),
        f"suite {SUITE}": 1,
    }
    last = points[KERNEL][-1]
    assert (last.night, last.commit, last.baseline_commit) == (
        scratch.night(0),
        scratch.base,
        scratch.pinned,
    )
    assert (len(last.candidate), len(last.baseline), last.again_candidate) == (5, 5, ())
    assert history.nights[-1].measured and history.nights[-1].suites[0].executed == 2

    assert "verified: 1 file of 1 suite ran as planned and executed 2 tests" in ran.summary
    assert "/actions/runs/31/artifacts/report" in ran.summary  # the page
    for artifact in ("report", "github-pages"):
        page = scratch.artifact(artifact)
        assert {path.name for path in page.iterdir()} == {"index.html", "badge.svg"}
        assert KERNEL in (page / "index.html").read_text(encoding="utf-8")


def test_a_regression_opens_an_issue_and_an_acceptance_closes_it(scratch: Nightly) -> None:
    scratch.remember()
    slower = scratch.commit("kernel/benchmark/speed", "1.10\n")
    ran = scratch.run("nightly-sm120.yml", scratch.saved("schedule"))
    assert ran.all_of("failure") == {"verdict", "nightly-finish"}, str(ran)
    assert set(ran.jobs) == EVERYTHING
    title = f"Nightly regression: {KERNEL}"
    assert issues(ran).keys() == {title}
    body = issues(ran)[title]["body"]
    assert f"git checkout {slower}" in body
    assert "/actions/runs/31/artifacts/report" in body
    found = scratch.series(KERNEL)
    assert len(found.points[-1].again_candidate) == 5  # measured again at once
    (event,) = found.events
    assert (event.turn, event.since, event.since_commit) == (
        Turn.REGRESSION,
        scratch.night(0),
        slower,
    )
    assert 0.07 < event.change < 0.13
    assert not scratch.series(LINEAR).events

    # The watch sees the same night, and repeats nothing.
    noon = scratch.saved("schedule")
    noon["world"]["issues"] = ran.github.world["issues"]
    watched = scratch.run("nightly-watch.yml", noon)
    assert watched.jobs == {"watch": "failure", "notify": "success"}, str(watched)
    assert {verb for verb, _, _ in watched.github.requests} == {"GET"}
    assert issues(watched) == issues(ran)

    reason = "saves 2 GiB; `touch x` $(touch x) \"quoted\" --by='x'"
    dispatch = scratch.saved("dispatch")
    dispatch["payload"]["inputs"] = {"accept": KERNEL, "reason": reason}
    dispatch["world"]["issues"] = ran.github.world["issues"]
    ran = scratch.run("nightly-sm120.yml", dispatch)
    told = {"plan", "gate", "verdict", "report", "notify"}
    assert ran.all_of("success") == told == set(ran.jobs), str(ran)
    assert issues(ran)[title]["state"] == "closed"
    (accepted,) = scratch.series(KERNEL).accepts
    assert accepted.reason == reason
    assert len(scratch.history().nights) == NIGHTS + 1  # no night was written down


def test_a_dispatched_bisection_names_the_commit_in_the_issue(scratch: Nightly) -> None:
    scratch.commit("kernel/benchmark/speed", "1.00\n")  # whatever stood there before
    scratch.remember()
    scratch.commit("note", "before\n")
    culprit = scratch.commit("kernel/benchmark/speed", "1.10\n")
    measured = scratch.commit("note", "after\n")
    ran = scratch.run("nightly-sm120.yml", scratch.saved("schedule"))
    title = f"Nightly regression: {KERNEL}"
    assert issues(ran).keys() == {title}, str(ran)
    assert culprit not in issues(ran)[title]["body"]
    series = scratch.series(KERNEL)

    dispatch = scratch.saved("dispatch")
    dispatch["payload"]["inputs"] = {"bisect": KERNEL, "machine": series.id.machine_key}
    dispatch["world"]["issues"] = ran.github.world["issues"]
    ran = scratch.run("nightly-sm120.yml", dispatch)
    assert set(ran.jobs) == {"plan", "gate", BISECT, "verdict", "report", "notify"}, str(ran)
    assert ran.all_of("failure") == {"verdict"}  # it is still there
    # On the GPU the gate again, then all commits, and the history.
    assert ran.checkouts[BISECT] == [measured, measured, refs(scratch)[BRANCH]]
    kept = (scratch.artifact("bisect") / "bisect.json").read_bytes()
    searched = decode(kept, Searched, "bisect.json")
    assert (len(searched.commits), searched.culprit) == (3, culprit)
    issue = issues(ran)[title]
    assert issue["state"] == "open"
    assert f"/octo/kernels/commit/{culprit})" in issue["body"]
    assert len(issue["comments"]) == 1
    assert scratch.series(KERNEL) == series  # no night was written down
    page = (scratch.artifact("report") / "index.html").read_text(encoding="utf-8")
    assert f'/octo/kernels/issues/{issue["number"]}"' in page


def test_a_night_that_measured_nothing_is_remembered_as_such(scratch: Nightly) -> None:
    scratch.remember()
    scratch.commit("kernel/benchmark/speed", "none: the benchmark fails\n")
    ran = scratch.run("nightly-sm120.yml", scratch.saved("schedule"), broken=SUITE)
    assert ran.all_of("failure") == {TESTS, MEASURE, "verdict", "nightly-finish"}, str(ran)
    assert set(ran.jobs) == EVERYTHING
    last = scratch.history().nights[-1]
    assert (last.night, last.measured, last.suites[0].failed) == (scratch.night(0), False, 1)
    assert len(scratch.series(KERNEL).points) == NIGHTS
    assert issues(ran).keys() == {
        "Nightly: nights are missing",
        f"Nightly regression: suite {SUITE}",
    }
    assert scratch.night(0) in issues(ran)["Nightly: nights are missing"]["body"]
    assert {path.name for path in scratch.artifact("record").iterdir()} == {"record.log"}
    assert "index.html" in {path.name for path in scratch.artifact("report").iterdir()}


@pytest.mark.parametrize(
    ("name", "rule", "accept"),
    [
        ("dispatch-by-stranger", "dispatcher", ""),
        ("dispatch-on-branch", "other-ref", ""),
        ("dispatch-on-branch", "other-ref", KERNEL),
    ],
)
def test_what_is_denied_changes_nothing(
    scratch: Nightly, name: str, rule: str, accept: str
) -> None:
    scratch.remember()
    before = refs(scratch)
    event = scratch.saved(name)
    event["payload"]["inputs"] = {"accept": accept, "reason": "mine"}
    ran = scratch.run("nightly-sm120.yml", event, edit=TOLERATED)
    last = set() if accept else {"nightly-finish"}
    assert set(ran.jobs) == {"plan", "gate", *last}, str(ran)
    assert ran.all_of("failure") == last
    assert f"(rule `{rule}`)" in ran.summary
    assert refs(scratch) == before
    assert not issues(ran)


def test_what_somebody_typed_is_refused_before_a_machine_is_asked(scratch: Nightly) -> None:
    event = scratch.saved("dispatch")
    event["payload"]["inputs"] = {"suite": "x --allow-empty; touch x", "accept": ""}
    ran = scratch.run("nightly-sm120.yml", event)
    # act wants the shards even of a job that is skipped, and ends here.
    assert ran.jobs == {"plan": "failure", "gate": "success"}, str(ran)
    assert "has no suite 'x --allow-empty; touch x'" in ran.log


def test_the_watch_tells_of_nights_that_did_not_run(scratch: Nightly) -> None:
    scratch.remember(range(NIGHTS, 2, -1))
    before = refs(scratch)
    ran = scratch.run("nightly-watch.yml", scratch.saved("schedule"))
    assert ran.jobs == {"watch": "failure", "notify": "success"}, str(ran)
    (issue,) = issues(ran).values()
    assert issue["title"] == "Nightly: nights are missing"
    assert scratch.night(2) in issue["body"] and scratch.night(3) not in issue["body"]
    assert refs(scratch) == before


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
