"""Commands in comments: `/run-ci FULL_SHA`, `/rerun-failed-ci`, `/rerun-test PATH[::TEST]`. Pure.

A command is the first line of a comment, from its first character, and nothing else on that line.
So what is quoted, in a block of code or hidden in an HTML comment is never one. An edited comment
is none either: readers may have seen, and permissions been given for, another text.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from runci.config.gate import RUN_LABEL, Entry
from runci.gate.events import SHA
from runci.gate.request import Act, Permission, Person, Pull
from runci.text.markdown import code


@dataclass(frozen=True, slots=True)
class RunCi:
    """Authorize one commit, and run its tests."""

    sha: str


@dataclass(frozen=True, slots=True)
class RerunFailed:
    """Run the failed jobs of the head commit again."""


@dataclass(frozen=True, slots=True)
class RerunTest:
    """Run one test file of the head commit, or of it one class or one test (with parameters)."""

    target: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """One of our commands with something wrong; `usage` is how it is written."""

    usage: str


Command: TypeAlias = RunCi | RerunFailed | RerunTest | Malformed

USAGE = {
    "/run-ci": "`/run-ci FULL_SHA`, with all 40 digits of the commit in lower case",
    "/rerun-failed-ci": "`/rerun-failed-ci`, with nothing after it",
    "/rerun-test": (
        "`/rerun-test PATH[::TEST]`, with nothing after it, such as `test/registered/test_a.py`, "
        "`test/registered/test_a.py::test_b` or `test/registered/test_a.py::TestC::test_d[fp16-1]`."
        " Between the brackets only letters, digits and `_.,:=+/-` are allowed, so no spaces and "
        "no quotes: where a test's parameters have others, leave the brackets out, and it runs "
        "with all of them"
    ),
}
# Narrower than what `runci run` takes: this is a stranger's text until it is matched.
_TARGET = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.py"
    r"(?:(?:::[A-Za-z_][A-Za-z0-9_]*)+(?:\[[A-Za-z0-9_.,:=+/-]+\])?)?"
)
_LONGEST = 400
_LONGEST_NAME = 100


def parse(body: str) -> Command | None:
    """The command of a comment; None when there is none."""
    line = re.split(r"\r\n|\r|\n", body, maxsplit=1)[0].rstrip(" ")
    name, _, rest = line.partition(" ")
    if name not in USAGE:
        return None
    if name == "/run-ci" and SHA.fullmatch(rest):
        return RunCi(rest)
    if line == "/rerun-failed-ci":
        return RerunFailed()
    if name == "/rerun-test" and len(rest) <= _LONGEST and _TARGET.fullmatch(rest):
        return RerunTest(rest)
    return Malformed(USAGE[name])


class Reaction(str, enum.Enum):
    """GitHub's names for the answers to a comment."""

    DONE = "rocket"
    DENIED = "-1"
    CONFUSED = "confused"


class Do(str, enum.Enum):
    """What to ask of GitHub."""

    NOTHING = "nothing"
    RERUN = "rerun"
    RERUN_FAILED = "rerun-failed-jobs"
    DISPATCH = "dispatch"


@dataclass(frozen=True, slots=True)
class Run:
    """The newest run of one workflow for the head commit. `gpu_minutes_ago`: its last GPU job."""

    id: int
    workflow: str
    status: str
    conclusion: str | None
    gpu_minutes_ago: float | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """What was written, by whom, and whether it is still what the event said."""

    id: int
    body: str
    act: Act
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class SlashRequest:
    """A comment on a pull request, and what it may be about.

    `run_label` is what the default branch calls that label. `gpu_minutes_ago`: the last GPU job of
    somebody listed, over all workflows and pull requests.
    """

    comment: Comment
    pull: Pull
    people: tuple[Entry, ...] = ()
    runs: tuple[Run, ...] = ()
    run_label: str = RUN_LABEL
    gpu_minutes_ago: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do, on which runs, and what to tell. No reaction: the comment is no command."""

    do: Do
    reaction: Reaction | None
    reply: str
    runs: tuple[Run, ...] = ()
    target: str | None = None


def answer(request: SlashRequest) -> Answer:
    """What a comment leads to; where that is nothing, whether the comment counts all the same."""
    told = _answer(request)
    counts = still_counts(request) if told.do is Do.NOTHING and told.reaction else ""
    return replace(told, reply=f"{told.reply}{counts}")


def still_counts(request: SlashRequest) -> str:
    """What to say of a `/run-ci` that did nothing: the gate reads it whenever it is asked."""
    command, act, author = parse(request.comment.body), request.comment.act, request.pull.author
    if not isinstance(command, RunCi) or not request.comment.is_live or not _has_write(act.by):
        return ""
    if act.edited or act.through_app or (author is not None and author.id == act.by.id):
        return ""
    return (
        f" Your comment still authorizes `{command.sha[:12]}`, whoever puts on the label or starts "
        "a run later. To take that back, edit or delete it."
    )


def _answer(request: SlashRequest) -> Answer:
    command = parse(request.comment.body)
    act = request.comment.act
    # A bot that quotes a command must not start a conversation with itself.
    if command is None or not act.by.human:
        return Answer(Do.NOTHING, None, "")
    refusal = _refusal(request, command)
    if refusal is not None:
        return _denied(refusal)
    if isinstance(command, Malformed):
        return Answer(Do.NOTHING, Reaction.CONFUSED, f"Write {command.usage}.")
    if isinstance(command, RerunTest):
        reply = f"Running `{command.target}` at {_short(request)}; the gate decides about its GPU."
        return Answer(Do.DISPATCH, Reaction.DONE, reply, target=command.target)
    if isinstance(command, RunCi):
        return _run_ci(request)
    return _rerun(request, Do.RERUN_FAILED, _failed(request.runs), "failed")


def _refusal(request: SlashRequest, command: Command) -> str | None:
    act, pull = request.comment.act, request.pull
    if act.edited or not request.comment.is_live:
        return "an edited comment is no command: write a new one."
    if act.through_app:
        return "a comment that an app wrote is no command: write it yourself."
    if not _may(request, command):
        return _who(command)
    if not pull.is_open or pull.head_sha is None:
        return "the pull request is not open."
    if isinstance(command, RunCi):
        if pull.author is None or act.by.id == pull.author.id:
            return "somebody other than the author must authorize a commit."
        if command.sha != pull.head_sha:
            return (
                "that is not the head of this pull request any more. Read what was pushed since, "
                "then name the new head."
            )
        if request.run_label not in (pull.labels or ()):
            return f"put on the label `{request.run_label}` first, then comment again."
    return _cooling(request)


def _may(request: SlashRequest, command: Command) -> bool:
    who = request.comment.act.by
    if _has_write(who):
        return True
    return isinstance(command, RerunFailed) and cooling_entry(who, request.people) is not None


def _has_write(who: Person) -> bool:
    return who.human and who.permission is not None and who.permission >= Permission.WRITE


def _who(command: Command) -> str:
    listed = " or an entry in ci-permissions.yml" if isinstance(command, RerunFailed) else ""
    return f"this command needs write access{listed}: ask a maintainer."


def _cooling(request: SlashRequest) -> str | None:
    """The workflow's token starts the run, so that of others' commits the gate cannot see it."""
    entry = cooling_entry(request.comment.act.by, request.people)
    if entry is None:
        return None
    ago = (request.gpu_minutes_ago, *(run.gpu_minutes_ago for run in request.runs))
    used = [minutes for minutes in ago if minutes is not None]
    if not used or min(used) >= entry.cooldown_minutes:
        return None
    wait = max(1, round(entry.cooldown_minutes - min(used)))
    return f"you or this commit used a GPU {round(min(used))} minutes ago; {wait} more to wait."


def cooling_entry(who: Person, people: Sequence[Entry]) -> Entry | None:
    """The entry of somebody whose only authority it is."""
    return None if _has_write(who) else next((e for e in people if e.id == who.id), None)


def _run_ci(request: SlashRequest) -> Answer:
    done = tuple(run for run in request.runs if run.status == "completed")
    waiting = [run for run in request.runs if run.conclusion == "action_required"]
    if waiting:
        return _denied(
            f"{_names(waiting)} waits for «Approve workflows to run»: press it, then comment again."
        )
    return _rerun(request, Do.RERUN, done, "finished")


def _rerun(request: SlashRequest, do: Do, runs: Sequence[Run], what: str) -> Answer:
    if not runs:
        busy = [run for run in request.runs if run.status != "completed"]
        tail = "it is still running: wait for it." if busy else "push, or reopen the pull request."
        return _denied(f"there is no {what} run for {_short(request)}: {tail}")
    said = f"Started again for {_short(request)}: {_names(runs)}."
    return Answer(do, Reaction.DONE, said, tuple(runs))


def _names(runs: Sequence[Run]) -> str:
    """The workflows' names are the pull request's to choose: nothing in them is Markdown."""
    return ", ".join(code(run.workflow, _LONGEST_NAME) for run in runs)


def _failed(runs: Sequence[Run]) -> tuple[Run, ...]:
    bad = ("failure", "cancelled", "timed_out", "startup_failure")
    return tuple(run for run in runs if run.status == "completed" and run.conclusion in bad)


def _denied(reason: str) -> Answer:
    return Answer(Do.NOTHING, Reaction.DENIED, f"Not done: {reason}")


def _short(request: SlashRequest) -> str:
    return f"`{(request.pull.head_sha or '')[:12]}`"
