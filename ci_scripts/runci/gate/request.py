"""What the run-ci gate decides about, as plain data.

None means «not known», never «nobody»: a rule that needs a fact that is None denies. What is known
to be empty is an empty tuple. `gate_facts.py` fills this in, `gate.py` decides.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.config.gate import Entry, Labels, Status

# The account behind a workflow's own token: what it does, somebody's workflow or command asked for.
# By name: each GitHub Enterprise Server gives it another number, and no user can have brackets.
WORKFLOW_BOT = "github-actions[bot]"


class Permission(enum.IntEnum):
    """Somebody's level on the repository. A custom role counts as the level GitHub maps it to."""

    NONE = 0
    READ = 1
    TRIAGE = 2
    WRITE = 3
    MAINTAIN = 4
    ADMIN = 5


@dataclass(frozen=True, slots=True)
class Person:
    """An account, by its number: logins can be renamed and registered again by others.

    `human` is False for apps, bots and organizations; they never have authority here.
    """

    login: str
    id: int
    human: bool
    permission: Permission | None = None

    @property
    def is_workflow_bot(self) -> bool:
        """Whether this is the account of workflow tokens."""
        return self.login == WORKFLOW_BOT and not self.human


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person did: put on a label, or wrote a comment.

    `sha` is the commit that it names, or was put on for. `through_app`: an app did it in the
    person's name. `doubt`: why it is not clear which commit a label was put on for.
    """

    by: Person
    sha: str | None = None
    edited: bool = False
    through_app: bool = False
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request as it is now. `paths` differ in what the run checks out, former names too."""

    number: int
    is_open: bool | None = None
    draft: bool | None = None
    author: Person | None = None
    head_sha: str | None = None
    base_ref: str | None = None
    same_repository: bool | None = None  # False also when the fork is gone
    labels: tuple[str, ...] | None = None
    labelled: Mapping[str, Act] = field(default_factory=dict)  # who put on the labels that are on
    history: tuple[Act, ...] | None = None  # labels from before this event: for which commit
    comments: tuple[Act, ...] | None = None  # that say `/run-ci FULL_SHA`
    paths: tuple[str, ...] | None = None
    contains_base: bool | None = None  # the commit that ci-status.yml requires


@dataclass(frozen=True, slots=True)
class GpuRun:
    """A run that reached a GPU job: whose it is and how long ago it started."""

    actor_id: int
    minutes_ago: float


@dataclass(frozen=True, slots=True)
class Queue:
    """A commit of a merge queue: its ref, the branch that it is for, what the run checks out
    (`GITHUB_SHA`), and what the ref points to now."""

    ref: str | None = None
    base_ref: str | None = None
    checked_out: str | None = None
    live_sha: str | None = None


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Everything that the decision depends on.

    `for_pull` says whether the run is for a pull request's commit; then `run_sha` is that commit
    and `run_base` the branch that it was to be merged into (None for a dispatch), `retargets`
    whether the event is an edit that changed that branch, and `merges_head` says whether what the
    run checks out merges `run_sha` into a commit of that branch. `sender` caused the event;
    `triggering` started this attempt. `asked_by` wrote the command that a dispatch by the
    workflow's own token carries out. `labels` are what the default branch calls the gate's labels,
    `extra` whether this workflow needs that one too; a host's own list, `host_labels`, stands in
    the place of both. `merge_queue`: whether the repository lets its merge queue use GPUs, and
    `queue` is what this run is for. `unknown` says in words what could not be learnt.
    """

    event: str | None = None
    action: str | None = None
    label: str | None = None
    attempt: int | None = None
    ref: str | None = None
    default_branch: str | None = None
    repository_is_fork: bool | None = None
    labels: Labels | None = None
    extra: bool = False
    host_labels: tuple[str, ...] | None = None
    for_pull: bool | None = None
    run_sha: str | None = None
    run_base: str | None = None
    retargets: bool | None = None
    merges_head: bool | None = None
    queue: Queue | None = None
    merge_queue: bool | None = None
    sender: Person | None = None
    triggering: Person | None = None
    asked_by: Act | None = None
    pull: Pull | None = None
    status: Status | None = None
    people: tuple[Entry, ...] | None = None
    protected: tuple[str, ...] | None = None  # globs beside the built-in ones
    gpu_runs: tuple[GpuRun, ...] | None = None
    unknown: tuple[str, ...] = ()


class Outcome(str, enum.Enum):
    """What the gate says. `ignore` neither starts nor stops anything."""

    ALLOW = "allow"
    DENY = "deny"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer: which rule gave it, why, and what to do about it.

    `bypass_fastfail`: GPU jobs need not wait for green lint and CPU tests.
    """

    outcome: Outcome
    rule: str
    reason: str
    remedy: str
    bypass_fastfail: bool = False

    @property
    def allowed(self) -> bool:
        """Whether GPU jobs may run."""
        return self.outcome is Outcome.ALLOW
