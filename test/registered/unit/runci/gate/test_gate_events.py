"""Saved events, each a way that a gate was or could be misled, decided through the real client."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, world

from runci import register_cpu_ci
from runci.config.gate import Host, HostRepository, HostWorkflow
from runci.gate.api import Recorded, Recorder
from runci.gate.decide import RULES, decide
from runci.gate.events import person, read_event
from runci.gate.facts import collect
from runci.gate.github import GitHubApi
from runci.gate.host import decide_on_host
from runci.gate.request import WORKFLOW_BOT

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

EVENTS = sorted((Path(__file__).parents[5] / "test" / "fixtures" / "events").glob("*.json"))
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_a_saved_event_is_decided_as_it_says(path: Path) -> None:
    saved = load(path)
    event = read_event(saved["payload"], saved["environment"])
    extra = bool(saved.get("extra"))
    with FakeGitHub(world(**saved["world"])) as github:
        recorder = Recorder(GitHubApi("token", github.url))
        decision = decide(collect(event, recorder, NOW, extra=extra))
        asked = len(github.requests)
    told = {"outcome": decision.outcome.value, "rule": decision.rule}
    assert told == saved["expected"], decision.reason
    # What was recorded leads to the same answer without a network.
    assert decide(collect(event, Recorded(recorder.answers), NOW, extra=extra)) == decision
    assert asked <= 20  # of the thousand that a workflow's token may ask in an hour


@pytest.mark.parametrize(
    ("refs", "head", "rule"),
    [
        ("refs/heads/gh-readonly-queue/main/*", "a", "queued"),
        ("refs/heads/gh-readonly-queue/main/*", "d", "unknown"),  # the run is of another commit
        ("refs/heads/main", "a", "host-list"),
    ],
)
def test_a_host_takes_a_queue_that_it_lists(refs: str, head: str, rule: str) -> None:
    saved = load(next(path for path in EVENTS if path.stem == "merge-group"))
    event = read_event(saved["payload"], saved["environment"])
    workflow = HostWorkflow(".github/workflows/pr-test.yml", (refs,))
    host = Host((HostRepository("octo/kernels", 1000, (workflow,)),))
    run = {"id": 31, "file": "pr-test.yml", "event": "merge_group", "head_sha": head * 40}
    with FakeGitHub(world(**saved["world"], runs=[run])) as github:
        assert decide_on_host(event, host, GitHubApi("token", github.url), NOW).rule == rule


def test_every_rule_has_a_saved_event() -> None:
    assert {load(path)["expected"]["rule"] for path in EVENTS} == {rule.name for rule in RULES}


def test_a_label_of_others_costs_only_the_questions_after_the_labels_names() -> None:
    saved = load(next(path for path in EVENTS if path.stem == "unrelated-label"))
    with FakeGitHub() as github:
        event = read_event(saved["payload"], saved["environment"])
        assert decide(collect(event, GitHubApi("token", github.url), NOW)).rule == "other-label"
        asked = [path.removeprefix("/repos/octo/kernels") for _, path, _ in github.requests]
    kinds = [path.rpartition("/")[0] for path in asked]
    assert kinds == ["", "/branches", "/git/trees", "/git/trees", "/git/blobs"]


def rerun_by(login: str, **changes: Any) -> str:
    """The rule about a second attempt that this account started."""
    saved = load(next(path for path in EVENTS if path.stem == "labeled-by-maintainer-on-fork"))
    environment = {**saved["environment"], "GITHUB_RUN_ATTEMPT": "2"}
    event = read_event(saved["payload"], environment)
    run = {"id": 31, "file": "pr-test.yml", "run_attempt": 2, "triggering_actor": login}
    with FakeGitHub(world(**saved["world"], runs=[run], **changes)) as github:
        return decide(collect(event, GitHubApi("token", github.url), NOW)).rule


@pytest.mark.parametrize("ident", [41898282, 9919])
def test_the_workflows_own_token_has_another_number_on_each_server(ident: int) -> None:
    assert rerun_by(WORKFLOW_BOT, bots={WORKFLOW_BOT: ident}) == "granted"


@pytest.mark.parametrize("login", ["labeler[bot]", "github-actions"])
def test_nobody_else_is_the_workflows_token(login: str) -> None:
    bots = {"labeler[bot]": 41898282, "github-actions": 9919}
    assert rerun_by(login, bots=bots) == "re-run"


@pytest.mark.parametrize(("kind", "is_bot"), [("Bot", True), ("User", False), ("App", False)])
def test_a_bots_name_alone_makes_no_bot(kind: str, is_bot: bool) -> None:
    found = person({"login": WORKFLOW_BOT, "id": 9919, "type": kind})
    assert (found is not None and found.is_workflow_bot) is is_bot


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
