"""The workflows that answer and tell, run under act: they run the default branch's code only."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from act_workflows import Scratch

from runci import register_cpu_ci

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

RUN = {"id": 31, "file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed"}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    folder = tmp_path_factory.mktemp("act")
    yield Scratch(folder)
    shutil.rmtree(folder, ignore_errors=True)


def comment(scratch: Scratch, body: str) -> dict[str, Any]:
    """A comment by a maintainer, and what GitHub knows of it."""
    event = scratch.saved("comment-event")
    event["payload"]["issue"]["pull_request"] = {"url": "https://api.github.com/x"}
    event["payload"]["comment"].update(id=51, body=body)
    event["payload"]["sender"] = {"login": "mona", "id": 12, "type": "User"}
    event["world"] |= {
        "comments": [{"id": 51, "user": "mona", "body": body}],
        "runs": [{**RUN, "head_sha": scratch.head, "conclusion": "failure"}],
    }
    return event


def test_a_command_starts_the_failed_jobs_again_and_is_answered(scratch: Scratch) -> None:
    ran = scratch.run("slash-command.yml", comment(scratch, "/rerun-failed-ci"))
    assert ran.jobs == {"slash-command": "success"}, str(ran)
    assert ran.checkouts == {"slash-command": [scratch.base]}
    assert len(ran.github.asked("POST", "/actions/runs/31/rerun-failed-jobs")) == 1
    assert ran.github.asked("POST", "/reactions") == [{"content": "rocket"}]
    (reply,) = ran.github.asked("POST", "/issues/7/comments")
    assert "Started again" in reply["body"]


def test_a_command_starts_the_one_test_that_it_names(scratch: Scratch) -> None:
    target = "test/registered/kernel/gemm/test_sm120_ba_gemm.py::TestGemm::test_small[1-fp16]"
    ran = scratch.run("slash-command.yml", comment(scratch, f"/rerun-test {target}"))
    assert ran.jobs == {"slash-command": "success"}, str(ran)
    (dispatch,) = ran.github.asked("POST", "/workflows/pr-test.yml/dispatches")
    assert dispatch["ref"] == "main"
    assert (dispatch["inputs"]["test"], dispatch["inputs"]["head_sha"]) == (target, scratch.head)
    (reply,) = ran.github.asked("POST", "/issues/7/comments")
    assert f"Running `{target}`" in reply["body"]


def test_text_of_a_comment_reaches_no_shell(scratch: Scratch) -> None:
    ran = scratch.run("slash-command.yml", comment(scratch, "/run-ci `touch x`\"; touch x; '"))
    assert ran.jobs == {"slash-command": "success"}, str(ran)
    assert ran.github.asked("POST", "/reactions") == [{"content": "confused"}]
    assert not ran.github.asked("POST", "/actions")


def test_any_other_comment_starts_nothing(scratch: Scratch) -> None:
    ran = scratch.run("slash-command.yml", comment(scratch, "please /rerun-failed-ci"))
    assert not ran.checkouts
    assert not ran.github.requests


def test_the_states_of_a_pull_request_are_shown_in_it(scratch: Scratch) -> None:
    event = comment(scratch, "")
    event["environment"]["GITHUB_EVENT_NAME"] = "workflow_run"
    event["payload"] = {
        "action": "completed",
        "repository": event["payload"]["repository"],
        "workflow_run": {
            "id": 31,
            "event": "pull_request",
            "head_sha": scratch.head,
            "head_branch": "faster-gemm",
            "head_repository": {
                "id": 1000,
                "full_name": "octo/kernels",
                "owner": {"login": "octo"},
            },
        },
    }
    event["world"] |= {
        "jobs": {"31": [{"id": 310, "name": "call-gate / gate"}]},
        "annotations": {"310": [{"title": "runci gate", "message": "deny: no label\nPut it on."}]},
    }
    ran = scratch.run("pr-states.yml", event)
    assert ran.jobs == {"pr-states": "success"}, str(ran)
    assert ran.checkouts == {"pr-states": [scratch.base]}
    (change,) = ran.github.asked("PATCH", "/pulls/7")
    assert "⛔ blocked: no label" in change["body"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
