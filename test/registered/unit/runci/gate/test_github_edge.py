"""The edge of the gate: what a failing, slow, truncated or changing API leads to."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import HEAD, FakeGitHub, world

from runci import register_cpu_ci
from runci.gate.api import ApiError
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.facts import Accounts, changed_paths, collect, label_acts, level_of, reached_gpu
from runci.gate.github import GitHubApi
from runci.gate.request import Decision, Outcome, Permission, Person

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

EVENTS = Path(__file__).parents[5] / "test" / "fixtures" / "events"
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
SAVED = json.loads((EVENTS / "labeled-by-maintainer-on-fork.json").read_text(encoding="utf-8"))
EVENT = read_event(SAVED["payload"], SAVED["environment"])


def stranger(**changes: Any) -> dict[str, Any]:
    """A stranger's fork that a maintainer labelled: the run that needs most questions."""
    pull = {"author": "eve", "head_repository": "eve/kernels", **changes.pop("pull", {})}
    return world(pull=pull, **changes)


def ask(github: FakeGitHub, **limits: Any) -> Decision:
    return decide(collect(EVENT, GitHubApi("token", github.url, **limits), NOW))


QUESTIONS = [
    "/repos/octo/kernels",
    "/collaborators/mona/permission",
    "/collaborators/eve/permission",
    "/pulls/7",
    "/git/commits/" + "f" * 40,
    "/pulls/7/files",
    "/issues/7/events",
    "/issues/7/comments",
    "/contents/.github/ci-status.yml",
    "/contents/.github/ci-permissions.yml",
]


def test_all_well() -> None:
    with FakeGitHub(stranger()) as github:
        assert ask(github).allowed
        asked = [path.partition("?")[0] for _, path, _ in github.requests]
    assert all(any(path.endswith(question) for path in asked) for question in QUESTIONS)


@pytest.mark.parametrize("kind", ["404", "403", "401", "garbage", "cut"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_without_a_whole_answer_denies(question: str, kind: str) -> None:
    with FakeGitHub(stranger()) as github:
        github.fault(question, kind)
        decision = ask(github)
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")


@pytest.mark.parametrize("kind", ["500", "502", "503"])
def test_a_server_that_fails_is_asked_again_and_then_denies(kind: str) -> None:
    with FakeGitHub(stranger()) as github:
        github.fault("/pulls/7/files", kind)
        decision = ask(github)
        assert len(github.asked("GET", "/pulls/7/files")) == 3
    assert decision.rule == "unknown"
    assert "/pulls/7/files" in decision.reason


def test_a_server_that_fails_once_is_forgiven() -> None:
    with FakeGitHub(stranger()) as github:
        github.fault("/pulls/7/files", "500", times=1)
        assert ask(github).allowed


def test_a_rate_limit_is_not_waited_for() -> None:
    with FakeGitHub(stranger()) as github:
        github.fault("/pulls/7", "429")
        started = time.monotonic()
        assert ask(github).rule == "unknown"
        assert time.monotonic() - started < 10


def test_a_slow_server_denies_in_time() -> None:
    with FakeGitHub(stranger(), slow_seconds=30) as github:
        github.fault("/pulls/7", "slow")
        started = time.monotonic()
        assert ask(github, timeout=1).rule == "unknown"
        assert time.monotonic() - started < 15


def test_all_questions_together_are_bounded() -> None:
    with FakeGitHub(stranger()) as github:
        decision = ask(github, seconds=-1)
        assert not github.requests
    assert "took too long" in decision.reason


def test_no_server_denies() -> None:
    with FakeGitHub(stranger()) as github:
        url = github.url
    assert decide(collect(EVENT, GitHubApi("token", url), NOW)).rule == "unknown"


FILES = [f"kernel/file_{n}.py" for n in range(250)]


def test_files_beyond_the_first_page_count() -> None:
    with FakeGitHub(stranger(files=[*FILES, "Makefile"])) as github:
        assert ask(github).rule == "protected"
        assert len(github.asked("GET", "/pulls/7/files")) == 3


@pytest.mark.parametrize("kind", ["short", "no-link"])
def test_a_truncated_list_of_files_denies(kind: str) -> None:
    with FakeGitHub(stranger(files=FILES)) as github:
        github.fault("/pulls/7/files", kind, times=1)
        decision = ask(github)
    assert decision.rule == "unknown"
    assert "of 250 changed files" in decision.reason


def test_a_list_without_end_denies() -> None:
    with FakeGitHub(stranger(), page_size=1) as github:
        github.world["events"] *= 40
        decision = ask(github)
    assert decision.rule == "unknown"
    assert "pages" in decision.reason


def test_exactly_three_thousand_files_are_listed() -> None:
    files = [f"kernel/file_{n}.py" for n in range(3000)]
    with FakeGitHub(stranger(files=files)) as github:
        assert ask(github).allowed


def test_a_renamed_file_without_its_former_name_denies() -> None:
    with FakeGitHub(stranger(files=[{"filename": "a.py", "status": "renamed"}])) as github:
        assert ask(github).rule == "unknown"


def test_what_github_says_it_cannot_list_is_never_whole() -> None:
    files = [{"filename": f"{n}.py", "status": "added"} for n in range(3001)]
    with pytest.raises(ApiError, match="3001 files"):
        changed_paths({"changed_files": 3001}, files)
    assert len(changed_paths({"changed_files": 3000}, files[:3000])) == 3000
    for count in (None, True, "3000", -1):
        with pytest.raises(ApiError):
            changed_paths({"changed_files": count}, files[:1])


def test_a_label_that_was_taken_off_was_put_on_by_nobody() -> None:
    def event(number: int, kind: str, login: str, ident: int) -> dict[str, Any]:
        actor = {"login": login, "id": ident, "type": "Bot"}
        return {"id": number, "event": kind, "label": {"name": "run-ci"}, "actor": actor}

    on, off = event(1, "labeled", "one[bot]", 1), event(2, "unlabeled", "two[bot]", 2)
    again = event(3, "labeled", "three[bot]", 3)
    with FakeGitHub() as github:
        accounts = Accounts(GitHubApi("token", github.url), "/repos/octo/kernels")
        assert label_acts([on, off], {"run-ci"}, accounts) == {}
        # The numbers of the events order them, not the place in the answer.
        assert label_acts([again, off, on], {"run-ci"}, accounts)["run-ci"].by.id == 3
        assert label_acts([on], {"docs"}, accounts) == {}
        assert label_acts([on | {"actor": None}], {"run-ci"}, accounts) == {}


@pytest.mark.parametrize(("kind", "count"), [(None, 250), ("short", None), ("no-link", None)])
def test_a_list_that_says_how_long_it_is_is_counted(kind: str | None, count: int | None) -> None:
    runs = [{"id": 1000 + n, "file": "pr-test.yml"} for n in range(250)]
    with FakeGitHub(world(runs=runs)) as github:
        if kind:
            github.fault("/runs", kind, times=1)
        api, path = GitHubApi("token", github.url), "/repos/octo/kernels/actions/workflows"
        if count is None:
            with pytest.raises(ApiError, match="of 250 listed"):
                api.pages(f"{path}/pr-test.yml/runs", "workflow_runs")
        else:
            assert len(api.pages(f"{path}/pr-test.yml/runs", "workflow_runs")) == count


def push(now: dict[str, Any]) -> None:
    now["pull"]["head"] = "e" * 40


def unlabel(now: dict[str, Any]) -> None:
    now["pull"]["labels"] = []


def close(now: dict[str, Any]) -> None:
    now["pull"]["state"] = "closed"


def retarget(now: dict[str, Any]) -> None:
    now["pull"]["base_ref"] = "release"


@pytest.mark.parametrize("change", [push, unlabel, close, retarget])
def test_a_pull_request_that_changes_while_it_is_read_denies(
    change: Callable[[dict[str, Any]], None],
) -> None:
    with FakeGitHub(stranger()) as github:
        github.after["/pulls/7/files"] = change
        decision = ask(github)
    assert decision.rule == "unknown"
    assert "changed while" in decision.reason


def test_a_harmless_commit_pushed_only_for_the_list_of_files_denies() -> None:
    def back(now: dict[str, Any]) -> None:
        now["pull"]["head"] = HEAD
        now["files"] = ["ci_scripts/runci/gate.py"]

    with FakeGitHub(stranger()) as github:
        assert ask(github).allowed
    with FakeGitHub(stranger()) as github:
        github.after = {"/issues/7/comments": push, "/pulls/7/files": back}
        assert ask(github).rule == "unknown"


def test_another_repository_of_the_same_name_denies() -> None:
    with FakeGitHub(stranger(repository={"id": 1001})) as github:
        assert ask(github).rule == "unknown"


def test_a_schedule_of_another_repository_of_the_same_name_denies() -> None:
    saved = json.loads((EVENTS / "schedule.json").read_text(encoding="utf-8"))
    event = read_event(saved["payload"], saved["environment"])
    for number, allowed in ((1000, True), (1001, False)):
        with FakeGitHub(world(repository={"id": number})) as github:
            decision = decide(collect(event, GitHubApi("token", github.url), NOW))
        assert decision.allowed is allowed


@pytest.mark.parametrize(
    "parents", [[], ["a" * 40], ["a" * 40, "b" * 40], ["b" * 40, "a" * 40, "c" * 40]]
)
def test_only_a_merge_of_the_head_into_one_other_counts(parents: list[str]) -> None:
    with FakeGitHub(stranger(merges={"f" * 40: parents})) as github:
        assert ask(github).rule == "superseded"


@pytest.mark.parametrize("run", [{"run_attempt": 3}, {"event": "push"}, {"triggering_actor": None}])
def test_a_re_run_that_github_knows_otherwise_denies(run: dict[str, Any]) -> None:
    saved = json.loads((EVENTS / "comment-grant.json").read_text(encoding="utf-8"))
    event = read_event(saved["payload"], saved["environment"])
    for changes, allowed in (({}, True), (run, False)):
        runs = [{**saved["world"]["runs"][0], **changes}]
        with FakeGitHub(world(**{**saved["world"], "runs": runs})) as github:
            decision = decide(collect(event, GitHubApi("token", github.url), NOW))
        assert decision.allowed is allowed


def test_a_comment_by_a_deleted_account_is_no_grant() -> None:
    comments = [{"id": 1, "user": None, "body": f"/run-ci {HEAD}"}]
    events = [{"event": "labeled", "label": "run-ci", "actor": "trixie"}]
    with FakeGitHub(stranger(comments=comments, events=events)) as github:
        assert ask(github).rule == "no-grant"


def test_a_pull_request_of_a_deleted_account_denies() -> None:
    with FakeGitHub(stranger(pull={"author": None})) as github:
        assert ask(github).rule == "unknown"


def test_the_token_is_sent_and_told_to_nobody() -> None:
    with FakeGitHub(stranger()) as github:
        github.fault("/pulls/7", "401")
        decision = decide(collect(EVENT, GitHubApi("s3cr3t", github.url), NOW))
    assert "s3cr3t" not in decision.reason
    assert "as the test wants it" not in decision.reason  # nor what the server wrote


REPOSITORY = "/repos/octo/kernels"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_what_moved_within_the_server_is_asked_there(status: int) -> None:
    with FakeGitHub() as github:
        place = f"{REPOSITORY}/pulls/7/files?page=1&per_page=100"
        github.fault("/repos/old/name/pulls", f"{status} {github.url}{place}")
        github.fault("/repos/old/name/issues", f"{status} {REPOSITORY}/issues/7/comments")
        api = GitHubApi("s3cr3t", github.url)
        assert len(api.pages("/repos/old/name/pulls/7/files", state="open")) == 1
        assert github.requests[-1] == ("GET", place, None)
        api.send("POST", "/repos/old/name/issues/7/comments", {"body": "x"})
        assert github.asked("POST", f"{REPOSITORY}/issues") == [{"body": "x"}]
        assert set(github.authorized) == {"token s3cr3t"}


@pytest.mark.parametrize("to", ["{other}/repos/octo/kernels", "//{name}/x", "http://a@{here}/x"])
def test_no_other_server_is_asked(to: str) -> None:
    with FakeGitHub() as github, FakeGitHub() as other:
        here, name = github.url.removeprefix("http://"), other.url.removeprefix("http://")
        place = to.format(other=other.url, name=name, here=here)
        github.fault(REPOSITORY, f"301 {place}")
        with pytest.raises(ApiError, match="another server") as caught:
            GitHubApi("s3cr3t", github.url).get(REPOSITORY)
        assert (len(github.requests), other.requests) == (1, [])
    assert caught.value.status == 301
    assert "s3cr3t" not in str(caught.value)


def test_what_moves_for_ever_is_no_answer() -> None:
    with FakeGitHub() as github:
        github.fault(REPOSITORY, f"302 {REPOSITORY}?again")
        with pytest.raises(ApiError, match="moved too often"):
            GitHubApi("token", github.url).get(REPOSITORY)
        assert len(github.requests) == 4


@pytest.mark.parametrize("kind", ["202", "303", "garbage"])
def test_what_is_no_answer_yet_or_no_json_is_an_error(kind: str) -> None:
    with FakeGitHub() as github:
        github.fault(REPOSITORY, kind)
        with pytest.raises(ApiError):
            GitHubApi("token", github.url).get(REPOSITORY)
        assert len(github.requests) == 1


@pytest.mark.parametrize("status", [303, 404, 502])
def test_a_change_is_sent_once(status: int) -> None:
    with FakeGitHub() as github:
        github.fault("/comments", str(status))
        with pytest.raises(ApiError, match=f"status {status}") as caught:
            GitHubApi("token", github.url).send("POST", f"{REPOSITORY}/issues/7/comments", {})
        assert github.asked("POST", "/comments") == [{}]
    assert caught.value.status == status


@pytest.mark.parametrize(("token", "sent"), [("s3cr3t", "token s3cr3t"), ("", None)])
def test_a_netrc_file_says_nothing(
    token: str, sent: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login mona password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with FakeGitHub() as github:
        GitHubApi(token, github.url).get(REPOSITORY)
        assert github.authorized == [sent]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with FakeGitHub() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert GitHubApi("token", "http://api.invalid/").get(REPOSITORY)["id"] == 1000
        assert [path for _, path, _ in proxy.requests] == [f"http://api.invalid{REPOSITORY}"]


@pytest.mark.parametrize("token", ["s3cr3t\nX-More: 1", "s3cr3t\u2603"])
def test_a_token_that_no_header_can_hold_is_not_told(token: str) -> None:
    with FakeGitHub() as github:
        with pytest.raises(ApiError) as caught:
            GitHubApi(token, github.url).get(REPOSITORY)
        assert not github.requests
    assert "s3cr3t" not in str(caught.value)


WHO = Person("mona", 12, True)
ROLES = [
    ("admin", "admin", Permission.ADMIN),
    ("write", "maintain", Permission.MAINTAIN),
    ("write", "write", Permission.WRITE),
    ("read", "triage", Permission.TRIAGE),
    ("read", "read", Permission.READ),
    ("none", "none", Permission.NONE),
    ("write", "kernel-release", Permission.WRITE),  # a custom role is never maintain
    ("admin", "kernel-owner", Permission.ADMIN),
    ("read", "kernel-triage", Permission.READ),
    ("write", None, Permission.WRITE),  # an older server has no roles
    ("read", "admin", None),  # what does not fit together is not known
    ("read", "write", None),
    ("maintain", "maintain", None),
    ("owner", "owner", None),
    (None, "admin", None),
    (None, None, None),
]


@pytest.mark.parametrize(("older", "role", "level"), ROLES)
def test_a_permission_is_read_strictly(
    older: str | None, role: str | None, level: Permission | None
) -> None:
    answer = {"permission": older, "role_name": role, "user": {"id": 12}}
    if level is None:
        with pytest.raises(ApiError):
            level_of(answer, WHO)
    else:
        assert level_of(answer, WHO) is level


@pytest.mark.parametrize("user", [{"id": 13}, {}, None, {"id": "12"}, {"id": True}])
def test_a_permission_of_another_account_is_not_known(user: object) -> None:
    with pytest.raises(ApiError):
        level_of({"permission": "admin", "role_name": "admin", "user": user}, WHO)


def job(**changes: Any) -> dict[str, Any]:
    steps = [{"name": "Run tests", "conclusion": "success"}]
    usual = {"labels": ["1-gpu-5090"], "status": "completed", "conclusion": "success"}
    return {**usual, "steps": steps, **changes}


JOBS = [
    (job(), True),
    (job(status="queued", steps=[]), True),
    (job(status="in_progress", steps=[]), True),
    (job(steps=[]), False),
    (job(labels=["ubuntu-latest"]), False),
    (job(labels=["ubuntu-24.04", "windows-2025"]), False),
    (job(labels=["ubuntu-latest", "gpu"]), True),
    (job(labels=["my-ubuntu-latest"]), True),
    (job(labels=[]), False),
    (job(steps=[{"name": "Set up runner", "conclusion": "failure"}]), False),
    (job(steps=[{"name": "Ask the gate", "conclusion": "failure"}]), False),
    (job(steps=[{"name": "Run tests", "conclusion": "skipped"}]), False),
    (job(steps=[{"name": "Run tests", "conclusion": "failure"}]), True),
    # The worker died in the step, or before it.
    (job(steps=[{"name": "Run tests", "conclusion": None, "status": "in_progress"}]), True),
    (job(steps=[{"name": "Run tests", "conclusion": None, "status": "pending"}]), False),
]


@pytest.mark.parametrize(("found", "reached"), JOBS)
def test_only_a_job_that_ran_on_a_gpu_counts(found: dict[str, Any], reached: bool) -> None:
    assert reached_gpu(found) is reached


@pytest.mark.parametrize("found", [job(labels=None), job(steps=None), job(steps={}), None, 7])
def test_a_job_of_another_shape_is_not_taken_for_one_without_a_gpu(found: Any) -> None:
    with pytest.raises(ApiError):
        reached_gpu(found)


ENVIRONMENT = SAVED["environment"]


@pytest.mark.parametrize(
    "broken",
    [
        {"GITHUB_RUN_ATTEMPT": "0"},
        {"GITHUB_RUN_ATTEMPT": "-1"},
        {"GITHUB_RUN_ATTEMPT": "1x"},
        {"GITHUB_RUN_ATTEMPT": ""},
        {"GITHUB_RUN_ATTEMPT": "2"},  # GitHub knows no such attempt
        {"GITHUB_REPOSITORY": "octo/others"},
        {"GITHUB_EVENT_NAME": ""},
    ],
)
def test_an_environment_that_does_not_fit_denies(broken: dict[str, str]) -> None:
    event = read_event(SAVED["payload"], {**ENVIRONMENT, **broken})
    with FakeGitHub(stranger()) as github:
        assert decide(collect(event, GitHubApi("token", github.url), NOW)).rule == "unknown"


@pytest.mark.parametrize("payload", [None, [], "x", {}, {"pull_request": 7}, {"repository": None}])
def test_a_payload_of_another_shape_denies(payload: object) -> None:
    event = read_event(payload, ENVIRONMENT)
    with FakeGitHub(stranger()) as github:
        decision = decide(collect(event, GitHubApi("token", github.url), NOW))
    assert decision.outcome is Outcome.DENY


@pytest.mark.parametrize(
    "sha", ["a" * 39, "A" * 40, "a" * 41, "a" * 64, "refs/heads/main", 7, None]
)
def test_only_a_full_commit_is_one(sha: object) -> None:
    payload = {**SAVED["payload"]}
    payload["pull_request"] = {**payload["pull_request"], "head": {"sha": sha}}
    assert read_event(payload, ENVIRONMENT).run_sha is None


@pytest.mark.parametrize(
    "inputs",
    [{"pull_request": "7"}, {"head_sha": HEAD}, {"pull_request": 7}, {"comment_id": "5"}],
)
def test_a_form_that_is_filled_in_anywhere_is_for_a_pull_request(inputs: dict[str, Any]) -> None:
    environment = {**ENVIRONMENT, "GITHUB_EVENT_NAME": "workflow_dispatch"}
    assert read_event({"inputs": inputs}, environment).for_pull is True
    assert read_event({"inputs": {"test": ""}}, environment).for_pull is False
    assert read_event({"inputs": None}, environment).for_pull is False


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
