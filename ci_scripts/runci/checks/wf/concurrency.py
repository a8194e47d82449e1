"""Concurrency groups that two pull requests share, so that one cancels the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.checks.wf.audit import Audit, WorkflowRule
from runci.core.finding import Finding
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.conditions import condition
from runci.workflows.evaluate import can_be, render
from runci.workflows.expressions import Binary, Call
from runci.workflows.model import Document, called_by, needs_of, text_of_node
from runci.workflows.outputs import given_inputs
from runci.workflows.values import Contexts, Partial, Value
from runci.workflows.walk import MAX_CALLS

_EVENTS = (
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_target",
)
# Two pull requests: their number, owner, branch and commit.
_PAIRS = (
    (
        "two forks with the same branch name",
        (1, "alice", "patch-1", "a1"),
        (2, "bob", "patch-1", "b2"),
    ),
    (
        "two pull requests of one fork",
        (1, "alice", "patch-1", "a1"),
        (2, "alice", "patch-2", "b2"),
    ),
    (
        "two forks with the same branch and commit",
        (1, "alice", "patch-1", "a1"),
        (2, "bob", "patch-1", "a1"),
    ),
    (
        "two pull requests of one fork from the same commit",
        (1, "alice", "patch-1", "a1"),
        (2, "alice", "patch-2", "a1"),
    ),
)
_Pair = Sequence[Contexts]


def shared_concurrency(audit: Audit) -> Iterator[Finding]:
    """One finding at each group that cannot tell two pull requests apart."""
    seen: set[tuple[str, int]] = set()
    for document in audit.documents.values():
        for event in sorted(set(_EVENTS).intersection(document.triggers)):
            for which, *pulls in _PAIRS:
                facts = [_github(event, *pull, document.path) for pull in pulls]
                pair = [{"github": known, "inputs": {}} for known in facts]
                for path, node in _shared(audit, document, pair, 0):
                    if (path, node.line) not in seen:
                        seen.add((path, node.line))
                        yield _finding(path, node, which, event)


def _finding(path: str, node: Node, which: str, event: str) -> Finding:
    group = " ".join(text_of_node(node).split())
    return Finding(
        path,
        at(node.line, node.column),
        "WF108",
        f"concurrency group {group!r} is one for {which} (on {event})",
        "Put `github.event.pull_request.number` into the group.",
        key=group,
    )


def _shared(
    audit: Audit, document: Document, pair: _Pair, depth: int
) -> Iterator[tuple[str, Node]]:
    jobs = [node for job, node in document.jobs.items() if _can_start(document, job, pair[0], ())]
    for owner in (document.root, *jobs):
        group = _group(owner)
        if group is not None and _may_meet(group, pair):
            yield document.path, group
    for job in jobs if depth < MAX_CALLS else ():
        called = called_by(job, audit.documents)
        if called is not None:
            below = [{"github": c["github"], "inputs": given_inputs(job, called, c)} for c in pair]
            yield from _shared(audit, called, below, depth + 1)


def _can_start(document: Document, job: str, facts: Contexts, above: tuple[str, ...]) -> bool:
    """Whether a job can run on an event: by its condition, and by the jobs that it needs."""
    node = document.jobs.get(job)
    decides = condition(node.get("if")) if node is not None else None
    if node is None or decides is None or job in above:
        return True
    if not can_be(True, decides, facts):
        return False
    first = decides.left if isinstance(decides, Binary) and decides.operator == "&&" else decides
    if first != Call("success", ()):
        return True  # whatever becomes of those before it
    return all(_can_start(document, name, facts, (*above, job)) for name in needs_of(node))


def _group(owner: Node) -> Node | None:
    concurrency = owner.get("concurrency")
    if concurrency is None or isinstance(concurrency.value, str):
        return concurrency
    return concurrency.get("group")


def _may_meet(group: Node, pair: _Pair) -> bool:
    """Whether the group can be the same text; what is unknown, be it of the event, may be."""
    first, second = ({repr(v) for v in render(text_of_node(group), c)} for c in pair)
    return not first.isdisjoint(second)


def _github(event: str, number: int, who: str, branch: str, commit: str, path: str) -> Partial:
    """What differs between pull requests."""
    of_pull = event.startswith("pull_request")
    merged = of_pull and event != "pull_request_target"
    repository: dict[str, Value] = {
        "full_name": f"{who}/repo",
        "id": f"id of {who}",
        "owner": Partial({"login": who}),
    }
    head: dict[str, Value] = {
        "ref": branch,
        "sha": commit,
        "label": f"{who}:{branch}",
        "repo": Partial(repository),
    }
    subject: dict[str, Value] = {
        "number": number,
        "id": number,
        "node_id": f"node {number}",
        "html_url": f"/pull/{number}",
        "url": f"/pulls/{number}",
        "head": Partial(head),
        "user": Partial({"login": who}),
    }
    payload: dict[str, Value] = {"inputs": None}
    payload["pull_request" if of_pull else "issue"] = Partial(subject)
    if of_pull:
        payload |= {"number": number, "issue": None}
    else:
        payload |= {"pull_request": None, "comment": Partial({"id": number})}
    return Partial(
        {
            "event_name": event,
            "event": Partial(payload),
            "ref": f"refs/pull/{number}/merge" if merged else "refs/heads/main",
            "ref_name": f"{number}/merge" if merged else "main",
            "head_ref": branch if of_pull else "",
            "base_ref": "main" if of_pull else "",
            "sha": f"{number:040}" if merged else "0" * 40,
            "run_id": number,
            "run_number": number,
            "actor": who,
            "triggering_actor": who,
            "workflow": path,
            "workflow_ref": path,
            "repository": "owner/repo",
            "repository_owner": "owner",
            "job": "",
        }
    )


SHARED_CONCURRENCY = WorkflowRule(
    id="WF108",
    name="shared-concurrency",
    summary="A concurrency group is the same for two pull requests.",
    reason="Of one group GitHub runs one and keeps one waiting: the pull request of another fork "
    "with the same branch name ends the running tests of yours. The groups of two pull requests "
    "are computed and compared.",
    bad="on: pull_request\n"
    "concurrency:\n"
    "  group: pr-test-${{ github.head_ref }}\n"
    "  cancel-in-progress: true",
    good="on: pull_request\n"
    "concurrency:\n"
    "  group: pr-test-${{ github.event.pull_request.number }}\n"
    "  cancel-in-progress: true",
    check=shared_concurrency,
)

RULES = (SHARED_CONCURRENCY,)
