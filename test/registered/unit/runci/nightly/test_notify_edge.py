"""`runci perf notify` against a GitHub that is played here, and one that fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, world
from perf_verdicts import BAD, GOOD, of_night, recovered, series, steady, suite, unmeasured, worse
from places import ROOT
from trees import runci_process

from runci import register_cpu_ci
from runci.cli import main
from runci.nightly.bisect import Searched
from runci.nightly.notify.edge import LABEL, WORKFLOW_ACCOUNT
from runci.nightly.notify.issue import Memory, Stage, mark
from runci.nightly.record import Direction, encode
from runci.nightly.verdict import Verdicts

register_cpu_ci(est_time=7, stage="base-a", runner_config="cpu")

PAGE = "https://octo.github.io/kernels/"
WRITES = ("POST", "PATCH", "PUT", "DELETE")


class Nightly:
    """Runs notify in CI against the played GitHub; `out` and `err` are of the last run."""

    def __init__(
        self,
        github: FakeGitHub,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.github, self.folder, self.capsys = github, folder, capsys
        self.out = self.err = ""
        for name, value in {
            "CI": "true",
            "GITHUB_API_URL": github.url,
            "GITHUB_REPOSITORY": "octo/kernels",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_TOKEN": "secret",
        }.items():
            monkeypatch.setenv(name, value)

    def tell(self, verdicts: Verdicts | bytes, *options: str) -> int:
        path = self.folder / "verdicts.json"
        path.write_bytes(encode(verdicts) if isinstance(verdicts, Verdicts) else verdicts)
        self.github.requests.clear()
        self.capsys.readouterr()
        code = main(["perf", "notify", str(path), "--root", str(ROOT), *options])
        self.out, self.err = self.capsys.readouterr()
        assert "Traceback" not in self.err
        assert "secret" not in self.out + self.err
        return code

    def written(self) -> list[tuple[str, str]]:
        """What was changed: verb and path below the repository."""
        return [
            (verb, path.removeprefix("/repos/octo/kernels"))
            for verb, path, _ in self.github.requests
            if verb in WRITES
        ]

    @property
    def issues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.github.world["issues"]
        return found

    def states(self) -> list[str]:
        return [issue["state"] for issue in self.issues]


@pytest.fixture
def nightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Nightly]:
    with FakeGitHub(world()) as github:
        yield Nightly(github, tmp_path, monkeypatch, capsys)


def test_a_regression_from_the_first_night_to_the_last(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20)), "--page", PAGE) == 0
    assert nightly.written() == [("POST", "/labels"), ("POST", "/issues")]
    (issue,) = nightly.issues
    assert (issue["state"], issue["labels"], issue["user"]) == ("open", [LABEL], WORKFLOW_ACCOUNT)
    assert issue["title"] == "Nightly regression: M=4 warm on NVIDIA GeForce RTX 5090"
    assert f"https://github.com/octo/kernels/compare/{GOOD}...{BAD}" in issue["body"]
    assert f"{PAGE}#metric-" in issue["body"]
    number = issue["number"]

    assert nightly.tell(of_night(20, worse(20)), "--page", PAGE) == 0
    assert nightly.written() == []
    assert "nothing to do" in nightly.out

    assert nightly.tell(of_night(21, worse(21))) == 0
    assert nightly.written() == [("PATCH", f"/issues/{number}")]
    assert "2 nights" in issue["body"]

    assert nightly.tell(of_night(22, worse(22, change=0.09))) == 0
    said, changed = ("POST", f"/issues/{number}/comments"), ("PATCH", f"/issues/{number}")
    assert nightly.written() == [said, changed]
    assert "**Worse:** 9.0 % worse" in issue["comments"][0]["body"]

    assert nightly.tell(of_night(23, recovered(23))) == 0
    assert nightly.written() == [said, changed]
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert nightly.tell(of_night(24, steady(24))) == 0
    assert nightly.written() == []

    assert nightly.tell(of_night(30, worse(30, since=29))) == 0
    assert (issue["state"], issue["state_reason"]) == ("open", "reopened")
    assert nightly.tell(of_night(31, steady(31, accepted=True))) == 0
    assert issue["state"] == "closed"
    told = [comment["body"].split(":")[0] for comment in issue["comments"]]
    assert told == ["**Worse", "**Recovered", "**It is back", "**Accepted"]
    assert len(nightly.issues) == 1


def test_tests_and_missing_nights_are_told_the_same_way(nightly: Nightly) -> None:
    verdict, tests = suite(20, "a.py::test_x")
    assert nightly.tell(of_night(20, unmeasured(20), verdict, missing=[20], suites=[tests])) == 0
    assert [issue["title"].partition(":")[0] for issue in nightly.issues] == [
        "Nightly",
        "Nightly regression",
    ]
    verdict, tests = suite(21)
    assert nightly.tell(of_night(21, steady(21), verdict, missing=[20], suites=[tests])) == 0
    assert nightly.states() == ["closed", "closed"]


def test_a_watch_without_any_record_tells_of_missing_nights(nightly: Nightly) -> None:
    assert nightly.tell(of_night(3, missing=[1])) == 0
    assert nightly.tell(of_night(4, missing=[1, 2])) == 0
    assert nightly.states() == ["open"]
    assert nightly.issues[0]["comments"] == []
    assert "`2026-12-01` to `2026-12-02`" in nightly.issues[0]["body"]


def test_the_watch_keeps_the_link_to_the_report(nightly: Nightly) -> None:
    """It knows of no page, and finds the verdicts of the night as they were."""
    verdict, tests = suite(20, "a.py::test_x")
    found = [
        verdict,
        worse(20),
        unmeasured(20, "gone"),
        *(worse(20, f"m{n}", id=series(f"m{n}", gpu="H200")) for n in range(11)),
    ]
    assert nightly.tell(of_night(20, *found, suites=[tests]), "--page", PAGE) == 0
    assert len(nightly.issues) == 4
    assert nightly.tell(of_night(20, *found)) == 0
    assert nightly.written() == []
    assert nightly.tell(of_night(21, worse(21)), "--page", f"{PAGE}new") == 0
    assert f"{PAGE}new#metric" in next(i["body"] for i in nightly.issues if "M=4" in i["title"])


def test_what_was_bisected_is_read_from_a_folder_that_may_be_absent(nightly: Nightly) -> None:
    folder = nightly.folder / "bisect"
    assert nightly.tell(of_night(20, worse(20)), "--bisect", str(folder)) == 0
    folder.mkdir()
    found = Searched(series(), Direction.LOWER, GOOD, BAD, 0.05, ("e" * 40, BAD), said="found")
    found = replace(found, suspects=("e" * 40,), confidence=0.995, author="Ada", subject="Faster")
    (folder / "bisect.json").write_bytes(encode(found))
    assert nightly.tell(of_night(21, worse(21)), "--bisect", str(folder)) == 0
    (issue,) = nightly.issues
    assert f"/octo/kernels/commit/{'e' * 40})" in issue["comments"][0]["body"]
    assert nightly.tell(of_night(21, worse(21)), "--bisect", str(folder)) == 0
    assert nightly.written() == []
    (folder / "bisect.json").write_bytes(b"{}")
    assert nightly.tell(of_night(21, worse(21)), "--bisect", str(folder)) == 2


# Whose issues they are.


@pytest.mark.parametrize(
    "foreign", [{"user": "eve"}, {"user": "labeler[bot]"}, {"pull_request": True}]
)
def test_an_issue_of_others_is_not_taken_for_ours(
    nightly: Nightly, foreign: dict[str, Any]
) -> None:
    """They copied the mark, or sent a pull request that has it."""
    body = mark(Memory(series().digest, Stage.OPEN, "2026-12-01", 0.05))
    copied = {"number": 5, "user": WORKFLOW_ACCOUNT, "title": "x", "body": body, "state": "open"}
    nightly.github.world["issues"].append({**copied, "labels": [LABEL], "comments": [], **foreign})
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.tell(of_night(21, recovered(21))) == 0
    assert nightly.states() == ["open", "closed"]
    assert nightly.issues[0]["body"] == body


@pytest.mark.parametrize("labels", [[], ["bug"]])
@pytest.mark.parametrize("above", ["", "**Looked at by Ann.**\n\n"])
def test_an_issue_that_somebody_edited_is_still_found(
    nightly: Nightly, labels: list[str], above: str
) -> None:
    assert nightly.tell(of_night(20, worse(20))) == 0
    (issue,) = nightly.issues
    issue["labels"] = labels
    issue["body"] = above + issue["body"]
    assert nightly.tell(of_night(20, worse(20, "M=8 warm"), recovered(20))) == 0
    assert nightly.states() == ["closed", "open"]
    assert issue["body"].startswith(above + "<!-- ")
    assert issue["labels"] == labels


def test_with_the_token_of_a_person_their_issues_are_ours(nightly: Nightly) -> None:
    nightly.github.world["token"] = "boss"
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.written() == []
    nightly.github.world["token"] = WORKFLOW_ACCOUNT
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert [issue["user"] for issue in nightly.issues] == ["boss", WORKFLOW_ACCOUNT]


def test_the_label_is_made_once(nightly: Nightly) -> None:
    nightly.github.world["labels"] = [LABEL]
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.written() == [("POST", "/issues")]


def test_the_label_is_asked_for_once(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20), worse(20, "M=8 warm"))) == 0
    assert nightly.written() == [("POST", "/labels"), ("POST", "/issues"), ("POST", "/issues")]
    assert len(nightly.github.asked("GET", f"/labels/{LABEL}")) == 1


def test_an_issue_that_could_not_be_found_again_is_an_error(nightly: Nightly) -> None:
    nightly.github.world["drops_labels"] = True
    assert nightly.tell(of_night(20, worse(20), worse(20, "M=8 warm"))) == 1
    assert "issues: write" in nightly.err
    assert len(nightly.issues) == 1  # and not one for each metric


def test_ours_are_found_among_hundreds(nightly: Nightly) -> None:
    """On any page of the list."""
    assert nightly.tell(of_night(20, worse(20))) == 0
    (ours,) = nightly.issues
    other = {"user": "eve", "title": "x", "body": "x", "labels": [LABEL], "comments": []}
    ours["number"] = 500
    older = [{**other, "number": n, "state": "closed"} for n in range(200, 330)]
    newer = [{**other, "number": n, "state": "open"} for n in range(600, 830)]
    nightly.github.world["issues"][:] = [*older, ours, *newer]
    nightly.github.page_size = 50
    assert nightly.tell(of_night(21, worse(21))) == 0
    assert nightly.written() == [("PATCH", "/issues/500")]


def test_of_two_nights_at_once_one_issue_stays(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20))) == 0
    twin = {**nightly.issues[0], "number": 40, "comments": []}
    nightly.github.world["issues"].append(twin)
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.states() == ["open", "closed"]
    assert twin["state_reason"] == "not_planned"
    assert f"#{nightly.issues[0]['number']}" in twin["comments"][0]["body"]
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.written() == []


# A GitHub that fails.


@pytest.mark.parametrize("kind", ["500", "403", "404", "garbage", "cut", "no-link", "short"])
def test_without_the_whole_list_nothing_is_done(nightly: Nightly, kind: str) -> None:
    names = [f"metric {n}" for n in range(4)]
    assert nightly.tell(of_night(20, *(worse(20, name) for name in names))) == 0
    nightly.github.page_size = 2
    nightly.github.fault("/repos/octo/kernels/issues", kind)
    assert nightly.tell(of_night(21, *(worse(21, name) for name in names))) == 1
    assert nightly.written() == []
    assert "run it again" in nightly.err


@pytest.mark.parametrize("kind", ["short", "garbage", "cut"])
def test_one_bad_reading_of_a_single_issue_opens_no_second_one(nightly: Nightly, kind: str) -> None:
    assert nightly.tell(of_night(20, worse(20))) == 0
    nightly.github.fault("/repos/octo/kernels/issues", kind, times=1)
    assert nightly.tell(of_night(21, worse(21))) == 1
    assert nightly.written() == []


@pytest.mark.parametrize("kind", ["401", "404", "garbage"])
def test_who_we_are_must_be_known(nightly: Nightly, kind: str) -> None:
    nightly.github.world["token"] = "boss"
    nightly.github.fault("/user", kind)
    assert nightly.tell(of_night(20, worse(20))) == 1
    assert nightly.written() == []
    assert "GET /user" in nightly.err


def test_a_server_that_fails_once_is_forgiven_where_it_is_read(nightly: Nightly) -> None:
    nightly.github.fault("/repos/octo/kernels/issues", "502", times=1)
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.states() == ["open"]


def test_what_was_done_before_a_failure_is_not_repeated(nightly: Nightly) -> None:
    """The comment arrives, the change of the issue does not."""
    assert nightly.tell(of_night(20, worse(20))) == 0
    (issue,) = nightly.issues

    def fail_after_the_comment(_: dict[str, Any]) -> None:
        if issue["comments"]:
            nightly.github.fault("/issues/8", "500", times=1)
        else:
            nightly.github.after["/comments"] = fail_after_the_comment

    nightly.github.after["/comments"] = fail_after_the_comment
    assert nightly.tell(of_night(21, recovered(21))) == 1
    assert "PATCH" in nightly.err
    assert (issue["state"], len(issue["comments"])) == ("open", 1)
    nightly.github.faults.clear()
    assert nightly.tell(of_night(21, recovered(21))) == 0
    assert (issue["state"], len(issue["comments"])) == ("closed", 1)


def test_a_failure_halfway_leaves_the_rest_for_the_next_run(nightly: Nightly) -> None:
    found = of_night(20, *(worse(20, f"metric {n}") for n in range(3)))
    nightly.github.world["labels"] = [LABEL]

    def fail_after_one(now: dict[str, Any]) -> None:
        if now["issues"]:
            nightly.github.fault("/repos/octo/kernels/issues", "500", times=1)
        else:
            nightly.github.after["/kernels/issues"] = fail_after_one

    nightly.github.after["/kernels/issues"] = fail_after_one
    assert nightly.tell(found) == 1
    assert len(nightly.issues) == 1
    nightly.github.faults.clear()
    assert nightly.tell(found) == 0
    assert len(nightly.issues) == 3
    assert len({issue["body"].split()[2] for issue in nightly.issues}) == 3


def test_an_issue_that_was_opened_though_the_answer_was_lost_is_found(nightly: Nightly) -> None:
    nightly.github.world["labels"] = [LABEL]

    def lose_the_answer(_: dict[str, Any]) -> None:
        nightly.github.fault("/repos/octo/kernels/issues", "cut", times=1)

    nightly.github.after["/labels"] = lose_the_answer
    assert nightly.tell(of_night(20, worse(20))) == 1
    assert nightly.states() == ["open"]
    assert nightly.tell(of_night(20, worse(20))) == 0
    assert nightly.states() == ["open"]
    assert nightly.written() == []


def test_changes_are_made_before_anything_is_opened(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20, "b"))) == 0
    assert nightly.tell(of_night(21, worse(21, "a"), recovered(21, "b"), worse(21, "c"))) == 0
    assert [path.rpartition("/")[2] for _, path in nightly.written()] == [
        "comments",
        "8",
        "issues",
        "issues",
    ]


# Saying without doing.


@pytest.mark.parametrize(
    ("ci", "options", "acts"),
    [
        ("true", (), True),
        ("1", (), True),
        ("true", ("--dry-run",), False),
        ("", (), False),
        ("false", (), False),
        ("0", (), False),
        ("", ("--no-dry-run",), True),
    ],
)
def test_outside_ci_nothing_is_done_unless_asked_for(
    nightly: Nightly,
    monkeypatch: pytest.MonkeyPatch,
    ci: str,
    options: tuple[str, ...],
    acts: bool,
) -> None:
    monkeypatch.setenv("CI", ci)
    assert nightly.tell(of_night(20, worse(20)), *options) == 0
    assert len(nightly.issues) == acts
    assert bool(nightly.written()) == acts
    assert ("Would be done" in nightly.out) != acts


def test_a_dry_run_shows_what_would_be_done(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20, "old"), worse(20, "fixed"))) == 0
    found = of_night(21, worse(21, "old"), recovered(21, "fixed"), worse(21, "new"))
    assert nightly.tell(found, "--dry-run") == 0
    assert nightly.written() == []
    lines = nightly.out.splitlines()
    assert any(line.startswith("rewrote #8: ") for line in lines)
    assert any(line.startswith("closed #9: ") for line in lines)
    assert "open: Nightly regression: new on NVIDIA GeForce RTX 5090" in lines
    assert "runci:perf-issue" not in nightly.out
    long = [line for line in lines if len(line) > 80 and " " in line.strip()]
    # Commands stay whole, to be copied.
    assert [line.split()[:3] for line in long] == [
        ["runci", "perf", "measure"],
        ["runci", "perf", "accept"],
    ]
    assert long[1].endswith("--reason 'WHY THIS IS RIGHT'")
    assert nightly.tell(of_night(20, worse(20, "old"), worse(20, "fixed")), "--dry-run") == 0
    assert "Nothing would be" in nightly.out


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GITHUB_REPOSITORY"])
def test_a_dry_run_needs_neither_token_nor_repository(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    assert nightly.tell(of_night(20, worse(20)), "--dry-run") == 0
    assert name in nightly.err
    assert "if there were no issues yet" in nightly.err
    assert "open: Nightly regression: M=4 warm" in nightly.out
    assert nightly.tell(of_night(20, worse(20))) == 2
    assert name in nightly.err
    assert nightly.github.requests == []


def test_a_dry_run_needs_no_network(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeGitHub(world()) as gone:
        monkeypatch.setenv("GITHUB_API_URL", gone.url)
    assert nightly.tell(of_night(20, worse(20)), "--dry-run") == 0
    assert "if there were no issues yet" in nightly.err
    assert "open: Nightly regression: M=4 warm" in nightly.out
    assert nightly.tell(of_night(20, worse(20))) == 1


def test_as_a_process_of_its_own(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20)), "--dry-run") == 0
    done = runci_process("perf", "notify", "verdicts.json", "--root", str(ROOT), cwd=nightly.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert [issue["state"] for issue in nightly.issues] == ["open"]


# Bad input.


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", 2, "not JSON"),
        (b"{}", 2, "schema"),
        (b'{"schema": 2}', 2, "schema 2"),
        (encode(of_night(20)), 3, "no verdicts"),
        (encode(of_night(20, worse(20))).replace(b"2026-12-20", b"2026-13-20"), 2, "2026-13-20"),
        (encode(of_night(20, worse(20))).replace(b"2026-12-20", b"tonight"), 2, "tonight"),
        (encode(of_night(20, worse(20))).replace(b'"us"', b"null"), 2, "unit"),
        (encode(of_night(20, worse(20))).replace(b"0.05", b"NaN"), 2, "not JSON"),
    ],
)
def test_bad_verdicts_are_refused(nightly: Nightly, data: bytes, code: int, says: str) -> None:
    assert nightly.tell(data) == code
    assert says in nightly.err
    assert "verdicts.json" in nightly.err
    assert nightly.github.requests == []


def test_bad_arguments_are_refused(nightly: Nightly) -> None:
    assert nightly.tell(of_night(20, worse(20)), "--page", "javascript:x") == 2
    assert "--page" in nightly.err
    assert nightly.tell(of_night(20, worse(20)), "--config", "no such file") == 2
    assert "no such file" in nightly.err
    assert main(["perf", "notify", "no such verdicts", "--root", str(ROOT)]) == 2
    assert nightly.github.requests == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
