"""Called workflows whose jobs ask for more than the job that calls them has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runci.checks.wf.audit import Audit, WorkflowRule, key_span
from runci.core.finding import Finding
from runci.read.yamlpos import Node
from runci.workflows.model import Document, called_by, text_of_node
from runci.workflows.walk import MAX_CALLS

_LEVELS = ("none", "read", "write")
_ALL = ""  # stands for every scope that is not named

Permissions = Mapping[str, str]


def asks_for_more(audit: Audit) -> Iterator[Finding]:
    """One finding at each call, with the first job that asks for more."""
    for document, job, node in audit.jobs():
        allowed = _written(document, node)
        called = called_by(node, audit.documents)
        if called is None or allowed is None:
            continue  # what nobody wrote is the repository's setting
        lacking = _lacking(called, allowed, audit, 0)
        if lacking is not None:
            where, scope, level = lacking
            yield Finding(
                document.path,
                key_span(node, "permissions" if node.get("permissions") else "uses"),
                "WF113",
                f"job {job!r} gives {scope}: {_level(allowed, scope)}, and {where} asks for "
                f"{level}: GitHub does not start the workflow",
                f"Write `{scope}: {level}` below the `permissions:` of job {job}.",
                key=f"{job}: {scope}",
            )


def _lacking(
    called: Document, allowed: Permissions, audit: Audit, depth: int
) -> tuple[str, str, str] | None:
    """What of a called workflow asks for more, in which scope, and for what.

    What it writes for all its jobs counts also where each has its own: GitHub compares both.
    """
    asking = [(called.path, called.root)]
    asking += [(f"job {name!r} of {called.path}", node) for name, node in called.jobs.items()]
    for where, node in asking:
        for scope, level in (_levels(node) or {}).items():
            if _LEVELS.index(level) > _LEVELS.index(_level(allowed, scope)):
                return where, scope or "all scopes", level
        below = called_by(node, audit.documents)
        if below is not None and depth < MAX_CALLS:
            has = _written(called, node)
            found = _lacking(below, allowed if has is None else has, audit, depth + 1)
            if found is not None:
                return found
    return None


def _level(allowed: Permissions, scope: str) -> str:
    return allowed.get(scope, allowed.get(_ALL, "none"))


def _written(document: Document, job: Node) -> Permissions | None:
    """What a job's token may do, as it or its workflow says; None where neither does."""
    own = _levels(job)
    return own if own is not None else _levels(document.root)


def _levels(place: Node) -> Permissions | None:
    """What `permissions:` of a job or workflow say."""
    node = place.get("permissions")
    if node is None:
        return None
    text = text_of_node(node).removesuffix("-all")
    if text in _LEVELS:
        return {_ALL: text}
    levels = ((scope, text_of_node(level)) for scope, level in node.mapping.items())
    return {scope: level for scope, level in levels if level in _LEVELS}


ASKS_FOR_MORE = WorkflowRule(
    id="WF113",
    name="called-asks-for-more",
    summary="A called workflow asks for more permissions than the job that calls it has.",
    reason="GitHub then refuses the whole workflow before any job starts: there is no check, and "
    "a merge that waits for one waits for ever. The jobs of a called workflow have at most what "
    "the calling job has, however deep the calls. (Where nobody writes `permissions:` the "
    "repository's setting counts, which is not known here.)",
    bad="# the called workflow has a job with `permissions: {actions: read}`\n"
    "on: pull_request\n"
    "jobs:\n"
    "  gate:\n"
    "    uses: ./.github/workflows/pr-gate.yml\n"
    "    permissions: {contents: read}",
    good="on: pull_request\n"
    "jobs:\n"
    "  gate:\n"
    "    uses: ./.github/workflows/pr-gate.yml\n"
    "    permissions: {actions: read, contents: read, issues: read, pull-requests: read}",
    check=asks_for_more,
)

RULES = (ASKS_FOR_MORE,)
