"""Commands in comments: an exact grammar, who may use them, and what they lead to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import HEAD, PEOPLE, FakeGitHub, world
from places import ROOT
from trees import runci

from runci import register_cpu_ci
from runci.config.gate import Entry
from runci.gate.request import WORKFLOW_BOT, Act, GateRequest, Permission, Person, Pull
from runci.gate.rules import grants
from runci.gate.slash import (
    Comment,
    Do,
    Malformed,
    Reaction,
    RerunFailed,
    RerunTest,
    Run,
    RunCi,
    SlashRequest,
    answer,
    parse,
)

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

OTHER = "d" * 40
LISTED = "{login: regular, id: 16, cooldown_minutes: 60, because: trusted}"
TEST = "test/registered/kernel/gemm/test_sm120_ba_gemm.py"


@pytest.mark.parametrize(
    ("body", "command"),
    [
        (f"/run-ci {HEAD}", RunCi(HEAD)),
        (f"/run-ci {HEAD}\n", RunCi(HEAD)),
        (f"/run-ci {HEAD}\r\nLooks good to me.", RunCi(HEAD)),
        (f"/run-ci {HEAD}  ", RunCi(HEAD)),
        ("/rerun-failed-ci", RerunFailed()),
        ("/rerun-failed-ci\n\nflaky", RerunFailed()),
        (f"/rerun-test {TEST}", RerunTest(TEST)),
        (f"/rerun-test {TEST}::TestGemm::test_small", RerunTest(f"{TEST}::TestGemm::test_small")),
        ("/rerun-test test_a.py", RerunTest("test_a.py")),
        ("/rerun-test test_a.py::T", RerunTest("test_a.py::T")),
        ("/rerun-test a.py::T::t[M=1,k::v-1.5e+3/x_]", RerunTest("a.py::T::t[M=1,k::v-1.5e+3/x_]")),
        ("/rerun-test a.py::t[-x]\r\nplease", RerunTest("a.py::t[-x]")),
    ],
)
def test_a_command_is_the_first_line(body: str, command: object) -> None:
    assert parse(body) == command


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n",
        "Please /run-ci",
        f"> /run-ci {HEAD}",
        f">/run-ci {HEAD}\n\nWhy?",
        f" /run-ci {HEAD}",
        f"\t/run-ci {HEAD}",
        f"    /run-ci {HEAD}",
        f"`/run-ci {HEAD}`",
        f"```\n/run-ci {HEAD}\n```",
        f"~~~\n/run-ci {HEAD}\n~~~",
        f"<!--\n/run-ci {HEAD}\n-->",
        f"<!-- /run-ci {HEAD} -->",
        f"\n/run-ci {HEAD}",
        f"Fine.\n/run-ci {HEAD}",
        f"- /run-ci {HEAD}",
        f"/run-ci\u00a0{HEAD}",
        f"/run-ci\t{HEAD}",
        f"/Run-CI {HEAD}",
        f"/run\u2011ci {HEAD}",
        f"\ufeff/run-ci {HEAD}",
        f"\u200b/run-ci {HEAD}",
        "/run-cis",
        "/rerun-failed-ci-now",
        "/rerun",
        "//run-ci",
    ],
)
def test_everything_else_is_none(body: str) -> None:
    assert parse(body) is None


@pytest.mark.parametrize(
    "body",
    [
        "/run-ci",
        "/run-ci ",
        "/run-ci HEAD",
        "/run-ci aaaaaaa",
        f"/run-ci {HEAD[:39]}",
        f"/run-ci {HEAD}a",
        f"/run-ci {HEAD.upper()}",
        f"/run-ci {HEAD} now",
        f"/run-ci  {HEAD}",
        f"/run-ci {HEAD}\u2028",
        "/run-ci \uff41" + HEAD[1:],
        "/rerun-failed-ci now",
        "/rerun-test",
        "/rerun-test ../../etc/passwd.py",
        "/rerun-test test/../x.py",
        "/rerun-test /etc/x.py",
        "/rerun-test -x.py",
        "/rerun-test test/-x.py",
        "/rerun-test test//x.py",
        "/rerun-test ./x.py",
        "/rerun-test test/.hidden.py",
        "/rerun-test test/x",
        "/rerun-test test/x.py::",
        "/rerun-test test/x.py::a b",
        "/rerun-test test/x.py[1]",
        "/rerun-test test/x.py::a[]",
        "/rerun-test test/x.py::a[1",
        "/rerun-test test/x.py::a]",
        "/rerun-test test/x.py::a[1]]",
        "/rerun-test test/x.py::a[1][2]",
        "/rerun-test test/x.py::a[1]::b",
        "/rerun-test test/x.py::[1]",
        "/rerun-test test/x.py::a[1 2]",
        "/rerun-test test/x.py::a['1']",
        '/rerun-test test/x.py::a["1"]',
        "/rerun-test test/x.py::a[$(id)]",
        "/rerun-test test/x.py::a[`id`]",
        "/rerun-test test/x.py::a[{0}]",
        "/rerun-test test/x.py::a[\\x]",
        "/rerun-test test/x.py::a[\u0661]",
        "/rerun-test test/x.py::a[1]\u2028",
        "/rerun-test test/x.py::a[1] --all",
        "/rerun-test test/x.py::1a",
        "/rerun-test test/x.py::-k",
        "/rerun-test test/x.py::a:b",
        "/rerun-test test/x.py:a",
        "/rerun-test test/x.py;id",
        "/rerun-test test/$(id).py",
        "/rerun-test test/`id`.py",
        "/rerun-test test/x.py --all",
        "/rerun-test test\\x.py",
        "/rerun-test test/\u0435.py",
        f"/rerun-test {'a/' * 300}x.py",
    ],
)
def test_one_of_ours_with_something_wrong_is_told_how_to_write_it(body: str) -> None:
    command = parse(body)
    assert isinstance(command, Malformed)
    assert body.split()[0] in command.usage


def test_the_usage_says_what_may_not_stand_in_brackets_and_what_to_do_then() -> None:
    told = answer(asked("/rerun-test test/x.py::a['1']"))
    assert (told.do, told.reaction) == (Do.NOTHING, Reaction.CONFUSED)
    for words in ("`_.,:=+/-`", "no spaces and no quotes", "leave the brackets out"):
        assert words in told.reply
    for example in ("test_a.py`", "test_b`", "test_d[fp16-1]`"):
        assert example in told.reply


@given(st.text(max_size=60), st.sampled_from(["/run-ci ", "/rerun-test ", "/rerun-failed-ci", ""]))
def test_any_text_is_read_and_only_plain_words_pass(text: str, start: str) -> None:
    command = parse(start + text)
    if isinstance(command, RunCi):
        assert len(command.sha) == 40 and set(command.sha) <= set("0123456789abcdef")
    if isinstance(command, RerunTest):
        assert command.target.isascii() and not set(command.target) & set(
            " \t\r\n;$`'\"\\&|<>*?(){}"
        )


def person(level: Permission, ident: int = 30) -> Person:
    return Person("somebody", ident, True, level)


AUTHOR = Person("eve", 14, True, Permission.READ)
WRITER = person(Permission.WRITE)
ENTRY = Entry("somebody", 30, 60.0)
PULL = Pull(7, is_open=True, author=AUTHOR, head_sha=HEAD, labels=("run-ci",))
PASSED = Run(31, "Base", "completed", "success")
FAILED = Run(32, "Extra", "completed", "failure")
RUNNING = Run(33, "Base", "in_progress", None)


def asked(body: str, by: Person = WRITER, **changes: Any) -> SlashRequest:
    comment = Comment(51, body, Act(by))
    return SlashRequest(comment, changes.pop("pull", PULL), runs=(PASSED, FAILED), **changes)


RUN, AGAIN, ONE = f"/run-ci {HEAD}", "/rerun-failed-ci", f"/rerun-test {TEST}"


def test_run_ci_runs_everything_again() -> None:
    told = answer(asked(RUN))
    assert (told.do, told.reaction, told.runs) == (Do.RERUN, Reaction.DONE, (PASSED, FAILED))


def test_rerun_failed_ci_runs_what_failed_again() -> None:
    told = answer(asked(AGAIN))
    assert (told.do, told.runs) == (Do.RERUN_FAILED, (FAILED,))


def test_rerun_test_starts_one_test() -> None:
    told = answer(asked(ONE))
    assert (told.do, told.target, told.runs) == (Do.DISPATCH, TEST, ())


@pytest.mark.parametrize("body", [RUN, AGAIN, ONE])
@pytest.mark.parametrize("level", list(Permission))
def test_who_may(body: str, level: Permission) -> None:
    told = answer(asked(body, person(level)))
    if level >= Permission.WRITE:
        assert told.reaction is Reaction.DONE
    else:
        assert (told.do, told.reaction) == (Do.NOTHING, Reaction.DENIED)
        assert "write access" in told.reply


@pytest.mark.parametrize(("body", "may"), [(RUN, False), (AGAIN, True), (ONE, False)])
def test_a_listed_person_may_run_again_only(body: str, may: bool) -> None:
    told = answer(asked(body, person(Permission.READ), people=(ENTRY,)))
    assert (told.reaction is Reaction.DONE) is may


def test_a_listed_persons_cooldown() -> None:
    request = asked(AGAIN, person(Permission.READ), people=(ENTRY,))
    for minutes, done in ((59.9, False), (60.0, True), (None, True)):
        used = replace(FAILED, gpu_minutes_ago=minutes)
        assert (answer(replace(request, runs=(used,))).do is Do.RERUN_FAILED) is done
    for minutes, done in ((59.9, False), (60.0, True), (None, True)):
        told = answer(replace(request, gpu_minutes_ago=minutes))  # of another pull request, say
        assert (told.do is Do.RERUN_FAILED) is done
    used = replace(FAILED, gpu_minutes_ago=1.0)
    assert answer(replace(asked(AGAIN, people=(ENTRY,)), runs=(used,))).do is Do.RERUN_FAILED


def denied(request: SlashRequest, word: str) -> None:
    told = answer(request)
    assert (told.do, told.reaction, told.runs) == (Do.NOTHING, Reaction.DENIED, ())
    assert word in told.reply


def test_what_is_denied_says_why() -> None:
    denied(asked(f"/run-ci {OTHER}"), "not the head")
    denied(asked(RUN, pull=replace(PULL, author=WRITER)), "other than the author")
    denied(asked(RUN, pull=replace(PULL, author=None)), "other than the author")
    denied(asked(RUN, pull=replace(PULL, labels=())), "run-ci")
    denied(asked(RUN, pull=replace(PULL, is_open=False)), "not open")
    denied(asked(RUN, pull=replace(PULL, is_open=None)), "not open")
    denied(asked(ONE, pull=replace(PULL, head_sha=None)), "not open")
    denied(replace(asked(RUN), runs=()), "no finished run")
    denied(replace(asked(RUN), runs=(RUNNING,)), "still running")
    denied(replace(asked(AGAIN), runs=(PASSED,)), "no failed run")
    waiting = Run(34, "Base", "completed", "action_required")
    denied(replace(asked(RUN), runs=(waiting,)), "Approve")


COUNTS = [
    asked(RUN, pull=replace(PULL, labels=())),
    asked(RUN, pull=replace(PULL, is_open=False)),  # it may be opened again
    asked(f"/run-ci {OTHER}"),  # it may become the head, again
    replace(asked(RUN), runs=()),
    replace(asked(RUN), runs=(RUNNING,)),
    replace(asked(RUN), runs=(Run(34, "Base", "completed", "action_required"),)),
]
COUNTS_NOT = [
    asked(RUN, AUTHOR),
    asked(RUN, pull=replace(PULL, author=WRITER, labels=())),
    replace(asked(RUN), comment=Comment(51, RUN, Act(WRITER, edited=True))),
    replace(asked(RUN), comment=Comment(51, RUN, Act(WRITER), is_live=False)),
    replace(asked(RUN), comment=Comment(51, RUN, Act(WRITER, through_app=True))),
    asked("/run-ci aaaaaaa"),
    replace(asked(AGAIN), runs=()),
    asked(ONE, pull=replace(PULL, is_open=False)),
]


@pytest.mark.parametrize(
    ("request_", "counts"), [*((r, True) for r in COUNTS), *((r, False) for r in COUNTS_NOT)]
)
def test_a_refused_comment_that_counts_all_the_same_says_so(
    request_: SlashRequest, counts: bool
) -> None:
    """What the answer says is what the gate does with the comment once nothing else is missing."""
    told = answer(request_)
    assert (told.do, told.runs) == (Do.NOTHING, ())
    assert ("edit or delete it" in told.reply) is counts
    command, comment = parse(request_.comment.body), request_.comment
    grant = replace(comment.act, sha=command.sha if isinstance(command, RunCi) else None)
    # A body that changed since the event is, live, another comment or an edited one.
    live = (grant,) if comment.is_live else (replace(grant, edited=True),)
    head = grant.sha or HEAD
    pull = replace(request_.pull, is_open=True, head_sha=head, comments=live)
    assert grants(GateRequest(event="workflow_dispatch", pull=pull)) is counts
    if counts:
        assert f"`{head[:12]}`" in told.reply


def test_what_is_done_is_not_taken_back() -> None:
    assert "edit or delete" not in answer(asked(RUN)).reply


def test_the_name_of_a_workflow_is_no_markdown_in_the_reply() -> None:
    # A pull request's own workflow file says what it is called.
    name = "x` @octo/all [read](https://evil.example)\n\n# Heading"
    for request in (
        replace(asked(AGAIN), runs=(replace(FAILED, workflow=name),)),
        replace(asked(RUN), runs=(Run(34, name, "completed", "action_required"),)),
    ):
        reply = answer(request).reply
        assert "``x` @octo/all [read](https://evil.example) # Heading``" in reply
        assert "\n" not in reply
    long = replace(asked(AGAIN), runs=(replace(FAILED, workflow="x" * 70_000),))
    assert len(answer(long).reply) < 300


def changed(request: SlashRequest, **changes: Any) -> SlashRequest:
    return replace(request, comment=replace(request.comment, **changes))


@pytest.mark.parametrize("body", [RUN, AGAIN, ONE])
def test_an_edited_or_foreign_comment_is_refused(body: str) -> None:
    denied(changed(asked(body), act=Act(WRITER, edited=True)), "edited")
    denied(changed(asked(body), is_live=False), "edited")
    denied(changed(asked(body), act=Act(WRITER, through_app=True)), "app")


def test_a_bot_is_not_answered() -> None:
    bot = Person(WORKFLOW_BOT, 41898282, False)
    told = answer(asked(RUN, bot))
    assert (told.do, told.reaction, told.reply) == (Do.NOTHING, None, "")


def test_a_malformed_command_of_somebody_who_may_is_explained() -> None:
    told = answer(asked("/run-ci aaaaaaa"))
    assert (told.do, told.reaction) == (Do.NOTHING, Reaction.CONFUSED)
    assert "FULL_SHA" in told.reply
    denied(asked("/run-ci aaaaaaa", AUTHOR), "write access")


def payload(body: str, user: str = "mona", **changes: Any) -> dict[str, Any]:
    saved = json.loads((ROOT / "test/fixtures/events/comment-event.json").read_text("utf-8"))
    ids = {"mona": 12, "eve": 14, "alice": 11, "regular": 16}
    return {
        "action": "created",
        "issue": {"number": 7, "pull_request": {"url": "https://api.github.com/x"}},
        "comment": {"id": 51, "body": body},
        "repository": saved["payload"]["repository"],
        "sender": {"login": user, "id": ids[user], "type": "User"},
        **changes,
    }


Runner = Callable[..., "tuple[Any, FakeGitHub]"]


@pytest.fixture
def carry_out(tmp_path: Path) -> Runner:
    """Runs `runci slash`, with a comment and a server that has it."""

    def run(body: str, *, live: str | None = None, user: str = "mona", **changes: Any) -> Any:
        pull = {"author": "eve", "head_repository": "eve/kernels"}
        runs = [
            {"id": 31, "file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed",
             "conclusion": "failure"},
            {"id": 32, "file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed",
             "conclusion": "success"},
        ]  # fmt: skip
        jobs = {"32": [{"id": 320, "name": "call-gate / gate"}]}
        notes = {"320": [{"title": "runci gate", "message": "ignore: none of ours\nNothing."}]}
        said = [{"id": 51, "user": user, "body": body if live is None else live}]
        usual = {"pull": pull, "runs": runs, "jobs": jobs, "annotations": notes, "comments": said}
        event = tmp_path / "event.json"
        event.write_text(json.dumps(payload(body, user, **changes.pop("payload", {}))), "utf-8")
        faults = changes.pop("faults", ())
        with FakeGitHub(world(**{**usual, **changes})) as github:
            for path, kind in faults:
                github.fault(path, kind)
            done = runci(
                "slash",
                "--root",
                str(ROOT),
                cwd=tmp_path,
                GITHUB_EVENT_PATH=str(event),
                GITHUB_EVENT_NAME="issue_comment",
                GITHUB_REPOSITORY="octo/kernels",
                GITHUB_RUN_ID="90",
                GITHUB_RUN_ATTEMPT="1",
                GITHUB_API_URL=github.url,
                GITHUB_TOKEN="token",
            )
        return done, github

    return run


def test_run_ci_end_to_end(carry_out: Runner) -> None:
    done, github = carry_out(RUN)
    assert done.returncode == 0, done.stderr
    # The newer run was started by a label of others: run again, it would still be ignored.
    assert [path for verb, path, _ in github.requests if verb == "POST"] == [
        "/repos/octo/kernels/actions/runs/31/rerun",
        "/repos/octo/kernels/issues/comments/51/reactions",
        "/repos/octo/kernels/issues/7/comments",
    ]
    assert github.asked("POST", "/reactions") == [{"content": "rocket"}]
    assert "PR Test (Base)" in github.asked("POST", "/issues/7/comments")[0]["body"]


def test_rerun_test_end_to_end(carry_out: Runner) -> None:
    done, github = carry_out(ONE)
    assert done.returncode == 0, done.stderr
    assert github.asked("POST", "/workflows/pr-test.yml/dispatches") == [
        {
            "ref": "main",
            "inputs": {
                "pull_request": "7",
                "head_sha": HEAD,
                "test": TEST,
                "comment_id": "51",
            },
        }
    ]
    (reply,) = github.asked("POST", "/issues/7/comments")
    page = "https://github.com/octo/kernels/actions/workflows/pr-test.yml"
    assert f"[here]({page}?query=event%3Aworkflow_dispatch)" in reply["body"]


def test_the_same_commit_in_a_pull_request_of_others_is_not_run(carry_out: Runner) -> None:
    base = {"file": "pr-test.yml", "name": "PR Test (Base)", "status": "completed"}
    mine = {**base, "id": 31, "conclusion": "failure"}
    others = [
        {**base, "id": 40, "conclusion": "failure", "head_repository": {"id": 3000}},
        {**base, "id": 41, "conclusion": "failure", "head_repository": None},
        {**base, "id": 42, "conclusion": "failure", "head_branch": "main"},
        # More of them than are looked at.
        *({**base, "id": n, "conclusion": None, "head_branch": "x"} for n in range(50, 70)),
    ]
    for body, verb in ((RUN, "rerun"), (AGAIN, "rerun-failed-jobs")):
        done, github = carry_out(body, runs=[mine, *others], jobs={})
        assert done.returncode == 0, done.stderr
        started = [path for _, path, _ in github.requests if path.endswith(verb)]
        assert started == [f"/repos/octo/kernels/actions/runs/31/{verb}"]


def test_a_refusal_by_github_says_that_the_comment_counts(carry_out: Runner) -> None:
    done, github = carry_out(RUN, faults=[("/rerun", "403")])
    assert done.returncode == 0, done.stderr
    (reply,) = github.asked("POST", "/issues/7/comments")
    assert "status 403" in reply["body"] and "edit or delete it" in reply["body"]


def test_a_stranger_starts_nothing(carry_out: Runner) -> None:
    done, github = carry_out(RUN, user="eve")
    assert done.returncode == 0, done.stderr
    assert github.asked("POST", "/reactions") == [{"content": "-1"}]
    assert not github.asked("POST", "/actions/")


@pytest.mark.parametrize(("minutes", "posts"), [(5, 0), (70, 1)])
def test_a_gpu_job_of_another_pull_request_counts(
    carry_out: Runner, minutes: int, posts: int
) -> None:
    moment = datetime.now(timezone.utc) - timedelta(minutes=minutes)
    started = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    used = {"id": 1, "labels": ["1-gpu-5090"], "status": "in_progress", "run_attempt": 1,
            "created_at": started, "started_at": started}  # fmt: skip
    failed = {"id": 31, "file": "pr-test.yml", "status": "completed", "conclusion": "failure"}
    other = {"id": 30, "file": "pr-test-extra.yml", "head_sha": OTHER, "actor": "regular"}
    people = f"version: 1\npeople:\n  - {LISTED}\n"
    _, github = carry_out(
        AGAIN,
        user="regular",
        runs=[other, failed],
        jobs={"30": [used]},
        contents={".github/ci-permissions.yml": people},
    )
    assert len(github.asked("POST", "/rerun-failed-jobs")) == posts


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": {"action": "edited"}},
        {"payload": {"action": "deleted"}},
        {"payload": {"issue": {"number": 7}}},
        {"body": f"> {RUN}"},
    ],
)
def test_what_is_no_command_asks_nothing(carry_out: Runner, changes: dict[str, Any]) -> None:
    done, github = carry_out(**{"body": RUN, **changes})
    assert done.returncode == 0, done.stderr
    assert not github.requests


def test_a_comment_that_was_edited_since_is_refused(carry_out: Runner) -> None:
    _, github = carry_out(RUN, live=f"/run-ci {OTHER}")
    assert github.asked("POST", "/reactions") == [{"content": "-1"}]
    assert not github.asked("POST", "/actions/")


def test_the_label_is_called_what_the_settings_say(carry_out: Runner) -> None:
    go = replace(PULL, labels=("go",))
    assert answer(asked(RUN, pull=go, run_label="go")).do is Do.RERUN
    denied(asked(RUN, pull=go), "`run-ci`")
    denied(asked(RUN, run_label="go"), "`go`")
    contents = {".github/ci-permissions.yml": f"{PEOPLE}labels: {{run: go}}\n"}
    for label, runs in (("go", 1), ("run-ci", 0)):
        pull = {"author": "eve", "head_repository": "eve/kernels", "labels": [label]}
        _, github = carry_out(RUN, contents=contents, pull=pull)
        assert len(github.asked("POST", "/rerun")) == runs


def test_settings_that_cannot_be_read_start_nothing(carry_out: Runner) -> None:
    done, github = carry_out(RUN, contents={".github/ci-permissions.yml": f"{PEOPLE}x: 1\n"})
    assert done.returncode != 0
    assert not github.asked("POST", "")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
