"""The block of states in a pull request: current, one, and never at the cost of foreign text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import HEAD, FakeGitHub, world
from places import ROOT
from trees import runci

from runci import register_cpu_ci
from runci.gate.states import BEGIN, END, MOST, State, block, update, without_block
from runci.text.markdown import escaped

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

URL = "https://github.com/octo/kernels/actions/runs/31"
STATES = [State("PR Test (Base)", "success", URL), State("pr-test-extra.yml")]


def test_the_block_stands_first_and_the_text_follows() -> None:
    assert update("Makes it faster.\n", HEAD, STATES) == (
        f"{BEGIN}\n"
        "| CI for `aaaaaaaaaaaa` | state |\n"
        "|---|---|\n"
        f"| PR Test \\(Base\\) | ✅ passed ([run]({URL})) |\n"
        "| pr-test-extra.yml | not started |\n"
        f"{END}\n"
        "\n"
        "Makes it faster.\n"
    )


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (State("x", "success"), "✅"),
        (State("x", "failure"), "❌"),
        (State("x", "cancelled"), "cancelled"),
        (State("x", "in_progress"), "running"),
        (State("x", "queued"), "queued"),
        (State("x", "waiting"), "queued"),
        (State("x", "action_required"), "approval"),
        (State("x", "something new"), "queued"),
        (State("x", None), "not started"),
        (State("x", "failure", blocked="no label"), "⛔ blocked: no label"),
    ],
)
def test_each_state_has_words(state: State, word: str) -> None:
    assert word in block(HEAD, [state])[3]


def test_only_a_plain_address_becomes_a_link() -> None:
    for url in ("javascript:alert(1)", "https://x.org/) <b>", "https://x.org/a b", "x"):
        assert "](" not in block(HEAD, [State("x", "success", url)])[3]


MARKS = st.sampled_from(
    [BEGIN, END, f" {BEGIN}", f"{END}\t", f"x {BEGIN}", "<!--", "-->", "```", "| a |", "words", ""]
)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])
BODIES = st.lists(st.tuples(MARKS | st.text(max_size=5), ENDINGS)).map(
    lambda lines: "".join(line + ending for line, ending in lines)
)


@settings(deadline=None)
@given(BODIES | st.text())
@example(f"a\n{BEGIN}\nb\n{BEGIN}\nc\n{END}\nd\n")
@example(f"{END}\na\n{BEGIN}\n")
@example(f"{BEGIN}\na")
@example("\n\n")
def test_an_update_of_an_update_changes_nothing(body: str) -> None:
    once = update(body, HEAD, STATES)
    assert update(once, HEAD, STATES) == once
    other = update(once, HEAD, [State("PR Test (Base)", "failure")])
    assert update(other, HEAD, STATES) == once


@settings(deadline=None)
@given(BODIES)
def test_there_is_one_block_and_it_stands_first(body: str) -> None:
    lines = [line.strip(" \t") for line in update(body, HEAD, STATES).splitlines()]
    marks = [line for line in lines if line in (BEGIN, END)]
    assert marks == [BEGIN, END]
    assert lines[0] == BEGIN


PLAIN = st.text().filter(lambda text: "runci:pr-states" not in text)


@settings(deadline=None)
@given(PLAIN)
@example("\n")
@example("\r\n\r\nwords")
@example("no end of line")
@example("<!-- an open comment\n```\n")
def test_foreign_text_comes_back_as_it_was(text: str) -> None:
    body = text
    for state in ("queued", "in_progress", "success"):
        body = update(body, HEAD, [State("Base", state)])
        assert body.endswith(text)
    assert without_block(body) == text


def test_words_between_a_forged_mark_and_the_block_stay() -> None:
    real = "\n".join(block(HEAD, STATES))
    forged_first = f"{BEGIN}\nmy words\n{real}\nmore words\n"
    assert without_block(forged_first) == "my words\nmore words\n"
    forged_last = f"{real}\n\nmy words\n{END}\nmore\n"
    assert without_block(forged_last) == "my words\nmore\n"


def test_a_forged_state_is_replaced() -> None:
    forged = f"{BEGIN}\n| Base | ✅ passed |\n{END}\nwords\n"
    updated = update(forged, HEAD, [State("Base", "failure")])
    assert "✅" not in updated
    assert updated.endswith("words\n")


@given(st.text())
def test_foreign_text_stays_in_its_cell(text: str) -> None:
    cell = escaped(text, 300)
    assert not set(cell) & set("\r\n\u2028\u2029\x00<>")
    assert "|" not in cell.replace("\\|", "")
    assert "`" not in cell.replace("\\`", "")
    assert "@" not in cell.replace("@\u200b", "")


def test_a_text_without_room_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no room"):
        update("x" * MOST, HEAD, STATES)


def states(github: FakeGitHub, tmp_path: Path, event: str, payload: dict[str, Any]) -> Any:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    return runci(
        "pr-states",
        "--root",
        str(ROOT),
        cwd=tmp_path,
        GITHUB_EVENT_PATH=str(path),
        GITHUB_EVENT_NAME=event,
        GITHUB_REPOSITORY="octo/kernels",
        GITHUB_API_URL=github.url,
        GITHUB_TOKEN="token",
    )


REPOSITORY = {"id": 1000, "full_name": "octo/kernels"}
RUN_PAYLOAD = {
    "action": "completed",
    "repository": REPOSITORY,
    "workflow_run": {
        "id": 31,
        "head_sha": HEAD,
        "head_branch": "faster-gemm",
        "head_repository": {"full_name": "eve/kernels", "owner": {"login": "eve"}},
        "pull_requests": [],  # as for every fork
    },
}
FORK_WORLD: dict[str, Any] = {
    "pull": {"author": "eve", "head_repository": "eve/kernels", "body": "Words.\r\n"},
    "runs": [
        {"id": 31, "file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed",
         "conclusion": "failure"},
        {"id": 33, "file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed",
         "conclusion": "success"},
    ],
    "jobs": {
        "31": [{"id": 310, "name": "call-gate / gate"}],
        "33": [{"id": 330, "name": "call-gate / gate"}],
    },
    "annotations": {
        "310": [{"title": "runci gate", "message": "deny: no label | @mona <b>\nPut it on."}],
        "330": [{"title": "runci gate", "message": "ignore: none of ours\nNothing to do."}],
    },
}  # fmt: skip


def test_a_forks_run_updates_its_pull_request(tmp_path: Path) -> None:
    with FakeGitHub(world(**FORK_WORLD)) as github:
        done = states(github, tmp_path, "workflow_run", RUN_PAYLOAD)
        assert done.returncode == 0, done.stderr
        body = github.world["pull"]["body"]
        again = states(github, tmp_path, "workflow_run", RUN_PAYLOAD)
        assert again.returncode == 0, again.stderr
        assert len(github.asked("PATCH", "/pulls/7")) == 1
    # The run of the unrelated label is newer and green; the state is the other's.
    assert "⛔ blocked: no label \\| @\u200bmona &lt;b&gt;" in body
    assert "runs/31" in body
    assert body.endswith("\r\n\r\nWords.\r\n")
    assert "pr-test-extra.yml | not started" in body


def test_a_run_of_no_open_head_changes_nothing(tmp_path: Path) -> None:
    old = {**RUN_PAYLOAD, "workflow_run": {**RUN_PAYLOAD["workflow_run"], "head_sha": "d" * 40}}  # type: ignore[dict-item]
    with FakeGitHub(world(**FORK_WORLD)) as github:
        done = states(github, tmp_path, "workflow_run", old)
        assert done.returncode == 0, done.stderr
        assert not github.asked("PATCH", "")


def test_an_api_that_fails_writes_nothing(tmp_path: Path) -> None:
    with FakeGitHub(world(**FORK_WORLD)) as github:
        github.fault("/check-runs/", "500")
        done = states(github, tmp_path, "workflow_run", RUN_PAYLOAD)
        assert done.returncode == 1
        assert not github.asked("PATCH", "")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
