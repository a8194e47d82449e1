"""Which commit a label approved, by GitHub's lists: each way that they can mislead is a row."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, merged, world

from runci import register_cpu_ci
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.facts import collect
from runci.gate.github import GitHubApi
from runci.gate.labels import Seen, doubt
from runci.gate.request import Decision

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

EVENTS = Path(__file__).parents[5] / "test" / "fixtures" / "events"
HEAD, OTHER = "a" * 40, "e" * 40
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
SINCE = datetime(2026, 11, 1, 10, 30, tzinfo=timezone.utc)
MONA, EVE = ({"id": n, "type": "User"} for n in (12, 14))


def at(seconds: float) -> str:
    return f"{SINCE + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def act(kind: str, seconds: float = 0, actor: Any = MONA) -> dict[str, Any]:
    return {"event": kind, "created_at": at(seconds), "actor": actor, "label": {"name": "run-ci"}}


def run(seconds: float = 2, **changes: Any) -> dict[str, Any]:
    usual = {
        "created_at": at(seconds),
        "actor": MONA,
        "head_sha": HEAD,
        "head_branch": "patch-1",
        "head_repository": {"id": 2000},
        "head_commit": {"timestamp": at(-600)},
    }
    return {**usual, **changes}


PUT_ON = act("labeled")
PULL = {"number": 7, "head": {"sha": HEAD, "ref": "patch-1", "repo": {"id": 2000}}}
CLEAR = Seen(PUT_ON, PULL, (PUT_ON,), (run(),), (PULL,))


def seen(*runs: Any, events: tuple[Any, ...] = (), **changes: Any) -> Seen:
    return replace(CLEAR, runs=runs, events=(PUT_ON, *events), **changes)


BESIDE = {**PULL, "number": 8, "closed_at": None}
CLEARLY = {
    "the label, and its run": CLEAR,
    "runs elsewhere, and later": seen(
        run(),
        run(actor=EVE, head_sha=OTHER, head_branch="patch-2"),
        run(actor=EVE, head_sha=OTHER, head_repository={"id": 2001}),
        run(61, actor=EVE, head_sha=OTHER),
        run(-1, actor=EVE, head_sha=OTHER),
    ),
    "a label that is not ours beside it, whose run tests nothing": seen(
        run(id=1),
        run(id=2),
        events=({**act("labeled"), "label": {"name": "bug"}},),
        idle=frozenset({2}),
        ours=frozenset({"run-ci"}),
    ),
    "two labels at once, each with its run": seen(run(), run(), events=(act("labeled"),)),
    "off and on again, both runs late": seen(run(), run(), events=(act("unlabeled", -2),)),
    "others did something, which started nothing": seen(run(), events=(act("assigned", 5, EVE),)),
    "what the same person did before and after": seen(
        run(), events=(act("assigned", -1), act("closed", 61))
    ),
    "another pull request of the branch, closed before": replace(
        CLEAR, pulls=(PULL, {**BESIDE, "closed_at": at(-1)})
    ),
}
UNCLEAR = {
    # A commit that cannot be merged gets no run; an edit of the text stands in no list.
    "no run of the label, but one of an edited text": seen(run(40, id=1), idle=frozenset({1})),
    "that, and another label's": seen(
        run(id=1),
        run(40, id=2),
        events=({**act("labeled", 1), "label": {"name": "bug"}},),
        idle=frozenset({1, 2}),
        ours=frozenset({"run-ci"}),
    ),
    "no time": replace(CLEAR, put_on={**PUT_ON, "created_at": None}),
    "a time without a zone": replace(CLEAR, put_on={**PUT_ON, "created_at": "2026-11-01T10:30:00"}),
    "nobody": replace(CLEAR, put_on={**PUT_ON, "actor": None}),
    "no run, for it had conflicts, or was deleted": seen(),
    "nothing but the label": replace(CLEAR, runs=(), events=()),
    "a run of another minute only": seen(run(61)),
    "another workflow of another branch only": seen(run(head_branch="patch-2")),
    "for another head": seen(run(head_sha=OTHER)),
    "a push right after it": seen(run(), run(9, actor=EVE, head_sha=OTHER)),
    "a push away and back": seen(run(), run(9, actor=EVE, head_sha=OTHER), run(20, actor=EVE)),
    "a push under way": seen(run(1, actor=EVE), run(2)),
    "the push's run only": seen(run(9, actor=EVE)),
    "the labeler pushes, and the label started nothing": seen(
        run(9, head_commit={"timestamp": at(5)})
    ),
    "no date of the commit": seen(run(head_commit=None)),
    "another label's run, and none of this one": seen(run(20), events=(act("labeled", 18),)),
    "opened again, and no run of the label": seen(run(20), events=(act("reopened", 18),)),
    "something of the same person without a time": seen(
        run(), events=({**act("labeled"), "created_at": None},)
    ),
    "a run that does not say for what": seen(run(), run(head_sha=None)),
    "a run of a fork that is gone": seen(run(), run(head_repository=None, actor=EVE)),
    "a run without a branch": seen(run(), run(head_branch=None, actor=EVE)),
    "a run without a time": seen(run(), run(created_at=None, actor=EVE)),
    "a run of nobody": seen(run(), run(actor=None)),
    "the fork is gone": replace(CLEAR, live={**PULL, "head": {**PULL["head"], "repo": None}}),
    "the branch was renamed": replace(CLEAR, live={**PULL, "head": {**PULL["head"], "ref": "b"}}),
    "another pull request of the branch": replace(CLEAR, pulls=(PULL, BESIDE)),
    "another one, closed since": replace(CLEAR, pulls=(PULL, {**BESIDE, "closed_at": at(1)})),
}


@pytest.mark.parametrize("name", CLEARLY)
def test_beyond_doubt(name: str) -> None:
    assert doubt(CLEARLY[name], NOW) is None


@pytest.mark.parametrize("name", [name for name in UNCLEAR if name != "the fork is gone"])
def test_in_doubt(name: str) -> None:
    assert doubt(UNCLEAR[name], NOW)


def test_where_the_fork_is_gone_any_run_may_be_of_it() -> None:
    gone = UNCLEAR["the fork is gone"]
    assert doubt(replace(gone, runs=()), NOW)
    assert doubt(replace(gone, runs=(run(), run(actor=EVE, head_repository={"id": 9}))), NOW)


@pytest.mark.parametrize(("seconds", "clear"), [(59, False), (60, True), (-1, False)])
def test_the_minute_must_be_over(seconds: float, clear: bool) -> None:
    assert (doubt(CLEAR, SINCE + timedelta(seconds=seconds)) is None) is clear


SAVED = json.loads((EVENTS / "reopened-after-label.json").read_text(encoding="utf-8"))


def ask(name: str = "reopened-after-label", fault: str = "", **changes: Any) -> Decision:
    saved = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    event = read_event(saved["payload"], saved["environment"])
    with FakeGitHub(merged(world(**saved["world"]), changes)) as github:
        if fault:
            path, _, kind = fault.partition(" ")
            github.fault(path, kind)
        return decide(collect(event, GitHubApi("token", github.url), NOW))


def put_on(actor: str = "mona", **changes: Any) -> dict[str, Any]:
    return {"event": "labeled", "label": "run-ci", "actor": actor, **changes}


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("granted", {}),
        ("no-grant", {"events": [put_on("trixie")]}),
        ("no-grant", {"events": [put_on("eve")]}),
        ("no-grant", {"events": [put_on("labeler[bot]")]}),
        ("no-grant", {"events": [put_on(app=True)]}),
        ("no-grant", {"permissions": {"mona": "read"}}),  # who has lost access since
        ("no-grant", {"events": [put_on(), {**put_on(), "event": "unlabeled"}, put_on("trixie")]}),
        ("label-unclear", {"events": [put_on(head=OTHER)]}),
        ("label-unclear", {"events": [put_on(head=OTHER), put_on(head=None, label="docs")]}),
        ("label-unclear", {"beside": [{"number": 8}]}),
        ("label-unclear", {"events": [put_on(created_at="2026-11-01T11:59:30Z")]}),
        ("protected", {"files": [".GitHub/x.yml"], "events": [put_on("boss")]}),
        ("granted", {"files": ["Makefile"], "events": [put_on("boss")]}),
        ("protected", {"files": ["Makefile"]}),
        ("label-missing", {"pull": {"labels": []}}),
    ],
)
def test_a_label_from_before_counts_for_its_commit_only(rule: str, changes: Any) -> None:
    assert ask(**changes).rule == rule


def test_what_it_approved_is_told_and_what_to_do_where_that_is_unclear() -> None:
    assert HEAD[:12] in ask().reason and "mona" in ask().reason
    unclear = ask(events=[put_on(head=OTHER)])
    assert f"/run-ci {HEAD}" in unclear.reason and OTHER[:12] in unclear.reason
    assert "nobody" not in unclear.reason


@pytest.mark.parametrize("fault", ["/runs 500", "/runs short", "/pulls 500", "/events garbage"])
def test_a_list_that_is_not_whole_denies(fault: str) -> None:
    assert ask(fault=fault).rule == "unknown"


@pytest.mark.parametrize("file", ["Makefile", "a.py"])
def test_without_the_workflows_file_no_run_is_found(file: str) -> None:
    """And what denies otherwise keeps its own words."""
    environment = {**SAVED["environment"], "GITHUB_WORKFLOW_REF": ""}
    with FakeGitHub(world(**SAVED["world"], files=[file])) as github:
        event = read_event(SAVED["payload"], environment)
        found = decide(collect(event, GitHubApi("token", github.url), NOW)).rule
    assert found == ("protected" if file == "Makefile" else "label-unclear")


@pytest.mark.parametrize("action", ["synchronize", "opened"])
def test_a_push_is_what_no_label_from_before_approved(action: str) -> None:
    payload = {**SAVED["payload"], "action": action}
    with FakeGitHub(world(**SAVED["world"])) as github:
        event = read_event(payload, SAVED["environment"])
        assert decide(collect(event, GitHubApi("token", github.url), NOW)).rule == "no-grant"


@pytest.mark.parametrize(
    ("job", "outcome"), [("pr-test-finish", "allow"), ("nothing to test", "deny")]
)
def test_the_run_of_an_edited_text_is_not_that_of_the_label(job: str, outcome: str) -> None:
    """Asked of GitHub: which of the minute's runs tested something."""
    saved = json.loads((EVENTS / "labeled-by-maintainer-on-fork.json").read_text(encoding="utf-8"))
    saved["payload"]["action"] = "reopened"
    event = read_event(saved["payload"], saved["environment"])
    jobs = [{"id": 1, "name": job, "run_attempt": 1, "status": "completed"}]
    with FakeGitHub(merged(world(**saved["world"]), {"jobs": {"1": jobs}})) as github:
        decision = decide(collect(event, GitHubApi("t", github.url), NOW))
    assert decision.outcome.value == outcome, decision.reason


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
