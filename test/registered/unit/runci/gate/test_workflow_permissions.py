"""Each workflow grants its token what its command asks of GitHub's API, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import HEAD, FakeGitHub, world
from perf_verdicts import of_night, recovered, worse
from places import FIXTURES, ROOT
from trees import runci, track

from runci import register_cpu_ci
from runci.nightly.record import encode
from runci.plan.model import Plan
from runci.workflows.find import read_document
from runci.workflows.model import Document
from runci.workflows.published import COMMANDS as OF_ACTION

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

Calls: TypeAlias = set[tuple[str, str]]

# From GitHub's list of the permissions that fine-grained tokens need; any one of them will do. What
# needs none (metadata) every token of a job has. The first pattern that matches counts.
NEEDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("GET", "", ()),
    ("GET", r"/collaborators/[^/]+/permission", ()),
    ("GET", r"/pulls(/\d+)?", ("pull-requests: read",)),
    ("PATCH", r"/pulls/\d+", ("pull-requests: write",)),
    ("GET", r"/issues/7/(events|comments)", ("issues: read", "pull-requests: read")),
    ("GET", r"/issues/comments/\d+", ("issues: read", "pull-requests: read")),
    ("POST", r"/issues/7/comments", ("issues: write", "pull-requests: write")),
    ("POST", r"/issues/comments/\d+/reactions", ("issues: write", "pull-requests: write")),
    ("GET", r"/issues(/\d+(/comments)?)?|/labels/[^/]+", ("issues: read",)),
    ("POST", r"/issues(/\d+/comments)?|/labels", ("issues: write",)),
    ("PATCH", r"/issues/\d+", ("issues: write",)),
    ("GET", r"/git/(commits|trees|blobs)/[^/]+|/git/ref/.+|/branches/[^/]+|/compare/.+",
     ("contents: read",)),
    ("GET", r"/actions/(runs(/\d+(/jobs)?)?|workflows/[^/]+/runs)", ("actions: read",)),
    ("POST", r"/actions/(runs/\d+/rerun(-failed-jobs)?|workflows/[^/]+/dispatches)",
     ("actions: write",)),
    ("GET", r"/check-runs/\d+/annotations", ("checks: read",)),
)  # fmt: skip


def needed(verb: str, path: str) -> tuple[str, ...]:
    """The permissions of which a request needs one; a request that nobody listed is a fault."""
    if path == "/user":  # refused to every job's token, which the command knows
        return ()
    rest = path.removeprefix("/repos/octo/kernels").partition("?")[0]
    for known, pattern, permissions in NEEDS:
        if known == verb and re.fullmatch(pattern, rest):
            return permissions
    raise AssertionError(f"{verb} {rest}: add what it needs to the table above")


def granted(job: Any) -> set[str]:
    """What the job's token may do; whoever may write may read."""
    return {f"{name}: {level}" for name, level in job["permissions"].items()}


def check(calls: Calls, file: str, job: str) -> None:
    path = f".github/workflows/{file}"
    document = read_document((ROOT / path).read_bytes(), path)
    assert isinstance(document, Document)
    check_given(calls, granted(document.jobs[job].plain()), f"{file}: the token of {job}")


def check_given(calls: Calls, given: set[str], whose: str) -> None:
    able = given | {each.replace("write", "read") for each in given}
    lacking = {(c, needed(*c)) for c in calls if needed(*c) and not able & set(needed(*c))}
    assert not lacking, f"{whose} lacks what these need"
    used = {permission for call in calls for permission in needed(*call)}
    assert given - used <= {"contents: read"}  # actions/checkout


def asked(github: FakeGitHub) -> Calls:
    return {(verb, path) for verb, path, _ in github.requests}


def run(tmp_path: Path, github: FakeGitHub, payload: Any, *arguments: str, **environ: str) -> None:
    """Run a command on an event; how it decides does not matter here, but that it could."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps(payload), encoding="utf-8")
    usual = {"GITHUB_REPOSITORY": "octo/kernels", "GITHUB_TOKEN": "token"}
    given = {"GITHUB_EVENT_PATH": str(event), "GITHUB_API_URL": github.url, "CI": "true"}
    done = runci(*arguments, cwd=tmp_path, **{**usual, **given, **environ})
    assert done.returncode in (0, 1), done.stderr


RUN = {"id": 31, "file": "pr-test.yml", "name": "Base", "status": "completed",
       "conclusion": "failure"}  # fmt: skip
JOBS = {"31": [{"id": 310, "name": "call-gate / gate", "labels": ["ubuntu-latest"], "steps": []}]}
PULL = {"author": "eve", "head_repository": "eve/kernels"}
LISTED = "{login: regular, id: 16, cooldown_minutes: 60, because: trusted}"
COMMANDS = (f"/run-ci {HEAD}", "/rerun-failed-ci", "/rerun-test test/test_a.py", "/run-ci it")


def test_slash_command(tmp_path: Path) -> None:
    saved = json.loads((ROOT / "test/fixtures/events/comment-event.json").read_text("utf-8"))
    payload = saved["payload"]
    payload["issue"]["pull_request"] = {"url": "x"}
    people = {".github/ci-permissions.yml": f"version: 1\npeople:\n  - {LISTED}\n"}
    calls: Calls = set()
    for body in COMMANDS:
        for who in ("mona", "regular"):
            payload["comment"].update(id=51, body=body)
            said = [{"id": 51, "user": who, "body": body}]
            state = world(pull=PULL, runs=[RUN], jobs=JOBS, comments=said, contents=people)
            with FakeGitHub(state) as github:
                name = {"GITHUB_EVENT_NAME": "issue_comment"}
                run(tmp_path, github, payload, "slash", "--root", str(ROOT), **name)
                calls |= asked(github)
    verbs = {(verb, path.rpartition("/")[2]) for verb, path in calls}
    assert {("POST", "rerun"), ("POST", "rerun-failed-jobs"), ("POST", "dispatches")} <= verbs
    check(calls, "slash-command.yml", "slash-command")


def test_pr_states(tmp_path: Path) -> None:
    head = {"full_name": "eve/kernels", "owner": {"login": "eve"}}
    of_run = {"id": 31, "head_sha": HEAD, "head_branch": "faster-gemm", "head_repository": head}
    payload = {"repository": {"id": 1000, "full_name": "octo/kernels"}, "workflow_run": of_run}
    with FakeGitHub(world(pull=PULL, runs=[RUN], jobs=JOBS)) as github:
        name = {"GITHUB_EVENT_NAME": "workflow_run"}
        run(tmp_path, github, payload, "pr-states", "--root", str(ROOT), **name)
        assert github.asked("PATCH", "/pulls/7")
        check(asked(github), "pr-states.yml", "pr-states")


def gate_calls(tmp_path: Path) -> Calls:
    calls: Calls = set()
    for path in sorted((ROOT / "test/fixtures/events").glob("*.json")):
        event = json.loads(path.read_text(encoding="utf-8"))
        with FakeGitHub(world(**event["world"])) as github:
            run(tmp_path, github, event["payload"], "gate", **event["environment"])
            calls |= asked(github)
    return calls


def finish_calls(root: Path) -> Calls:
    """What `runci verify --run-jobs github` asks, which is all that `finish` asks."""
    (root / "results").mkdir()
    (root / "plan.json").write_text(Plan(HEAD, ()).to_json())
    with FakeGitHub(world(jobs={"31": []})) as github:
        verify = ("verify", "plan.json", "results", "--allow-empty", "--run-jobs", "github")
        run(root, github, {}, *verify, GITHUB_RUN_ID="31")
        return asked(github)


def test_gate(tmp_path: Path) -> None:
    check(gate_calls(tmp_path), "pr-gate.yml", "gate")


def test_the_workflow_that_init_writes_and_what_is_said_of_the_action(tmp_path: Path) -> None:
    """For each job of it: the calls of all its commands, and nothing else but the checkout."""
    root = tmp_path / "kernels"
    shutil.copytree(FIXTURES / "adopt" / "kernels", root)
    assert runci("init", cwd=track(root)).returncode == 0
    asks = {"gate": gate_calls(tmp_path), "finish": finish_calls(root)}
    assert all(asks.values())
    document = read_document((root / ".github/workflows/runci.yml").read_bytes(), "runci.yml")
    assert isinstance(document, Document)
    seen: set[str] = set()
    for name, node in document.jobs.items():
        job: Any = node.plain()
        commands = {step.get("with", {}).get("command") for step in job["steps"]} - {None}
        calls = {call for command in commands for call in asks.get(command, set())}
        check_given(calls, granted(job), f"the token of {name}")
        seen |= commands
    assert seen == set(OF_ACTION)
    rows = re.findall(
        r"(?m)^\| `(\w+)` \|.*\| `((?:[a-z-]+: \w+(?:`, `)?)+)` \|$",
        (ROOT / "docs/action.md").read_text(),
    )
    assert {command for command, _ in rows} == set(OF_ACTION)
    for command, said in rows:
        check_given(asks.get(command, set()), set(said.split("`, `")), f"what is said of {command}")


@pytest.mark.parametrize("file", ["nightly-sm120.yml", "nightly-watch.yml"])
def test_notify(tmp_path: Path, file: str) -> None:
    nights: Iterable[Any] = (of_night(20, worse(20)), of_night(22, worse(22, change=0.09)),
                             of_night(23, recovered(23)))  # fmt: skip
    verdicts = tmp_path / "verdicts.json"
    with FakeGitHub(world()) as github:
        for night in nights:
            verdicts.write_bytes(encode(night))
            run(tmp_path, github, {}, "perf", "notify", str(verdicts), "--root", str(ROOT))
        calls = asked(github)
    assert {verb for verb, _ in calls} == {"GET", "POST", "PATCH"}
    check(calls, file, "notify")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
