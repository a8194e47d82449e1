"""Plays GitHub's API on this machine, for tests of the gate: small, strict, and able to fail.

    with FakeGitHub(world(permissions={"mona": "write"})) as github:
        github.fault("/pulls/7/files", "500")
        run(..., GITHUB_API_URL=github.url)
        assert github.asked("POST", "/issues/7/comments")

A world is plain JSON (see WORLD), so that a saved event can bring its own. Answers have the shape
of GitHub's REST API, version 2022-11-28, with the fields that a reader may need.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import fake_git
import fake_issues
from fake_git import BASE
from places import FIXTURES

HEAD = "a" * 40
STATUS = "version: 1\npaused: false\n"
PEOPLE = "version: 1\npeople: []\n"

# Alice has write access; Mona too, and did nothing yet; Eve is a stranger with a fork.
WORLD: dict[str, Any] = {
    "repository": {
        "id": 1000,
        "full_name": "octo/kernels",
        "default_branch": "main",
        "fork": False,
    },
    "users": {
        "alice": 11,
        "mona": 12,
        "boss": 13,
        "eve": 14,
        "trixie": 15,
        "regular": 16,
        "keeper": 17,
    },
    "bots": {"github-actions[bot]": 41898282, "labeler[bot]": 77},
    # A permission, or [permission, role_name] where the role is not the same word.
    "permissions": {
        "alice": "write",
        "mona": "write",
        "boss": "admin",
        "keeper": ["write", "maintain"],
        "eve": "read",
        "trixie": ["read", "triage"],
        "regular": "read",
    },
    "pull": {
        "number": 7,
        "state": "open",
        "draft": False,
        "author": "alice",
        "head": HEAD,
        "head_ref": "faster-gemm",
        "head_repository": "octo/kernels",  # None: the fork was deleted
        "base_ref": "main",
        "labels": ["run-ci"],
        "body": "Makes it faster.",
    },
    "files": ["kernel/sm120_ba/gemm.py"],  # or {"filename", "status", "previous_filename"}
    "pushed": {},  # another head: its files
    "trees": {},  # see fake_git
    "truncated": False,  # whether a tree has more entries than GitHub lists
    # {"event", "actor", "label", "app", "created_at", "head"}. A label started a run for the head
    # that it was put on: `head`, None for no run, else that of the pull request now.
    "events": [{"event": "labeled", "label": "run-ci", "actor": "mona"}],
    "beside": [],  # other pull requests of the branch: {"number", "closed_at"}
    "comments": [],  # {"id", "user", "body", "edited", "app"}
    "contents": {".github/ci-status.yml": STATUS, ".github/ci-permissions.yml": PEOPLE},
    "merges": None,  # merge commit: its two parents; None: any commit merges the head
    "refs": {},  # "heads/NAME": commit
    "compare": {},  # "BASE...HEAD": "ahead" | "identical" | "behind" | "diverged", where unusual
    "pulls": {},  # of others, "OWNER:BRANCH": its author; all of them closed
    "runs": [],  # {"id", "file", "event", "actor", "triggering_actor", "run_attempt", …}
    "jobs": {},  # run id: jobs
    "annotations": {},  # job id: annotations
    "issues": [],  # see fake_issues
    "labels": [],  # that the repository has
    "token": "github-actions[bot]",  # whose token the requests carry
    "drops_labels": False,
}


def world(**changes: Any) -> dict[str, Any]:
    """The world above with changes: mappings are merged, everything else is replaced."""
    return merged(copy.deepcopy(WORLD), changes)


def saved(name: str) -> dict[str, Any]:
    """An event of test/fixtures/events, with its environment and its world."""
    path = FIXTURES / "events" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def merged(into: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        known = into.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            into[key] = merged(dict(known), value)
        else:
            into[key] = copy.deepcopy(value)
    return into


def _time_of(event: Mapping[str, Any], index: int) -> str:
    """When an event of a pull request happened: two minutes after the one before it."""
    usual = datetime(2026, 11, 1, 10, 30, tzinfo=timezone.utc) + timedelta(minutes=2 * index)
    return str(event.get("created_at", f"{usual:%Y-%m-%dT%H:%M:%SZ}"))


@dataclass
class Fault:
    """What goes wrong with the next `times` answers to paths that contain `path`.

    Kinds: a status such as "500", with an address ("301 URL") one that says that it moved; "slow";
    "garbage" (no JSON); "cut" (the connection ends within the answer); "short" (a page without its
    last item); "no-link" (no further pages are named); "same" (the first page, whichever is asked
    for, and no further ones named).
    """

    path: str
    kind: str
    times: int = 1_000_000


@dataclass
class FakeGitHub:
    """The server. `requests` lists (verb, path, body), `authorized` their header of that name;
    `after` runs once a path was answered."""

    world: dict[str, Any] = field(default_factory=world)
    page_size: int = 100
    slow_seconds: float = 3.0
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    authorized: list[str | None] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    after: dict[str, Callable[[dict[str, Any]], object]] = field(default_factory=dict)

    def __enter__(self) -> FakeGitHub:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        # Not at every 0.5 s: a test would wait that long to end it.
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        serve.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fault(self, path: str, kind: str, times: int = 1_000_000) -> None:
        self.faults.append(Fault(path, kind, times))

    def asked(self, verb: str, path: str) -> list[Any]:
        """The bodies of the requests whose path contains this."""
        return [body for v, p, body in self.requests if v == verb and path in p]

    def take_fault(self, path: str) -> str | None:
        for fault in self.faults:
            if fault.path in path and fault.times > 0:
                fault.times -= 1
                return fault.kind
        return None

    # What the API answers.

    def answer(self, verb: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        name = f"/repos/{self.world['repository']['full_name']}"
        if (verb, path) == ("GET", "/user"):
            return fake_issues.user(self.world)
        if path != name and not path.startswith(f"{name}/"):
            return None
        rest = path.removeprefix(name)
        issues = fake_issues.answer(self.world, verb, rest, query, body)
        if issues is not None:
            return issues
        if verb != "GET":
            return self._write(verb, rest, body)
        git = fake_git.answer(self.world, rest, query)
        if git is not None:
            return git
        for pattern, give in _ROUTES:
            found = re.fullmatch(pattern, rest)
            if found:
                return give(self, query, *found.groups())
        return None

    def _write(self, verb: str, path: str, body: Any) -> Any:
        pull = f"/pulls/{self.world['pull']['number']}"
        if (verb, path) == ("PATCH", pull):
            self.world["pull"].update(body)
        elif re.fullmatch(r"/issues/\d+/comments", path):
            ident = 9000 + len(self.world["comments"])
            said = {"id": ident, "user": "github-actions[bot]", "body": body["body"]}
            self.world["comments"].append(said)
        elif not re.fullmatch(
            r"/issues/comments/\d+/reactions|/actions/runs/\d+/rerun(-failed-jobs)?"
            r"|/actions/workflows/[^/]+/dispatches",
            path,
        ):
            return None
        return {}

    def account(self, login: str | None) -> dict[str, Any] | None:
        if login is None:
            return None
        bots = self.world["bots"]
        ident = bots.get(login) or self.world["users"].get(login)
        return {"login": login, "id": ident, "type": "Bot" if login in bots else "User"}

    def repository(self, _query: Mapping[str, str]) -> dict[str, Any]:
        return {**self.world["repository"], "private": False, "archived": False}

    def permission(self, _query: Mapping[str, str], login: str) -> dict[str, Any] | None:
        given = self.world["permissions"].get(unquote(login))
        if given is None:
            return None
        older, role = given if isinstance(given, list) else (given, given)
        return {"permission": older, "role_name": role, "user": self.account(unquote(login))}

    def pull(self, _query: Mapping[str, str], number: str) -> dict[str, Any] | None:
        pull = self.world["pull"]
        if int(number) != pull["number"]:
            return None
        own = self.world["repository"]
        home = pull["head_repository"]
        ident = own["id"] if home == own["full_name"] else 2000
        owner = home.partition("/")[0] if home else "unknown"
        head_repo = home and {
            "id": ident, "full_name": home, "fork": ident == 2000, "owner": {"login": owner}
        }  # fmt: skip
        return {
            "id": 500_000 + pull["number"],
            "number": pull["number"],
            "state": pull["state"],
            "draft": pull["draft"],
            "closed_at": None if pull["state"] == "open" else "2026-11-01T11:30:00Z",
            "merged": False,
            "title": "Faster GEMM",
            "body": pull["body"],
            "user": self.account(pull["author"]),
            "labels": [{"id": i, "name": name} for i, name in enumerate(pull["labels"], 1)],
            "head": {"ref": pull["head_ref"], "sha": pull["head"], "repo": head_repo,
                     "label": f"{owner}:{pull['head_ref']}"},
            "base": {"ref": pull["base_ref"], "sha": BASE, "repo": dict(own)},
            "changed_files": len(self.world["files"]),
            "comments": len(self.world["comments"]),
        }  # fmt: skip

    def pulls(self, query: Mapping[str, str]) -> list[Any]:
        found = self.pull(query, str(self.world["pull"]["number"]))
        states = ("open", "closed") if query.get("state") == "all" else ("open",)
        head = query.get("head", "")
        if "closed" in states and head in self.world["pulls"]:
            user = self.account(self.world["pulls"][head])
            return [{"number": 6, "state": "closed", "user": user, "head": {"label": head}}]
        if not found or head != found["head"]["label"]:
            return []
        beside = [{**found, "state": "closed" if pull.get("closed_at") else "open", **pull}
                  for pull in self.world["beside"]]  # fmt: skip
        return [pull for pull in [found, *beside] if pull["state"] in states]

    def listed(self, query: Mapping[str, str]) -> list[Any]:
        """A list says less of each than the answer about one."""
        more = ("changed_files", "comments", "merged")
        return [{k: v for k, v in pull.items() if k not in more} for pull in self.pulls(query)]

    def files(self, _query: Mapping[str, str], _number: str) -> list[Any]:
        plain = {"status": "modified", "additions": 1, "deletions": 1, "changes": 2}
        return [
            {**plain, **(f if isinstance(f, dict) else {"filename": f})}
            for f in self.world["files"]
        ]

    def issue_events(self, _query: Mapping[str, str], _number: str) -> list[Any]:
        return [
            {
                "id": 100 + index,
                "event": event["event"],
                "actor": self.account(event["actor"]),
                "label": {"name": event["label"]} if "label" in event else None,
                "created_at": _time_of(event, index),
                "performed_via_github_app": {"slug": "an-app"} if event.get("app") else None,
            }
            for index, event in enumerate(self.world["events"])
        ]

    def _started(self, file: str) -> list[dict[str, Any]]:
        """The world's runs, and those that its labels started in this workflow.

        A run of the labeler that names no time of its own is the one that the label started.
        """
        runs = [dict(run) for run in self.world["runs"] if run["file"] == file]
        free = [run for run in runs if run.get("event", "pull_request") == "pull_request"
                and "created_at" not in run]  # fmt: skip
        for index, event in enumerate(self.world["events"]):
            head = event.get("head", self.world["pull"]["head"])
            if event["event"] not in ("labeled", "unlabeled") or head is None:
                continue
            own = next((run for run in free if run.get("actor", "alice") == event["actor"]), None)
            if own is not None:
                free.remove(own)
                own.update(created_at=_time_of(event, index), head_sha=own.get("head_sha", head))
                continue
            runs.append(
                {"id": 1 + index, "file": file, "actor": event["actor"], "head_sha": head,
                 "created_at": _time_of(event, index), "status": "completed"}
            )  # fmt: skip
        return runs

    def comments(self, _query: Mapping[str, str], number: str) -> list[Any]:
        return [self._comment(comment, number) for comment in self.world["comments"]]

    def comment(self, _query: Mapping[str, str], ident: str) -> dict[str, Any] | None:
        for comment in self.world["comments"]:
            if comment["id"] == int(ident):
                return self._comment(comment, str(self.world["pull"]["number"]))
        return None

    def _comment(self, comment: Mapping[str, Any], number: str) -> dict[str, Any]:
        repository = self.world["repository"]["full_name"]
        return {
            "id": comment["id"],
            "user": self.account(comment["user"]),
            "body": comment["body"],
            "issue_url": f"{self.url}/repos/{repository}/issues/{comment.get('issue', number)}",
            "author_association": "MEMBER",
            "created_at": "2026-11-01T11:00:00Z",
            "updated_at": f"2026-11-01T11:0{5 if comment.get('edited') else 0}:00Z",
            "performed_via_github_app": {"slug": "an-app"} if comment.get("app") else None,
        }  # fmt: skip

    def ref(self, _query: Mapping[str, str], name: str) -> dict[str, Any] | None:
        commit = self.world["refs"].get(unquote(name))
        if commit is None:
            return None
        return {"ref": f"refs/{unquote(name)}", "object": {"type": "commit", "sha": commit}}

    def run(self, _query: Mapping[str, str], ident: str) -> dict[str, Any] | None:
        found = [run for run in self.world["runs"] if run["id"] == int(ident)]
        return self._run(found[0]) if found else None

    def runs(self, query: Mapping[str, str], file: str | None = None) -> dict[str, Any]:
        # What labels started is listed only by its time: a world without runs stays one.
        listed = self._started(file) if file and "created" in query else self.world["runs"]
        found = [self._run(run) for run in listed if file in (None, run["file"])]
        for key in ("event", "head_sha", "status"):
            found = [run for run in found if key not in query or run[key] == query[key]]
        if "actor" in query:
            found = [run for run in found if run["actor"]["login"] == query["actor"]]
        if "created" in query:
            first, last = query["created"].split("..")
            found = [run for run in found if first <= run["created_at"] <= last]
        # No more of a search, which is not said.
        return {"total_count": min(len(found), 1000), "workflow_runs": found[:1000]}

    def _run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        head = self.pull({}, str(self.world["pull"]["number"]))
        assert head is not None
        # As old as its first job, and as new as its last.
        jobs = self.world["jobs"].get(str(run["id"]), [])
        times = [job[key] for job in jobs for key in ("created_at", "started_at") if job.get(key)]
        times = times or ["2026-11-01T10:00:00Z"]
        usual = {
            "event": "pull_request",
            "head_sha": self.world["pull"]["head"],
            "head_branch": head["head"]["ref"],
            "head_commit": {"id": head["head"]["sha"], "timestamp": "2026-11-01T09:00:00Z"},
            "head_repository": head["head"]["repo"],
            "status": "in_progress",
            "conclusion": None,
            "run_attempt": 1,
            "created_at": min(times),
            "updated_at": max(times),
            "html_url": f"https://github.com/octo/kernels/actions/runs/{run['id']}",
            "repository": {"id": self.world["repository"]["id"]},
            "path": f".github/workflows/{run['file']}",
        }
        actor = run.get("actor", "alice")
        people = {"actor": actor, "triggering_actor": run.get("triggering_actor", actor)}
        found = {**usual, **run, **{key: self.account(login) for key, login in people.items()}}
        return {key: value for key, value in found.items() if key != "file"}

    def jobs(self, _query: Mapping[str, str], ident: str) -> dict[str, Any]:
        usual = {"status": "completed", "started_at": "2026-11-01T10:00:00Z"}
        found = [{**usual, **job} for job in self.world["jobs"].get(ident, [])]
        return {"total_count": len(found), "jobs": found}

    def notes(self, _query: Mapping[str, str], ident: str) -> list[Any]:
        found: list[Any] = self.world["annotations"].get(ident, [])
        return found


_ROUTES: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("", FakeGitHub.repository),
    (r"/collaborators/([^/]+)/permission", FakeGitHub.permission),
    (r"/pulls", FakeGitHub.listed),
    (r"/pulls/(\d+)", FakeGitHub.pull),
    (r"/pulls/(\d+)/files", FakeGitHub.files),
    (r"/issues/(\d+)/events", FakeGitHub.issue_events),
    (r"/issues/(\d+)/comments", FakeGitHub.comments),
    (r"/issues/comments/(\d+)", FakeGitHub.comment),
    (r"/git/ref/(.+)", FakeGitHub.ref),
    (r"/actions/runs/(\d+)", FakeGitHub.run),
    (r"/actions/runs/(\d+)/jobs", FakeGitHub.jobs),
    (r"/actions/runs", FakeGitHub.runs),
    (r"/actions/workflows/([^/]+)/runs", FakeGitHub.runs),
    (r"/check-runs/(\d+)/annotations", FakeGitHub.notes),
)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeGitHub
    protocol_version = "HTTP/1.1"
    # A body that follows its headers would wait 40 ms for the reader's acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def log_message(self, *_arguments: object) -> None:
        """A test's output is its own."""

    def _serve(self, verb: str) -> None:
        fake, url = self.fake, urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        fake.requests.append((verb, self.path, body))
        fake.authorized.append(self.headers.get("Authorization"))
        kind = fake.take_fault(url.path)
        if kind is not None and kind[:3].isdecimal():
            status, _, place = kind.partition(" ")
            headers = {"Location": place} if place else {}
            self._send({"message": "as the test wants it"}, int(status), headers)
            return
        if kind == "slow":
            time.sleep(fake.slow_seconds)
        answer = fake.answer(verb, url.path, query, body)
        if answer is None:
            self._send({"message": "Not Found"}, 404)
        elif isinstance(answer, fake_issues.Refused):
            self._send({"message": "Refused"}, answer.status)
        else:
            self._page(answer, query, kind)
        for path, change in list(fake.after.items()):
            if path in self.path:
                del fake.after[path]
                change(fake.world)

    def _page(self, answer: Any, query: Mapping[str, str], kind: str | None) -> None:
        """One page of a list, with the link to the next; anything else as it is."""
        key = next((k for k in ("workflow_runs", "jobs") if k in answer), None)
        items = answer[key] if key else answer
        headers = {}
        if isinstance(items, list):
            size = min(int(query.get("per_page", "30")), self.fake.page_size)
            page = 1 if kind == "same" else int(query.get("page", "1"))
            if page * size < len(items) and kind not in ("no-link", "same"):
                # An address may hold what parts the links elsewhere.
                headers["Link"] = f'<{self.fake.url}/next?page={page + 1}&of=a;b,c>; rel="next"'
            items = items[(page - 1) * size : page * size]
            items = items[:-1] if kind == "short" else items
            answer = {**answer, key: items} if key else items
        self._send(answer, 200, headers, kind)

    def _send(
        self, answer: Any, status: int, headers: Mapping[str, str] = {}, kind: str | None = None
    ) -> None:
        data = json.dumps(answer).encode()
        if kind == "garbage":
            data = b"<html>a proxy's page</html>"
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if kind == "cut" else data)
        if kind == "cut":
            self.close_connection = True
