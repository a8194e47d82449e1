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
from runci.gate.api import Recorded, Recorder
from runci.gate.decide import RULES, decide
from runci.gate.events import BASE, EXTRA, read_event
from runci.gate.facts import collect
from runci.gate.github import GitHubApi

register_cpu_ci(est_time=30, stage="base-a", runner_config="cpu")

EVENTS = sorted((Path(__file__).parents[5] / "test" / "fixtures" / "events").glob("*.json"))
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_a_saved_event_is_decided_as_it_says(path: Path) -> None:
    saved = load(path)
    event = read_event(saved["payload"], saved["environment"])
    needed = EXTRA if saved.get("extra") else BASE
    with FakeGitHub(world(**saved["world"])) as github:
        recorder = Recorder(GitHubApi("token", github.url))
        decision = decide(collect(event, recorder, NOW, needed))
        asked = len(github.requests)
    told = {"outcome": decision.outcome.value, "rule": decision.rule}
    assert told == saved["expected"], decision.reason
    # What was recorded leads to the same answer without a network.
    assert decide(collect(event, Recorded(recorder.answers), NOW, needed)) == decision
    assert asked <= 20  # of the thousand that a workflow's token may ask in an hour


def test_every_rule_has_a_saved_event() -> None:
    assert {load(path)["expected"]["rule"] for path in EVENTS} == {rule.name for rule in RULES}


def test_a_label_of_others_costs_no_question() -> None:
    saved = load(next(path for path in EVENTS if path.stem == "unrelated-label"))
    with FakeGitHub() as github:
        event = read_event(saved["payload"], saved["environment"])
        decide(collect(event, GitHubApi("token", github.url), NOW))
        assert not github.requests


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
