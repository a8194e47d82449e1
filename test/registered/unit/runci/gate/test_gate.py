"""The decision table: every row, every boundary of a row, and the order of the rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.config.gate import Entry, Labels, Status
from runci.config.repository import CONFIG_NAMES, CONFIGS
from runci.gate.decide import RULES, decide, table
from runci.gate.request import (
    WORKFLOW_BOT,
    Act,
    GateRequest,
    GpuRun,
    Outcome,
    Permission,
    Person,
    Pull,
    Queue,
)
from runci.gate.rules import is_other_label, is_protected

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[5]
HEAD, OTHER, BASE = "a" * 40, "d" * 40, "b" * 40
LEVELS = list(Permission)


def person(login: str, ident: int, level: Permission | None, human: bool = True) -> Person:
    return Person(login, ident, human, level)


ALICE = person("alice", 11, Permission.WRITE)
MONA = person("mona", 12, Permission.WRITE)
EVE = person("eve", 14, Permission.READ)
REGULAR = person("regular", 16, Permission.READ)
KEEPER = person("keeper", 17, Permission.MAINTAIN)
BOT = Person("labeler[bot]", 77, False)
TOKEN = Person(WORKFLOW_BOT, 41898282, False)
ENTRY = Entry("regular", 16, 60.0)

PULL = Pull(
    number=7,
    is_open=True,
    draft=False,
    author=ALICE,
    head_sha=HEAD,
    base_ref="main",
    same_repository=True,
    labels=("run-ci",),
    labelled={"run-ci": Act(MONA)},
    history=(),
    comments=(),
    paths=("kernel/gemm.py",),
    contains_base=True,
)
# An author with write access, on a branch of this repository, pushes; the label is on.
INSIDER = GateRequest(
    event="pull_request",
    action="synchronize",
    attempt=1,
    ref="refs/pull/7/merge",
    default_branch="main",
    repository_is_fork=False,
    for_pull=True,
    run_sha=HEAD,
    run_base="main",
    merges_head=True,
    sender=ALICE,
    triggering=ALICE,
    pull=PULL,
    status=Status(paused=False),
    labels=Labels(),
    people=(),
    protected=(),
    gpu_runs=(),
)
FORK = replace(PULL, author=EVE, same_repository=False)
# A stranger's fork, which Mona labels.
GRANTED = replace(INSIDER, action="labeled", label="run-ci", sender=MONA, pull=FORK)
STRANGER = replace(INSIDER, sender=EVE, triggering=EVE, pull=FORK)
SCHEDULE = replace(
    INSIDER, event="schedule", action=None, ref="refs/heads/main", for_pull=False, pull=None
)
PUSH = replace(SCHEDULE, event="push")
GROUP = f"refs/heads/gh-readonly-queue/main/pr-7-{BASE}"
QUEUED = replace(
    SCHEDULE,
    event="merge_group",
    action="checks_requested",
    ref=GROUP,
    queue=Queue(GROUP, "refs/heads/main", HEAD, HEAD),
    merge_queue=True,
)
DISPATCH = replace(SCHEDULE, event="workflow_dispatch", triggering=MONA)
PULL_DISPATCH = replace(DISPATCH, for_pull=True, run_sha=HEAD, run_base=None, pull=PULL)
# A stranger's fork that is reopened; Mona labelled this commit before.
BEFORE = replace(
    INSIDER,
    action="reopened",
    sender=EVE,
    triggering=EVE,
    pull=replace(FORK, history=(Act(MONA, HEAD),)),
)
FAST = "bypass-fastfail"
EXTRA = ("run-ci", "run-ci-extra")
LISTED = replace(INSIDER, pull=replace(PULL, author=REGULAR), people=(ENTRY,))


def pulled(request: GateRequest, **changes: Any) -> GateRequest:
    assert request.pull is not None
    return replace(request, pull=replace(request.pull, **changes))


def queued(**changes: Any) -> GateRequest:
    assert QUEUED.queue is not None
    return replace(QUEUED, queue=replace(QUEUED.queue, **changes))


def comment(by: Person, sha: str = HEAD, **changes: Any) -> tuple[Act, ...]:
    return (Act(by, sha, **changes),)


def labelled(by: Person, **changes: Any) -> GateRequest:
    """A stranger's fork, labelled by somebody for this event."""
    return pulled(replace(GRANTED, sender=by), labelled={"run-ci": Act(by, **changes)})


PAUSED = Status(paused=True, reason="driver")
NEEDS = Status(paused=False, min_base_sha=BASE)
BYPASS = ("run-ci", "bypass-maintenance")


def bypassed(by: Person, status: Status, **changes: Any) -> GateRequest:
    acts = {"run-ci": Act(MONA), "bypass-maintenance": Act(by, **changes)}
    request = pulled(INSIDER, labels=BYPASS, labelled=acts, contains_base=False)
    return replace(request, status=status)


def at_level(level: Permission) -> Person:
    return person("somebody", 30, level)


ROWS: list[tuple[str, GateRequest, str]] = [
    # unknown
    ("an unknown", replace(INSIDER, unknown=("the weather",)), "unknown"),
    ("an unknown on a schedule", replace(SCHEDULE, unknown=("the weather",)), "unknown"),
    # event
    ("pull_request_target", replace(INSIDER, event="pull_request_target"), "event"),
    ("issue_comment", replace(SCHEDULE, event="issue_comment"), "event"),
    ("workflow_run", replace(SCHEDULE, event="workflow_run"), "event"),
    ("merge_group for a pull request", replace(QUEUED, for_pull=True), "event"),
    ("repository_dispatch", replace(SCHEDULE, event="repository_dispatch"), "event"),
    ("a schedule for a pull request", replace(SCHEDULE, for_pull=True), "event"),
    ("a push for a pull request", replace(PUSH, for_pull=True), "event"),
    ("pull_request for none", replace(INSIDER, for_pull=False), "event"),
    # other-label
    ("another label", replace(GRANTED, label="docs"), "other-label"),
    ("another label removed", replace(GRANTED, action="unlabeled", label="docs"), "other-label"),
    # An expression's contains() ignores case, so the run is in the lane of the tests.
    ("upper case is ours, but no grant", replace(GRANTED, label="Run-CI"), "no-grant"),
    (
        "upper case, and not on",
        pulled(replace(GRANTED, label="BYPASS-fastfail"), labels=()),
        "label-missing",
    ),
    ("with a space", replace(GRANTED, label="run-ci "), "other-label"),
    ("Cyrillic", replace(GRANTED, label="run-сi"), "other-label"),  # noqa: RUF001
    ("a hyphen of another kind", replace(GRANTED, label="run‑ci"), "other-label"),  # noqa: RUF001
    ("Extra's label on Base", replace(GRANTED, label="run-ci-extra"), "other-label"),
    (
        "bypass-fastfail is ours",
        replace(INSIDER, action="labeled", label="bypass-fastfail"),
        "author",
    ),
    (
        "bypass-maintenance is ours",
        replace(INSIDER, action="labeled", label="bypass-maintenance"),
        "author",
    ),
    # other-edit
    ("another text", replace(INSIDER, action="edited", retargets=False), "other-edit"),
    ("another base", replace(INSIDER, action="edited", retargets=True), "author"),
    (
        "another base of a stranger's",
        replace(STRANGER, action="edited", retargets=True),
        "no-grant",
    ),
    ("labelled before", replace(BEFORE, action="edited", retargets=True), "granted"),
    # re-run
    ("re-run by a reader", replace(INSIDER, attempt=2, triggering=EVE), "re-run"),
    (
        "re-run by triage",
        replace(INSIDER, attempt=2, triggering=at_level(Permission.TRIAGE)),
        "re-run",
    ),
    (
        "re-run by write",
        replace(INSIDER, attempt=2, triggering=at_level(Permission.WRITE)),
        "author",
    ),
    ("re-run by a bot", replace(INSIDER, attempt=2, triggering=BOT), "re-run"),
    ("re-run by the token", replace(INSIDER, attempt=2, triggering=TOKEN), "author"),
    ("the token adds nothing", replace(STRANGER, attempt=2, triggering=TOKEN), "no-grant"),
    (
        "re-run by a listed person",
        replace(INSIDER, attempt=2, triggering=REGULAR, people=(ENTRY,)),
        "author",
    ),
    ("schedule re-run by a reader", replace(SCHEDULE, attempt=2, triggering=EVE), "re-run"),
    (
        "schedule re-run by a listed person",
        replace(SCHEDULE, attempt=2, triggering=REGULAR, people=(ENTRY,)),
        "re-run",
    ),
    ("schedule re-run by the token", replace(SCHEDULE, attempt=2, triggering=TOKEN), "re-run"),
    ("push re-run by write", replace(PUSH, attempt=2, triggering=MONA), "default-branch"),
    ("dispatch re-run by a reader", replace(DISPATCH, attempt=2, triggering=EVE), "re-run"),
    # other-ref
    ("schedule in a fork", replace(SCHEDULE, repository_is_fork=True), "other-ref"),
    ("push to a branch", replace(PUSH, ref="refs/heads/main2"), "other-ref"),
    ("push of a tag", replace(PUSH, ref="refs/tags/main"), "other-ref"),
    ("dispatch on a branch", replace(DISPATCH, ref="refs/heads/evil"), "other-ref"),
    ("dispatch on a tag", replace(DISPATCH, ref="refs/tags/main"), "other-ref"),
    (
        "dispatch for a pull request on a branch",
        replace(PULL_DISPATCH, ref="refs/heads/x"),
        "other-ref",
    ),
    # default-branch
    ("schedule", SCHEDULE, "default-branch"),
    ("push", PUSH, "default-branch"),
    # other-queue, queued
    ("the queue", QUEUED, "queued"),
    ("the queue is not allowed", replace(QUEUED, merge_queue=False), "other-queue"),
    ("the queue in a fork", replace(QUEUED, repository_is_fork=True), "other-ref"),
    ("paused, the queue", replace(QUEUED, status=PAUSED), "other-queue"),
    ("the queue re-run by a reader", replace(QUEUED, attempt=2, triggering=EVE), "re-run"),
    ("the queue re-run by write", replace(QUEUED, attempt=2, triggering=MONA), "queued"),
    ("the group is gone", replace(QUEUED, action="destroyed"), "other-queue"),
    ("another branch's queue", queued(base_ref="refs/heads/release"), "other-queue"),
    ("another run's ref", replace(QUEUED, ref=f"{GROUP[:-1]}c"), "other-queue"),
    ("the ref points elsewhere", queued(live_sha=OTHER), "other-queue"),
    ("the run is of another commit", queued(checked_out=OTHER), "other-queue"),
    ("the group is another commit", replace(QUEUED, run_sha=OTHER), "other-queue"),
    *[
        (f"no ref of the queue: {ref}", replace(queued(ref=ref), ref=ref), "other-queue")
        for ref in (
            "refs/heads/main",
            f"refs/heads/gh-readonly-queue/release/pr-7-{BASE}",
            f"refs/heads/gh-readonly-queue/main/x/pr-7-{BASE}",
            f"{GROUP}/x",
            f"{GROUP}\n",
            "refs/heads/gh-readonly-queue/main/pr-7-abc",
            f"refs/heads/gh-readonly-queue/main/pr-0-{BASE}",
            f"refs/tags/gh-readonly-queue/main/pr-7-{BASE}",
        )
    ],
    # dispatcher
    *[
        (
            f"dispatch by {level.name}",
            replace(DISPATCH, triggering=at_level(level)),
            "dispatched" if level >= Permission.WRITE else "dispatcher",
        )
        for level in LEVELS
    ],
    ("dispatch by a bot", replace(DISPATCH, triggering=BOT), "dispatcher"),
    (
        "dispatch by the token for the branch",
        replace(DISPATCH, triggering=TOKEN, asked_by=Act(MONA)),
        "dispatcher",
    ),
    (
        "by the token for a maintainer",
        replace(PULL_DISPATCH, triggering=TOKEN, asked_by=Act(MONA)),
        "author",
    ),
    (
        "by the token for a reader",
        replace(PULL_DISPATCH, triggering=TOKEN, asked_by=Act(EVE)),
        "dispatcher",
    ),
    (
        "by the token for an edited comment",
        replace(PULL_DISPATCH, triggering=TOKEN, asked_by=Act(MONA, edited=True)),
        "dispatcher",
    ),
    (
        "by the token for an app",
        replace(PULL_DISPATCH, triggering=TOKEN, asked_by=Act(MONA, through_app=True)),
        "dispatcher",
    ),
    (
        "by another bot for a maintainer",
        replace(PULL_DISPATCH, triggering=BOT, asked_by=Act(MONA)),
        "dispatcher",
    ),
    # a dispatch for a pull request goes through the rows below
    ("dispatch for a pull request", PULL_DISPATCH, "author"),
    ("for a stranger's", replace(PULL_DISPATCH, pull=FORK), "no-grant"),
    (
        "for a granted one",
        pulled(replace(PULL_DISPATCH, pull=FORK), comments=comment(MONA)),
        "granted",
    ),
    ("for another commit", replace(PULL_DISPATCH, run_sha=OTHER), "superseded"),
    ("for a closed one", pulled(PULL_DISPATCH, is_open=False), "closed"),
    ("for one without label", pulled(PULL_DISPATCH, labels=()), "label-missing"),
    # closed, superseded, draft
    ("closed", pulled(INSIDER, is_open=False), "closed"),
    ("another head", replace(INSIDER, run_sha=OTHER), "superseded"),
    ("a merge commit of another head", replace(INSIDER, merges_head=False), "superseded"),
    ("another base", pulled(INSIDER, base_ref="release"), "superseded"),
    ("draft", pulled(INSIDER, draft=True), "draft"),
    # paused, old-base
    ("paused", replace(INSIDER, status=PAUSED), "paused"),
    ("paused, a schedule still runs", replace(SCHEDULE, status=PAUSED), "default-branch"),
    *[
        (
            f"bypassed by {level.name}",
            bypassed(at_level(level), PAUSED),
            "author" if level >= Permission.MAINTAIN else "paused",
        )
        for level in LEVELS
    ],
    ("bypassed by a bot", bypassed(BOT, PAUSED), "paused"),
    ("bypassed through an app", bypassed(KEEPER, PAUSED, through_app=True), "paused"),
    ("old base", replace(pulled(INSIDER, contains_base=False), status=NEEDS), "old-base"),
    ("new base", replace(INSIDER, status=NEEDS), "author"),
    ("old base bypassed", bypassed(KEEPER, NEEDS), "author"),
    ("old base bypassed by write", bypassed(MONA, NEEDS), "old-base"),
    # label-missing
    ("no label", pulled(INSIDER, labels=()), "label-missing"),
    ("a lookalike", pulled(INSIDER, labels=("run-сi",)), "label-missing"),  # noqa: RUF001
    ("upper case is another", pulled(INSIDER, labels=("RUN-CI",)), "label-missing"),
    ("Extra without its label", replace(INSIDER, extra=True), "label-missing"),
    (
        "Extra with its label only",
        pulled(replace(INSIDER, extra=True), labels=("run-ci-extra",)),
        "label-missing",
    ),
    ("Extra with both", pulled(replace(INSIDER, extra=True), labels=EXTRA), "author"),
    (
        "label taken off",
        pulled(replace(INSIDER, action="unlabeled", label="run-ci"), labels=()),
        "label-missing",
    ),
    # protected
    ("a fork changes CI", pulled(GRANTED, paths=(".github/x.yml",)), "protected"),
    ("one of many", pulled(GRANTED, paths=("a.py", "b/conftest.py", "c.py")), "protected"),
    *[
        (
            f"a fork's CI granted by {level.name}",
            pulled(STRANGER, paths=("Makefile",), comments=comment(at_level(level))),
            "granted" if level >= Permission.MAINTAIN else "protected",
        )
        for level in LEVELS
    ],
    ("labelled by maintain", pulled(labelled(KEEPER), paths=("Makefile",)), "granted"),
    (
        "granted for another commit",
        pulled(STRANGER, paths=("Makefile",), comments=comment(KEEPER, OTHER)),
        "protected",
    ),
    ("an insider changes CI", pulled(INSIDER, paths=(".github/x.yml",)), "author"),
    (
        "an insider's fork changes CI",
        pulled(INSIDER, same_repository=False, paths=("Makefile",)),
        "protected",
    ),
    ("a listed person changes CI", pulled(LISTED, paths=("Makefile",)), "protected"),
    # cooldown
    ("just before", replace(LISTED, gpu_runs=(GpuRun(16, 59.9),)), "cooldown"),
    ("just after", replace(LISTED, gpu_runs=(GpuRun(16, 60.0),)), "author"),
    ("one of several", replace(LISTED, gpu_runs=(GpuRun(16, 500.0), GpuRun(16, 0.0))), "cooldown"),
    ("another person's", replace(LISTED, gpu_runs=(GpuRun(14, 1.0),)), "author"),
    (
        "lifted by a grant",
        pulled(replace(LISTED, gpu_runs=(GpuRun(16, 1.0),)), comments=comment(MONA)),
        "author",
    ),
    (
        "the listed person who re-runs",
        replace(
            INSIDER, attempt=2, triggering=REGULAR, people=(ENTRY,), gpu_runs=(GpuRun(16, 1.0),)
        ),
        "cooldown",
    ),
    (
        "an entry beside write access",
        replace(INSIDER, people=(Entry("alice", 11, 60.0),), gpu_runs=(GpuRun(11, 1.0),)),
        "author",
    ),
    # author
    ("insider", INSIDER, "author"),
    *[
        (
            f"an author with {level.name}",
            pulled(INSIDER, author=at_level(level)),
            "author" if level >= Permission.WRITE else "no-grant",
        )
        for level in LEVELS
    ],
    ("an author's own fork", pulled(INSIDER, same_repository=False), "no-grant"),
    ("a bot as author", pulled(INSIDER, author=BOT), "no-grant"),
    ("listed", LISTED, "author"),
    ("listed, from a fork", pulled(LISTED, same_repository=False), "no-grant"),
    (
        "the login is listed, the number is another's",
        pulled(LISTED, author=person("regular", 99, Permission.READ)),
        "no-grant",
    ),
    (
        "a bot with a listed number",
        pulled(LISTED, author=Person("regular[bot]", 16, False)),
        "no-grant",
    ),
    # granted
    ("labelled by write", GRANTED, "granted"),
    *[
        (
            f"labelled by {level.name}",
            labelled(at_level(level)),
            "granted" if level >= Permission.WRITE else "no-grant",
        )
        for level in LEVELS
    ],
    ("labelled by the author", pulled(labelled(MONA), author=MONA), "no-grant"),
    ("labelled by a bot", labelled(BOT), "no-grant"),
    ("labelled by the token", labelled(TOKEN), "no-grant"),
    (
        "a bot with a person's number",
        replace(GRANTED, sender=replace(MONA, human=False)),
        "no-grant",
    ),
    ("labelled through an app", labelled(MONA, through_app=True), "no-grant"),
    ("put on again by another", pulled(GRANTED, labelled={"run-ci": Act(KEEPER)}), "no-grant"),
    (
        "a bypass is no grant",
        pulled(
            replace(GRANTED, label="bypass-fastfail"),
            labelled={"run-ci": Act(MONA), "bypass-fastfail": Act(MONA)},
        ),
        "no-grant",
    ),
    ("taken off is no grant", replace(GRANTED, action="unlabeled"), "no-grant"),
    ("a commented grant", pulled(STRANGER, comments=comment(MONA)), "granted"),
    ("for another commit", pulled(STRANGER, comments=comment(MONA, OTHER)), "no-grant"),
    ("edited", pulled(STRANGER, comments=comment(MONA, edited=True)), "no-grant"),
    ("through an app", pulled(STRANGER, comments=comment(MONA, through_app=True)), "no-grant"),
    ("by the author", pulled(STRANGER, author=MONA, comments=comment(MONA)), "no-grant"),
    ("by a bot", pulled(STRANGER, comments=comment(BOT)), "no-grant"),
    ("by triage", pulled(STRANGER, comments=comment(at_level(Permission.TRIAGE))), "no-grant"),
    ("one good among bad", pulled(STRANGER, comments=(*comment(EVE), *comment(MONA))), "granted"),
    # a label from before this event
    ("labelled before it was reopened", BEFORE, "granted"),
    ("another label of ours later", replace(BEFORE, action="labeled", label=FAST), "granted"),
    ("one of ours taken off", replace(BEFORE, action="unlabeled", label=FAST), "granted"),
    ("a push", replace(BEFORE, action="synchronize"), "no-grant"),
    ("opened", replace(BEFORE, action="opened"), "no-grant"),
    (
        "the push's run again",
        replace(BEFORE, action="synchronize", attempt=2, triggering=MONA),
        "granted",
    ),
    ("a dispatch", pulled(PULL_DISPATCH, author=EVE, history=(Act(MONA, HEAD),)), "no-grant"),
    ("for another commit", pulled(BEFORE, history=(Act(MONA, OTHER),)), "no-grant"),
    ("its author's", pulled(BEFORE, author=MONA), "no-grant"),
    ("by triage", pulled(BEFORE, history=(Act(at_level(Permission.TRIAGE), HEAD),)), "no-grant"),
    (
        "too low for CI",
        pulled(BEFORE, paths=("Makefile",)),
        "protected",
    ),
    (
        "high enough for CI",
        pulled(BEFORE, paths=("Makefile",), history=(Act(KEEPER, HEAD),)),
        "granted",
    ),
    (
        "lifts no cooldown",
        pulled(
            replace(LISTED, action="reopened", gpu_runs=(GpuRun(16, 1.0),)),
            history=(Act(MONA, HEAD),),
        ),
        "cooldown",
    ),
    # label-unclear
    ("in doubt", pulled(BEFORE, history=(Act(MONA, doubt="why"),)), "label-unclear"),
    ("in doubt, by triage", pulled(BEFORE, history=(Act(EVE, doubt="why"),)), "no-grant"),
    (
        "one of two in doubt",
        pulled(BEFORE, history=(Act(MONA, doubt="why"), Act(MONA, HEAD))),
        "granted",
    ),
    # no-grant
    ("a stranger's push", STRANGER, "no-grant"),
]


@pytest.mark.parametrize(("about", "request_", "rule"), ROWS, ids=[f"{r}-{a}" for a, _, r in ROWS])
def test_the_first_matching_row_decides(about: str, request_: GateRequest, rule: str) -> None:
    decision = decide(request_)
    assert decision.rule == rule, decision.reason
    assert decision.outcome is {row.name: row.outcome for row in RULES}[rule]
    assert decision.reason and (decision.remedy or decision.allowed)


def test_every_row_is_reached() -> None:
    assert {rule for _, _, rule in ROWS} == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_without_a_row_some_request_is_decided_otherwise(name: str) -> None:
    rest = tuple(rule for rule in RULES if rule.name != name)
    changed = [about for about, request, _ in ROWS if decide(request, rest) != decide(request)]
    assert changed


FACTS = [
    (SCHEDULE, "event attempt for_pull ref default_branch repository_is_fork"),
    (QUEUED, "action run_sha ref default_branch repository_is_fork queue merge_queue status"),
    (DISPATCH, "event attempt for_pull ref default_branch repository_is_fork triggering"),
    (INSIDER, "event action attempt for_pull run_sha run_base merges_head pull status"),
    (GRANTED, "label sender protected"),
    (replace(INSIDER, action="edited", retargets=True), "retargets"),
    (replace(INSIDER, attempt=2), "triggering"),
    (LISTED, "people gpu_runs"),
]


@pytest.mark.parametrize(
    ("request_", "name"),
    [(request_, name) for request_, names in FACTS for name in names.split()],
)
def test_a_fact_that_is_missing_denies(request_: GateRequest, name: str) -> None:
    assert decide(request_).allowed
    decision = decide(replace(request_, **{name: None}))
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")


PULL_FACTS = [
    (INSIDER, "is_open draft author head_sha base_ref same_repository labels"),
    (GRANTED, "paths comments"),
    (BEFORE, "history"),
    (replace(INSIDER, status=NEEDS), "contains_base"),
]


@pytest.mark.parametrize(
    ("request_", "name"),
    [(request_, name) for request_, names in PULL_FACTS for name in names.split()],
)
def test_a_missing_fact_about_the_pull_request_denies(request_: GateRequest, name: str) -> None:
    assert decide(request_).allowed
    decision = decide(pulled(request_, **{name: None}))
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")


@pytest.mark.parametrize("name", ["ref", "base_ref", "checked_out", "live_sha"])
def test_a_missing_fact_about_the_queue_denies(name: str) -> None:
    assert decide(queued(**{name: None})).rule == "unknown"


def test_a_label_that_nobody_is_known_to_have_put_on_denies() -> None:
    assert decide(pulled(GRANTED, labelled={})).rule == "unknown"
    assert decide(pulled(replace(bypassed(KEEPER, PAUSED)), labelled={})).rule == "unknown"


@pytest.mark.parametrize("level", [None])
def test_a_permission_that_is_not_known_denies(level: None) -> None:
    assert decide(pulled(INSIDER, author=replace(ALICE, permission=level))).rule == "unknown"
    assert decide(labelled(replace(MONA, permission=level))).rule == "unknown"
    assert decide(replace(DISPATCH, triggering=replace(MONA, permission=level))).rule == "unknown"


# `contains` of a workflow's expression takes case away as GitHub does, which folds fewer letters
# than Python, or others: what it may take for one of ours must not be ignored here.
@pytest.mark.parametrize(
    ("label", "other"),
    [
        ("run-ci", False),
        ("Run-CI", False),
        ("run-c\u0131", False),  # its capital is I
        ("BYPASS-FASTFAIL", False),
        ("bypa\u017fs-fastfail", False),  # folds to s
        ("run-ci ", True),
        ("run-ci\u200b", True),
        ("run\u2011ci", True),
        ("run-ci-extra", True),  # another workflow's
        ("r\u00fcn-ci", True),
        ("documentation", True),
    ],
)
def test_which_labels_are_none_of_ours(label: str, other: bool) -> None:
    for action in ("labeled", "unlabeled"):
        request = replace(INSIDER, event="pull_request", action=action, label=label)
        assert is_other_label(request) is other


PROTECTED = [
    ".github/workflows/pr-test.yml",
    ".github/CODEOWNERS",
    ".github",  # as a link or a submodule
    "ci_scripts",
    "ci_scripts/runci/gate.py",
    "ci_scripts/host/job-started.sh",
    "pyproject.toml",
    "kernel/pyproject.toml",
    "constraints.txt",
    "Makefile",
    ".ci/run",
    "conftest.py",
    "test/registered/conftest.py",
    ".gitmodules",
    "setup.py",
    "setup.cfg",
    "pytest.ini",
    "test/.pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    ".GitHub/workflows/pr-test.yml",  # the same folder on a disk that ignores case
    "CI_scripts/runci/gate.py",
    "makefile",
    "GNUmakefile",
    "test/suites.yml",
    "test/perf.yml",
    "Test/Suites.yml",
    "runci-baseline.json",
    "requirements.txt",
    "requirements-dev.txt",
    "kernel/requirements.txt",
    "requirements/test.txt",
    "constraints-ci.txt",
    "uv.lock",
    "kernel/uv.lock",
    "pylock.ci.toml",
    "poetry.lock",
    "Pipfile.lock",
    "test/node/package.json",
    "test/node/package-lock.json",
    "Cargo.lock",
]
OPEN = [
    "kernel/sm120_ba/gemm.py",
    "test/registered/test_a.py",
    "github/workflows/x.yml",
    "docs/.github.md",
    "my_ci_scripts/x.py",
    "kernel/ci_scripts/x.py",
    "conftest.py.txt",
    "test/xconftest.py",
    "examples/sglang/suites.md",
    "ruff.toml",
    ".pre-commit-config.yaml",
    "README.md",
    "kernel/locks.py",
    "docs/requirements.md",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_what_decides_about_ci_is_protected(path: str) -> None:
    assert is_protected(path)


def test_what_names_runners_skips_and_gates_is_protected_by_its_own_name() -> None:
    assert (ROOT / "test/suites.yml").is_file() and (ROOT / "test/perf.yml").is_file()
    elsewhere = [f"ci/of/ours/{name}" for name in CONFIG_NAMES]
    for path in (*CONFIGS, *elsewhere, "test/perf.yml"):
        assert is_protected(path), path


MORE = ("tests/lanes.yml", "CI/**", "Dockerfile")


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("tests/lanes.yml", True),
        ("Tests/Lanes.yml", True),
        ("a/tests/lanes.yml", False),
        ("a/tests/Suites.yml", True),
        ("ci/a/b.sh", True),
        ("ci", True),  # it could become a link
        ("docker/dockerfile", True),
        (".github/x", True),
        ("test/suites.yml", True),  # what is built in stays
        ("kernel/gemm.py", False),
    ],
)
def test_a_repository_adds_protected_paths(path: str, protected: bool) -> None:
    assert is_protected(path, MORE) is protected
    request = pulled(replace(GRANTED, protected=MORE), paths=("kernel/a.py", path))
    assert decide(request).rule == ("protected" if protected else "granted")


@pytest.mark.parametrize("path", OPEN)
def test_everything_else_is_not(path: str) -> None:
    assert not is_protected(path)


def test_reasons_and_remedies_name_what_to_do() -> None:
    decision = decide(STRANGER)
    assert HEAD[:12] in decision.reason
    assert "`run-ci`" in decision.remedy and "/run-ci" in decision.remedy
    assert "alice" in decide(replace(INSIDER, attempt=2, triggering=ALICE)).reason
    assert "driver" in decide(replace(INSIDER, status=PAUSED)).reason
    waits = decide(replace(LISTED, gpu_runs=(GpuRun(16, 50.0),)))
    assert "10 more" in waits.reason


def test_the_page_shows_the_table() -> None:
    assert table() in (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
