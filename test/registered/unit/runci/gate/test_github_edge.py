"""The edge of the gate: what a failing, slow, truncated or changing API leads to."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_git import OLDER
from fake_github import BASE, HEAD, FakeGitHub, merged, world

from runci import register_cpu_ci
from runci.gate.api import MOST_PAGES, ApiError
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.facts import Accounts, collect, label_acts, level_of
from runci.gate.github import GitHubApi
from runci.gate.request import Decision, Outcome, Permission, Person

register_cpu_ci(est_time=24, stage="base-a", runner_config="cpu")

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


def questions() -> list[str]:
    """What the gate asks, without the queries."""
    with FakeGitHub(stranger()) as github:
        assert ask(github).allowed
        return sorted({path.partition("?")[0] for _, path, _ in github.requests})


QUESTIONS = questions()


def test_all_well() -> None:
    asked = [
        re.sub(r"[0-9a-f]{40}", "SHA", path.removeprefix("/repos/octo/kernels"))
        for path in QUESTIONS
    ]
    assert asked.count("/git/trees/SHA") == 3  # of the merge, of the base, and .github
    assert asked.count("/git/blobs/SHA") == 2
    assert set(asked) == {
        "",
        "/branches/main",
        "/collaborators/eve/permission",
        "/collaborators/mona/permission",
        "/git/blobs/SHA",
        "/git/commits/SHA",
        "/git/trees/SHA",
        "/issues/7/comments",
        "/issues/7/events",
        "/pulls/7",
    }


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
        github.fault("/issues/7/comments", kind)
        decision = ask(github)
        assert len(github.asked("GET", "/issues/7/comments")) == 3
    assert decision.rule == "unknown"
    assert "/issues/7/comments" in decision.reason


def test_a_server_that_fails_once_is_forgiven() -> None:
    with FakeGitHub(stranger()) as github:
        github.fault("/issues/7/comments", "500", times=1)
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


OTHERS = [{"event": "subscribed", "actor": "eve"}] * 120
REVOKED = [
    {"event": "labeled", "label": "run-ci", "actor": "mona"},
    *OTHERS,
    {"event": "unlabeled", "label": "run-ci", "actor": "mona"},
    {"event": "labeled", "label": "run-ci", "actor": "trixie"},
]


@pytest.mark.parametrize("kind", [None, "no-link"])
def test_what_stands_beyond_the_first_page_counts(kind: str | None) -> None:
    with FakeGitHub(stranger(events=REVOKED)) as github:
        if kind:
            github.fault("/issues/7/events", kind)
        assert ask(github).rule == "no-grant"
        assert len(github.asked("GET", "/issues/7/events")) == 2


def test_a_full_page_may_be_the_last() -> None:
    with FakeGitHub(stranger(events=[*REVOKED[:1], *OTHERS[:99]])) as github:
        assert ask(github).allowed


def test_a_list_without_end_denies() -> None:
    with FakeGitHub(stranger(), page_size=1) as github:
        github.world["events"] *= 40
        decision = ask(github)
    assert decision.rule == "unknown"
    assert "pages" in decision.reason


def test_a_server_that_always_gives_the_same_page_denies() -> None:
    with FakeGitHub(stranger(events=REVOKED)) as github:
        github.fault("/issues/7/events", "same")
        decision = ask(github)
        assert len(github.asked("GET", "/issues/7/events")) == MOST_PAGES
    assert decision.rule == "unknown"


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


@pytest.mark.parametrize(("kind", "count"), [(None, 250), ("no-link", 250), ("short", None)])
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
    now["pushed"] = {HEAD: now["files"]}
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
        github.after["/issues/7/comments"] = change
        decision = ask(github)
    assert decision.rule == "unknown"
    assert "changed while" in decision.reason


OTHER = "d" * 40
MERGE = "f" * 40
HIDDEN = ["kernel/a.py", ".github/workflows/pr-test.yml"]


@dataclass
class Pushing(FakeGitHub):
    """Another head, which changes nothing protected, is there while these questions are asked."""

    pushed: range = range(0)

    def answer(self, *question: Any) -> Any:
        there = len(self.requests) - 1 in self.pushed
        self.world["pull"]["head"] = OTHER if there else HEAD
        self.world["files"] = ["kernel/b.py"] if there else HIDDEN
        return super().answer(*question)


@pytest.mark.parametrize("name", ["labeled-by-maintainer-on-fork", "dispatch-for-pull-with-grant"])
def test_a_push_that_is_taken_back_hides_nothing(name: str) -> None:
    saved = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    event = read_event(saved["payload"], saved["environment"])
    heads = {HEAD: HIDDEN, OTHER: ["kernel/b.py"]}
    state = merged(world(**saved["world"]), {"pushed": heads, "merges": {MERGE: [BASE, HEAD]}})

    def asked(pushed: range) -> tuple[str, int]:
        with Pushing(merged({}, state), pushed=pushed) as github:
            decision = decide(collect(event, GitHubApi("token", github.url), NOW))
            return decision.rule, len(github.requests)

    plain, count = asked(range(0))
    assert plain == "protected"
    windows = (range(first, last) for last in range(1, count + 1) for first in range(last))
    assert {asked(window)[0] for window in windows} <= {"protected", "superseded", "unknown"}


@pytest.mark.parametrize(
    ("name", "commit"),
    [("labeled-by-maintainer-on-fork", MERGE), ("dispatch-for-pull-with-grant", HEAD)],
)
@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("Makefile", ["100644", "blob", "1" * 40]),
        ("third_party/cutlass", ["160000", "commit", "1" * 40]),
        ("kernel/link", ["120000", "blob", "1" * 40]),
        (".github/ci-status.yml", None),
    ],
)
def test_what_a_job_checks_out_is_what_is_compared(
    name: str, commit: str, path: str, entry: list[str] | None
) -> None:
    saved = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    event = read_event(saved["payload"], saved["environment"])
    for at in (HEAD, MERGE):
        with FakeGitHub(world(**saved["world"], trees={at: {path: entry}})) as github:
            decision = decide(collect(event, GitHubApi("token", github.url), NOW))
        assert decision.rule == ("protected" if at == commit else "granted")


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
    "parents",
    [[], [HEAD], [HEAD, BASE], [HEAD, HEAD], [OTHER, HEAD], [BASE, OTHER], [BASE, HEAD, OTHER]],
)
def test_only_a_merge_of_the_head_into_the_base_branch_counts(parents: list[str]) -> None:
    with FakeGitHub(stranger(merges={MERGE: parents})) as github:
        assert ask(github).rule == "superseded"


@pytest.mark.parametrize("status", ["ahead", "behind", "diverged", "identical"])
def test_a_merge_into_an_older_commit_of_the_base_branch_counts(status: str) -> None:
    state = stranger(merges={MERGE: [OLDER, HEAD]}, compare={f"{OLDER}...{BASE}": status})
    with FakeGitHub(state) as github:
        contained = status in ("ahead", "identical")
        assert ask(github).rule == ("granted" if contained else "superseded")


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
        place = f"{REPOSITORY}/issues/7/events?page=1&per_page=100"
        github.fault("/repos/old/name/pulls", f"{status} {github.url}{place}")
        github.fault("/repos/old/name/issues", f"{status} {REPOSITORY}/issues/7/comments")
        api = GitHubApi("s3cr3t", github.url)
        assert len(api.pages("/repos/old/name/pulls/7/events", state="open")) == 1
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
