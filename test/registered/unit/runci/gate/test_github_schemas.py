"""Saved events and the played API's answers against the schemas that GitHub publishes.

Ours say a part of what GitHub says, whose payloads have a hundred required fields. So every field
that is there must be one that GitHub's schema knows, with its type, values and format; nothing must
be there, but what our code reads. What it reads is noted while it runs, and must be required by the
schema, or stand in MAY_LACK with what its absence means.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`
sys.path.insert(0, str(Path(__file__).parent))  # for pytest

import test_workflow_permissions as commands
from direct_api import DirectApi
from fake_github import FakeGitHub, world
from github_schemas import SCHEMAS, Schemas, watched
from places import ROOT

from runci import register_cpu_ci
from runci.commands import gate, pr_states, slash
from runci.gate.api import Api, Recorder
from runci.gate.events import live_api, read_event
from runci.gate.facts import collect
from runci.gate.github import GitHubApi
from runci.nightly.notify import edge

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

EVENTS = {path.stem: json.loads(path.read_text(encoding="utf-8"))
          for path in sorted((ROOT / "test" / "fixtures" / "events").glob("*.json"))}  # fmt: skip
# What these lack is what they are for.
BROKEN = {"payload-without-head", "payload-without-repository"}
MALFORMED = {"edited-malformed"}
NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
REPO = "/repos/{owner}/{repo}"

# What a field's absence means where it is read and GitHub does not promise it, by schema.
MAY_LACK: dict[str, dict[str, str]] = {
    f"GET {REPO}/actions/runs": {
        "workflow_runs.[].actor": "whose branch it is decides",
        "workflow_runs.[].triggering_actor": "whose branch it is decides",
    },
    f"GET {REPO}/actions/runs/{{run_id}}": {
        "run_attempt": "denied: the run is at another attempt",
        "triggering_actor": "denied: nobody started this attempt",
    },
    f"GET {REPO}/actions/runs/{{run_id}}/jobs": {
        "jobs.[].run_attempt": "counts as a job of another attempt",
        "jobs.[].steps": "denied where the job ended and needed a GPU",
    },
    f"GET {REPO}/actions/workflows/{{workflow_id}}/runs": {
        "workflow_runs.[].actor": "somebody else's run",
        "workflow_runs.[].name": "the file's",
    },
    f"GET {REPO}/issues": {"[].body": "none of ours", "[].pull_request": "an issue"},
    f"GET {REPO}/issues/comments/{{comment_id}}": {
        "body": "no command", "performed_via_github_app": "no app wrote it",
    },
    f"GET {REPO}/issues/{{issue_number}}/comments": {
        "[].body": "no command", "[].performed_via_github_app": "no app wrote it",
    },
    f"GET {REPO}/issues/{{issue_number}}/events": {"[].label": "about no label"},
    f"GET {REPO}/pulls/{{pull_number}}": {"draft": "denied: not known"},
    f"POST {REPO}/issues": {"labels.[].name": "the label was not put on"},
    "event merge_group checks_requested": {
        "repository": "denied: not known",
        "sender": "denied: not known",
    },
    "event pull_request edited": {
        "changes.base": "the base is the same",
        "sender": "denied: not known",
    },
    "event pull_request labeled": {"label": "denied: not known"},
    "event pull_request unlabeled": {"label": "denied: not known"},
    "event push": {"sender": "not asked for"},
}  # fmt: skip

# Where GitHub gives what its schema of the answer does not know.
BEYOND = {
    f"GET {REPO}/pulls/{{pull_number}}: head.repo: None is not of type 'object'":
        "null for a deleted fork, as the schema of the event says",
}  # fmt: skip


class Checked(FakeGitHub):
    """Keeps every answer that it gave, and what was sent, by the name of its schema."""

    given: list[tuple[str, Any]] = []  # noqa: RUF012 (of all servers of a test)

    def answer(self, verb: str, path: str, query: Any, body: Any) -> Any:
        answer = super().answer(verb, path, query, body)
        if isinstance(answer, (dict, list)):
            self.given.append((of.of(verb, path), json.loads(json.dumps(answer))))
        if body:
            self.given.append((f"body {of.of(verb, path)}", body))
        return answer


class Watching:
    """An API that notes what is read of its answers."""

    def __init__(self, api: Api, reads: dict[str, set[Any]]) -> None:
        self._api, self._reads = api, reads

    def get(self, path: str, **query: str) -> Any:
        return watched(self._api.get(path, **query), (), self._reads[of.of("GET", path)])

    def pages(self, path: str, key: str | None = None, **query: str) -> Any:
        where = (key, "[]") if key else ("[]",)
        found, seen = self._api.pages(path, key, **query), self._reads[of.of("GET", path)]
        return [watched(each, where, seen) for each in found]

    def send(self, verb: str, path: str, body: Any) -> Any:
        return watched(self._api.send(verb, path, body), (), self._reads[of.of(verb, path)])


of = Schemas()


def name_of(environment: Any, payload: Any) -> str:
    # The payload of both is one and the same.
    event = environment["GITHUB_EVENT_NAME"].replace("pull_request_target", "pull_request")
    return f"event {event} {payload.get('action', '')}".rstrip()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """All that every command asked, was told and read: on every saved event, and on commands."""
    reads: dict[str, set[Any]] = defaultdict(set)
    Checked.given.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "FakeGitHub", Checked)
        for module in (edge, pr_states, slash, gate):
            patch.setattr(module, "live_api", lambda environ: Watching(live_api(environ), reads))
        commands.test_gate(tmp_path_factory.mktemp("gate"))
        commands.test_slash_command(tmp_path_factory.mktemp("slash"))
        commands.test_pr_states(tmp_path_factory.mktemp("states"))
        commands.test_notify(tmp_path_factory.mktemp("notify"), "nightly-watch.yml")
    for event in EVENTS.values():
        name = name_of(event["environment"], event["payload"])
        read_event(watched(event["payload"], (), reads[name]), event["environment"])
    yield reads, list(Checked.given)


@pytest.mark.parametrize("name", EVENTS)
def test_a_saved_event_says_nothing_that_github_does_not(name: str) -> None:
    event = EVENTS[name]
    faults = of.faults(name_of(event["environment"], event["payload"]), event["payload"])
    assert bool(faults) == (name in MALFORMED), faults


def test_the_played_api_answers_as_github_does(played: Any) -> None:
    _, given = played
    asked = {name for name, _ in given}
    assert {name for name in asked if name.startswith("GET")} >= {
        f"GET {REPO}/actions/runs/{{run_id}}/jobs",
        f"GET {REPO}/check-runs/{{check_run_id}}/annotations",
        f"GET {REPO}/issues/{{issue_number}}/events",
        f"GET {REPO}/pulls/{{pull_number}}",
    }
    faults = {f"{name}: {fault}" for name, value in given for fault in of.faults(name, value)}
    assert faults == set(BEYOND)


def lacks(value: Any, path: tuple[str, ...]) -> bool:
    """Whether a field is not there although what holds it is."""
    if not path or value is None:
        return False
    if path[0] == "[]":
        return any(lacks(each, path[1:]) for each in value)
    return path[0] not in value or lacks(value[path[0]], path[1:])


def test_what_is_read_is_there(played: Any) -> None:
    reads, given = played
    optional = {
        (name, ".".join(path))
        for name, paths in reads.items()
        for path in paths
        if of.knows(name, path)
        and not of.promises(name, path)
        and (len(path) == 1 or of.promises(name, path[:-1]))
    }
    assert optional == {(name, field) for name, fields in MAY_LACK.items() for field in fields}
    saved = [(name_of(e["environment"], e["payload"]), e["payload"])
             for stem, e in EVENTS.items() if stem not in BROKEN | MALFORMED]  # fmt: skip
    missing = {
        (name, ".".join(path))
        for name, value in (*given, *saved)
        for path in reads.get(name, ())
        if of.promises(name, path) and lacks(value, path)
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("made_up",), 1),
        (("pull_request", "made_up"), None),
        (("pull_request", "state"), "gone"),
        (("pull_request", "head", "sha"), None),
        (("pull_request", "created_at"), "yesterday"),
        (("pull_request", "labels"), {}),
        (("pull_request", "user", "type"), "Robot"),
        (("repository", "id"), "1000"),
        (("label", "url"), "no address"),
        (("action",), "labelled"),
    ],
)
def test_what_github_would_not_say_is_found(where: tuple[str, ...], value: Any) -> None:
    payload = json.loads(json.dumps(EVENTS["labeled-by-triage"]["payload"]))
    place = payload
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    assert of.faults("event pull_request labeled", payload)


def test_the_direct_way_gives_what_http_gives() -> None:
    """`DirectApi` is what other tests of the gate ask ten thousand times."""
    for event in list(EVENTS.values())[::9]:
        with FakeGitHub(world(**event["world"])) as github:
            direct, http = Recorder(DirectApi(github)), Recorder(GitHubApi("token", github.url))
            for api in (direct, http):
                collect(read_event(event["payload"], event["environment"]), api, NOON)
            assert _known(direct) == _known(http)


def _known(api: Recorder) -> dict[str, Any]:
    """The answers; of a failure, that it was one."""
    return {
        asked: "failed" if isinstance(answer, dict) and len(answer) == 1 else answer
        for asked, answer in api.answers.items()
    }


def test_the_schemas_say_whose_they_are() -> None:
    assert (of.about["package"], of.about["license"]) == ("@octokit/openapi", "MIT")
    assert SCHEMAS.stat().st_size < 300_000


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
