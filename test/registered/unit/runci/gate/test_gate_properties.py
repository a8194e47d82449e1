"""What holds for every request: no GPU without authority, and an unknown never opens the gate."""

from __future__ import annotations

import itertools
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))  # for pytest

from test_gate import BEFORE, GRANTED, GROUP, INSIDER, LISTED, PULL_DISPATCH, QUEUED, ROWS

from runci import register_cpu_ci
from runci.config.gate import Entry, Labels, Status
from runci.gate.decide import decide
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

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

# One account has one level, as in one answer of the API.
PEOPLE = [
    *[Person(level.name.lower(), 20 + level, True, level) for level in Permission],
    Person("mona", 12, True, Permission.WRITE),
    Person("regular", 16, True, Permission.READ),
    Person("labeler[bot]", 77, False),
    Person(WORKFLOW_BOT, 41898282, False),
]
SHAS = ["a" * 40, "d" * 40]
ACTS = [
    Act(by, sha, edited, app)
    for by, sha, edited, app in itertools.product(PEOPLE, SHAS, (False, True), (False, True))
]
NAMES = ("run-ci", "run-ci-extra", "bypass-maintenance", "bypass-fastfail", "docs", "go")
VALUES: dict[str, list[Any]] = {
    "event": ["pull_request", "workflow_dispatch", "schedule", "push", "merge_group", "comment"],
    "action": ["labeled", "unlabeled", "synchronize", "opened", "reopened", "edited"],
    "retargets": [True, False],
    "merge_queue": [True, False],
    "queue": [
        Queue(),
        *[
            Queue(GROUP, to, *shas)
            for to, shas in itertools.product(
                ("refs/heads/main", "refs/heads/release"), itertools.product(SHAS, SHAS)
            )
        ],
    ],
    "label": list(NAMES),
    "attempt": [1, 2],
    "ref": ["refs/heads/main", "refs/heads/evil"],
    "repository_is_fork": [True, False],
    "labels": [Labels(), Labels(run="docs"), Labels(extra="docs"), Labels("go", "more", "up", "x")],
    "extra": [True, False],
    "host_labels": [None, ("run-ci",), ("go", "docs")],
    "for_pull": [True, False],
    "run_sha": SHAS,
    "merges_head": [True, False],
    "run_base": ["main", "release"],
    "sender": PEOPLE,
    "triggering": PEOPLE,
    "asked_by": ACTS,
    "status": [Status(False), Status(True), Status(False, min_base_sha="b" * 40)],
    "people": [(), (Entry("regular", 16, 60.0),)],
    "protected": [(), ("kernel/**",)],
    "gpu_runs": [(), (GpuRun(16, 5.0),), (GpuRun(14, 5.0),)],
}
PULL_VALUES: dict[str, list[Any]] = {
    "is_open": [True, False],
    "draft": [True, False],
    "author": PEOPLE,
    "head_sha": SHAS,
    "base_ref": ["main", "release"],
    "same_repository": [True, False],
    "labels": [(), *itertools.combinations(NAMES, 1), NAMES[:2], NAMES],
    "labelled": [dict.fromkeys(NAMES, act) for act in ACTS],
    "comments": [(), *[(act,) for act in ACTS]],
    "history": [(), *[(act,) for act in ACTS], *[(Act(by, doubt="why"),) for by in PEOPLE]],
    "paths": [("kernel/a.py",), ("kernel/a.py", "Makefile"), ()],
    "contains_base": [True, False],
}
Change = tuple[str, str, Any]
KINDS: list[st.SearchStrategy[Change]] = [
    st.tuples(st.just(of), st.just(name), st.sampled_from(values))
    for of, known in (("request", VALUES), ("pull", PULL_VALUES))
    for name, values in known.items()
]


def changed(request: GateRequest, changes: list[Change]) -> GateRequest:
    for of, name, value in changes:
        if of == "request":
            request = replace(request, **{name: value})
        elif request.pull is not None:
            request = replace(request, pull=replace(request.pull, **{name: value}))
    return request


# From requests that are allowed and each row's, so that few changes reach every row.
STARTS = [
    INSIDER,
    QUEUED,
    GRANTED,
    BEFORE,
    LISTED,
    PULL_DISPATCH,
    *[request for _, request, _ in ROWS],
]
REQUESTS = st.builds(changed, st.sampled_from(STARTS), st.lists(st.one_of(KINDS), max_size=4))


def can_write(person: Person | None, least: Permission = Permission.WRITE) -> bool:
    return bool(person and person.human and person.permission and person.permission >= least)


def needed(request: GateRequest) -> set[str]:
    """Said anew: a host's own list, else what the default branch calls the labels."""
    if request.host_labels is not None:
        return set(request.host_labels)
    assert request.labels is not None
    return {request.labels.run, *([request.labels.extra] if request.extra else [])}


def is_granted(request: GateRequest, least: Permission = Permission.WRITE) -> bool:
    """Said anew, without the gate's own functions."""
    pull = request.pull
    assert pull is not None and pull.author is not None
    by_comment = any(
        can_write(act.by, least)
        and act.by.id != pull.author.id
        and act.sha == pull.head_sha == request.run_sha
        and not act.edited
        and not act.through_app
        for act in pull.comments or ()
    )
    by_label = (
        (request.event, request.action) == ("pull_request", "labeled")
        and request.label in needed(request)
        and can_write(pull.labelled[str(request.label)].by, least)
        and pull.labelled[str(request.label)].by.id == (request.sender and request.sender.id)
        and not pull.labelled[str(request.label)].through_app
        and request.sender != pull.author
        and request.run_sha == pull.head_sha
    )
    # A label from before, for no push; what a comment names counts for every event.
    is_push = request.action in ("opened", "synchronize") and request.attempt == 1
    by_earlier_label = (request.event == "pull_request" and not is_push) and any(
        can_write(act.by, least)
        and act.by.id != pull.author.id
        and act.sha == pull.head_sha == request.run_sha
        and not act.through_app
        for act in pull.history or ()
    )
    return by_comment or by_label or by_earlier_label


@settings(max_examples=1500, deadline=None)
@given(REQUESTS)
def test_nothing_is_allowed_without_a_grant_or_write_access(request: GateRequest) -> None:
    if not decide(request).allowed:
        return
    if not request.for_pull:
        if request.event == "merge_group":
            queue = request.queue
            assert queue and request.merge_queue and not request.repository_is_fork
            assert queue.base_ref == "refs/heads/main" and queue.ref == request.ref
            assert queue.live_sha == queue.checked_out == request.run_sha
            return
        # On the default branch of the repository itself, so merged by somebody who may write.
        assert (request.ref, request.repository_is_fork) == ("refs/heads/main", False)
        assert request.event in ("schedule", "push") or can_write(request.triggering)
        return
    pull = request.pull
    assert pull is not None and pull.author is not None
    listed = any(entry.id == pull.author.id for entry in request.people or ())
    inside = pull.same_repository and (can_write(pull.author) or (listed and pull.author.human))
    assert is_granted(request) or inside
    assert pull.is_open and not pull.draft and request.run_sha == pull.head_sha
    assert request.merges_head or request.event != "pull_request"
    assert needed(request) <= set(pull.labels or ())
    if "Makefile" in (pull.paths or ()) and not (pull.same_repository and can_write(pull.author)):
        assert is_granted(request, Permission.MAINTAIN)


# What a request always has.
VALUELESS = ("extra", "host_labels", "unknown")
GONE: list[Change] = [
    *[("request", f.name, None) for f in fields(GateRequest) if f.name not in VALUELESS],
    *[("pull", f.name, None) for f in fields(Pull) if f.name not in ("number", "labelled")],
    ("pull", "labelled", {}),
    ("request", "unknown", ("something",)),
]


@settings(max_examples=1500, deadline=None)
@given(REQUESTS, st.lists(st.sampled_from(GONE), min_size=1, max_size=3))
def test_an_unknown_never_turns_another_answer_into_allow(
    request: GateRequest, gone: list[Change]
) -> None:
    if not decide(request).allowed:
        assert not decide(changed(request, gone)).allowed


@pytest.mark.parametrize("request_", [INSIDER, GRANTED, BEFORE, LISTED, PULL_DISPATCH])
def test_each_single_fact_that_is_gone_leaves_allow_or_denies(request_: GateRequest) -> None:
    for name in [f.name for f in fields(GateRequest) if f.name not in VALUELESS]:
        assert decide(replace(request_, **{name: None})).outcome is not Outcome.IGNORE


@settings(max_examples=300, deadline=None)
@given(REQUESTS, st.lists(st.text(min_size=1), min_size=1).map(tuple))
def test_anything_unknown_denies(request: GateRequest, unknown: tuple[str, ...]) -> None:
    decision = decide(replace(request, unknown=unknown))
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
