"""Which events a stranger can cause, and what expressions can know of them."""

from __future__ import annotations

from runci.workflows.model import Document, text_of_node
from runci.workflows.values import Partial, Unknown, Value, one

# Events that need write access to the repository, or a token of somebody who has it. Any other
# event, also one that is not known here, is one that a stranger can cause.
TRUSTED = frozenset(
    {
        "branch_protection_rule",
        "create",
        "delete",
        "deployment",
        "deployment_status",
        "label",
        "merge_group",
        "milestone",
        "page_build",
        "public",
        "push",
        "registry_package",
        "release",
        "repository_dispatch",
        "schedule",
        "workflow_dispatch",
    }
)
PULL_REQUEST = ("pull_request", "pull_request_review", "pull_request_review_comment")
_DEFAULT_TYPES = ("opened", "synchronize", "reopened")


def stranger_events(document: Document) -> tuple[str, ...]:
    """The events of a workflow that need no write access."""
    return tuple(e for e in document.triggers if e not in TRUSTED and e != "workflow_call")


def github_context(document: Document, event: str) -> Partial:
    """`github` as far as the event alone decides it."""
    types = _types(document, event)
    payload = Partial({"inputs": None})
    if types:
        payload["action"] = one(types)
    known: dict[str, Value] = {"event_name": event, "event": payload}
    if event in PULL_REQUEST and types and "closed" not in types:
        # Once merged, a closed pull request runs on the base branch.
        known |= {"ref": Unknown("refs/pull/*"), "ref_name": Unknown("*/merge")}
    return Partial(known)


def _types(document: Document, event: str) -> tuple[str, ...]:
    node = document.triggers.get(event)
    given = node.get("types") if node is not None else None
    if given is None:
        return _DEFAULT_TYPES if event == "pull_request" else ()
    items = given.items or (given,)
    return tuple(text_of_node(item) for item in items)
