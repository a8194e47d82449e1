"""A pull request that lives as on GitHub, over the played API, and who may have a GPU for it.

`Life` changes the world as people do and makes the runs that GitHub would start. `may_run` is the
model: who may do what, in few lines and without the gate's own functions.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from fake_github import PEOPLE, STATUS, FakeGitHub, world

COMMITS = ("a" * 40, "d" * 40, "e" * 40)
EDITS_MAKEFILE = COMMITS[2]
FILES = {sha: ["kernel/a.py", *["Makefile"] * (sha == EDITS_MAKEFILE)] for sha in COMMITS}
LEVELS = {"boss": 5, "keeper": 4, "mona": 3, "alice": 3, "trixie": 2, "eve": 1, "regular": 1}
BOT = "labeler[bot]"
ENTRY = "version: 1\npeople:\n  - {login: regular, id: 16, cooldown_minutes: 0, because: trusted}\n"
PAUSED = "version: 1\npaused: true\nreason: works\n"
STATUS_FILE, PEOPLE_FILE = ".github/ci-status.yml", ".github/ci-permissions.yml"
START = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Started:
    """A run: what started it, frozen, and which attempt asks now."""

    ident: int
    event: str
    action: str
    label: str | None
    sender: str
    head: str
    base: str
    merges: str  # the head that its merge commit merges
    payload: Any
    attempt: int = 1
    starter: str = ""

    @property
    def environment(self) -> dict[str, str]:
        branch = self.event == "workflow_dispatch"
        return {
            "GITHUB_EVENT_NAME": self.event,
            "GITHUB_REPOSITORY": "octo/kernels",
            "GITHUB_REF": "refs/heads/main" if branch else "refs/pull/7/merge",
            "GITHUB_SHA": f"{self.ident:040x}",
            "GITHUB_RUN_ID": str(self.ident),
            "GITHUB_RUN_ATTEMPT": str(self.attempt),
            "GITHUB_WORKFLOW_REF": "octo/kernels/.github/workflows/pr-test.yml@refs/heads/main",
        }


@dataclass
class Life:
    """One pull request; every method is one thing that somebody does, and may start a run."""

    github: FakeGitHub
    rng: random.Random
    now: datetime = START
    story: list[str] = field(default_factory=list)
    runs: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        author, home = self.rng.choice(
            [("alice", "octo/kernels"), ("eve", "eve/kernels"), ("regular", "octo/kernels"),
             ("mona", "mona/kernels"), ("regular", "regular/kernels")]
        )  # fmt: skip
        pull = {"author": author, "head_repository": home, "head": COMMITS[0], "labels": []}
        people = self.rng.choice([ENTRY, PEOPLE])
        self.github.world = world(
            pull=pull, pushed=FILES, events=[], merges={}, contents={PEOPLE_FILE: people}
        )
        self._told(f"{author} opens it from {home}, entry: {people is ENTRY}")
        self._start("opened", author)

    @property
    def pull(self) -> Any:
        return self.github.world["pull"]

    def step(self) -> None:
        """Something happens."""
        self.now += timedelta(seconds=self.rng.choice([1, 20, 90, 200]))
        contents = self.github.world["contents"]
        for still, back in (
            (self.pull["state"] != "open", Life.close),
            (self.pull["draft"], Life.draft),
            (contents[STATUS_FILE] != STATUS, Life.pause),
        ):
            if still and self.rng.random() < 0.5:  # else most sequences would end here
                back(self)
                return
        self.rng.choices(*zip(*_STEPS, strict=True))[0](self)  # type: ignore[arg-type]

    def push(self) -> None:
        if self.pull["state"] == "open":
            self.set_head(self.rng.choice([c for c in COMMITS if c != self.pull["head"]]))
            self._start("synchronize", self.pull["author"])

    def set_head(self, sha: str) -> None:
        self.pull["head"] = sha
        self._told(f"push of {sha[0]}")

    def label(self) -> None:
        """Whoever has triage puts labels on and off; apps may, too, and in a person's name."""
        often = 2 if "run-ci" in self.pull["labels"] else 8
        name = self.rng.choice([*["run-ci"] * often, "bypass-maintenance", "docs"])
        who = self.rng.choice(["mona", "boss", "keeper", "alice", "trixie", BOT])
        on = name not in self.pull["labels"]
        action = "labeled" if on else "unlabeled"
        self.pull["labels"] = [n for n in self.pull["labels"] if n != name] + [name] * on
        app = self.rng.random() < 0.1
        self.github.world["events"].append(
            {"event": action, "label": name, "actor": who, "app": app,
             # Its run is in the list already.
             "commit": self.pull["head"], "head": None,
             "created_at": f"{self.now:%Y-%m-%dT%H:%M:%SZ}"}
        )  # fmt: skip
        self._told(f"{who} {action} {name}" + " through an app" * app)
        self._start(action, who, name)

    def comment(self, who: str | None = None) -> None:
        who = who or self.rng.choice(["mona", "boss", "keeper", "alice", "eve", "trixie", BOT])
        sha = self.rng.choice([self.pull["head"], *COMMITS])
        body = self.rng.choice([f"/run-ci {sha}"] * 5 + [f"/run-ci {sha[:12]}", f"> /run-ci {sha}"])
        comments = self.github.world["comments"]
        ident = 1 + max((each["id"] for each in comments), default=50)
        comments.append({"id": ident, "user": who, "body": body, "app": self.rng.random() < 0.1})
        self._told(f"{who} comments {body[:13]}, app: {comments[-1]['app']}")

    def edit_comment(self) -> None:
        """Who has write access may edit everybody's, and the author stays its author."""
        if self.github.world["comments"]:
            comment = self.rng.choice(self.github.world["comments"])
            comment.update(edited=True, body=f"/run-ci {self.pull['head']}")
            self._told(f"the comment of {comment['user']} is edited")

    def delete_comment(self) -> None:
        if self.github.world["comments"]:
            self.github.world["comments"].pop(
                self.rng.randrange(len(self.github.world["comments"]))
            )
            self._told("a comment is deleted")

    def retarget(self) -> None:
        self.pull["base_ref"] = "release" if self.pull["base_ref"] == "main" else "main"
        self._told(f"base is {self.pull['base_ref']}")
        self._start("edited", self.pull["author"])

    def draft(self) -> None:
        self.pull["draft"] = not self.pull["draft"]
        self._told(f"draft: {self.pull['draft']}")
        if not self.pull["draft"]:
            self._start("ready_for_review", self.pull["author"])

    def close(self) -> None:
        self.pull["state"] = "closed" if self.pull["state"] == "open" else "open"
        self._told(self.pull["state"])
        if self.pull["state"] == "open":
            self._start("reopened", self.pull["author"])

    def role(self) -> None:
        """Somebody loses write access, or gets it back."""
        who = self.rng.choice(["mona", "alice"])
        has = self.github.world["permissions"]
        has[who] = "read" if has[who] == "write" else "write"
        self._told(f"{who} has {has[who]}")

    def pause(self) -> None:
        contents = self.github.world["contents"]
        contents[STATUS_FILE] = PAUSED if contents[STATUS_FILE] == STATUS else STATUS
        self._told(f"paused: {contents[STATUS_FILE] == PAUSED}")

    def dispatch(self) -> None:
        who = self.rng.choice(["mona", "alice", "eve", "boss"])
        self._start("", who, event="workflow_dispatch", head=self.rng.choice(COMMITS))

    def rerun(self) -> None:
        if self.runs:
            old = self.rng.choice(self.runs)
            who = self.rng.choice(["mona", "trixie", "eve", "regular", "github-actions[bot]"])
            run = Started(**{**old.__dict__, "attempt": old.attempt + 1, "starter": who})
            shown = next(r for r in self.github.world["runs"] if r["id"] == run.ident)
            shown.update(run_attempt=run.attempt, triggering_actor=who)
            self.runs[self.runs.index(old)] = run
            self._told(f"{who} runs {run.ident} again")

    def _start(
        self, action: str, sender: str, label: str | None = None, *,
        event: str = "pull_request", head: str | None = None,
    ) -> None:  # fmt: skip
        github, ident = self.github, 31 + len(self.runs)
        if self.rng.random() < 0.1:  # a conflict with the base, or `[skip ci]`: no run
            self._told(f"{sender}: {action} starts no run")
            return
        shown = copy.deepcopy(github.pull({}, "7"))
        head = head or self.pull["head"]
        # GitHub makes the merge commit on its own time: it can be of a head before or after this.
        late = self.rng.random() < 0.05
        merges = self.rng.choice(COMMITS) if late else head
        payload: dict[str, Any] = {
            "repository": github.repository({}),
            "sender": github.account(sender),
        }
        if event == "workflow_dispatch":
            payload["inputs"] = {"pull_request": "7", "head_sha": head}
        else:
            payload.update(action=action, number=7, pull_request=shown)
        if action == "edited":
            was = "release" if self.pull["base_ref"] == "main" else "main"
            payload["changes"] = {"base": {"ref": {"from": was}, "sha": {"from": "b" * 40}}}
        if label is not None:
            payload["label"] = {"name": label}
        run = Started(ident, event, action, label, sender, head, self.pull["base_ref"], merges,
                      json.loads(json.dumps(payload)), starter=sender)  # fmt: skip
        github.world["merges"][f"{ident:040x}"] = ["b" * 40, merges]
        github.world["runs"].append(
            {"id": ident, "file": "pr-test.yml", "event": event, "actor": sender, "head_sha": head,
             "created_at": f"{self.now:%Y-%m-%dT%H:%M:%SZ}", "status": "completed"}
        )  # fmt: skip
        self.runs.append(run)
        self._told(f"run {ident}: {event} {action} by {sender} for {head[0]}, merges {merges[0]}")

    def _told(self, what: str) -> None:
        self.story.append(what)


_STEPS: tuple[tuple[Callable[[Life], None], int], ...] = (
    (Life.push, 4),
    (Life.label, 7),
    (Life.comment, 5),
    (Life.edit_comment, 1),
    (Life.delete_comment, 1),
    (Life.retarget, 1),
    (Life.draft, 1),
    (Life.close, 1),
    (Life.role, 1),
    (Life.pause, 1),
    (Life.dispatch, 1),
    (Life.rerun, 3),
)


def may_run(seen: Any, run: Started, *, lasting: bool) -> bool:
    """Whether this run may use a GPU in this world. `lasting`: a label grants its commit for as
    long as it stays on, else for its own event only."""
    pull, author = seen["pull"], seen["pull"]["author"]
    level = {who: LEVELS[who] if given != "read" or LEVELS[who] == 2 else 1
             for who, given in ((w, seen["permissions"][w]) for w in LEVELS)}  # fmt: skip
    listed = {"regular"} if seen["contents"][PEOPLE_FILE] == ENTRY else set()
    inside, insider = pull["head_repository"] == "octo/kernels", level[author] >= 3

    def put_on(name: str) -> Any:
        acts = [each for each in seen["events"] if each["label"] == name]
        return acts[-1] if name in pull["labels"] else None

    def counts(who: str, least: int) -> bool:
        return level.get(who, 0) >= least

    def granted(least: int) -> bool:
        act = put_on("run-ci")
        own = (run.action, run.label, run.sender) == ("labeled", "run-ci", act["actor"])
        by_label = (own or (lasting and act["commit"] == run.head)) and not act["app"]
        return (by_label and counts(act["actor"], least) and act["actor"] != author) or any(
            said["body"] == f"/run-ci {run.head}" and not said.get("edited") and not said["app"]
            and counts(said["user"], least) and said["user"] != author
            for said in seen["comments"]
        )  # fmt: skip

    bypass = put_on("bypass-maintenance")
    bypassed = bypass is not None and counts(bypass["actor"], 4) and not bypass["app"]
    pull_request = run.event == "pull_request"
    again = counts(run.starter, 3) or (pull_request and (
        run.starter in listed or run.starter == "github-actions[bot]"))  # fmt: skip
    return (
        run.label in (None, "run-ci", "bypass-maintenance")
        and (again or (run.attempt == 1 and pull_request))
        and (pull["state"], pull["draft"], pull["head"]) == ("open", False, run.head)
        and (not pull_request or (pull["base_ref"], run.merges) == (run.base, run.head))
        and (seen["contents"][STATUS_FILE] == STATUS or bypassed)
        and put_on("run-ci") is not None
        and (run.head != EDITS_MAKEFILE or (inside and insider) or granted(4))
        and ((inside and (insider or author in listed)) or granted(3))
    )
