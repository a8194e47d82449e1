"""WF110: `pull_request_target`."""

from __future__ import annotations

from collections.abc import Iterator

from runci.audit.model import Audit, WorkflowRule, key_span
from runci.finding import Finding


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each workflow that the event starts."""
    for document in audit.documents.values():
        if "pull_request_target" not in document.triggers:
            continue
        events = document.root.get("on")
        inside = events is not None and "pull_request_target" in events.keys
        parent, key = (events, "pull_request_target") if inside else (document.root, "on")
        yield Finding(
            document.path,
            key_span(parent or document.root, key),
            "WF110",
            "pull_request_target runs for strangers with the repository's secrets",
            "Use pull_request, or workflow_run for what needs a token that may write.",
            key="pull_request_target",
        )


RULE = WorkflowRule(
    id="WF110",
    name="pull-request-target",
    summary="A workflow is started by `pull_request_target`.",
    reason="It runs with secrets and a token that may write, on an event that anybody can cause; "
    "one step that checks out the pull request's code gives both away. From 2026-12-02 GitHub "
    "blocks it in public repositories by default, so what depends on it stops.",
    bad="on: pull_request_target",
    good="on: pull_request",
    check=check,
)
