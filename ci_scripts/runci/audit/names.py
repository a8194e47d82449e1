"""Jobs that a merge may wait for, and the names of their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runci.audit.inputs import given_inputs
from runci.audit.model import Audit
from runci.workflows.model import Document, text_of_node, value_of
from runci.workflows.uses import local_path
from runci.workflows.values import Contexts, text_of
from runci.workflows.walk import MAX_CALLS
from runci.yamlpos import Node

# Events whose checks appear on a pull request or in the merge queue.
CHECKED = frozenset({"pull_request", "pull_request_target", "pull_request_review", "merge_group"})


class Check(NamedTuple):
    """One check: its name on the page, and the job that gives it. `final`: no job waits for it."""

    name: str
    document: Document
    job: str
    final: bool


def checks(audit: Audit) -> Iterator[Check]:
    """Every check of every workflow that a pull request starts and whose name can be known."""
    for document in audit.documents.values():
        if CHECKED.intersection(document.triggers):
            yield from _checks(audit, document, {"inputs": {}}, ())


def _checks(
    audit: Audit, document: Document, contexts: Contexts, callers: tuple[str, ...]
) -> Iterator[Check]:
    finals = final_jobs(document.jobs)
    for job, node in document.jobs.items():
        name = node.get("name")
        text = value_of(name, contexts) if name is not None else job
        if not isinstance(text, str):
            continue
        called = audit.documents.get(local_path(text_of_node(node.get("uses"))) or "")
        if called is None:
            full = " / ".join((*callers, text))
            yield Check(full, document, job, not callers and job in finals)
        elif len(callers) < MAX_CALLS:
            scope = {"inputs": given_inputs(node, called, contexts)}
            yield from _checks(audit, called, scope, (*callers, text_of(text)))


def final_jobs(jobs: Mapping[str, Node]) -> frozenset[str]:
    """Jobs that wait for two or more others, and for which no job waits."""
    wanted = {name.lower() for node in jobs.values() for name in needs_of(node)}
    return frozenset(
        job for job, node in jobs.items() if len(needs_of(node)) > 1 and job.lower() not in wanted
    )


def needs_of(node: Node) -> tuple[str, ...]:
    """The ids that `needs:` names, as text or list."""
    needs = node.get("needs")
    if needs is None:
        return ()
    return tuple(text_of_node(item) for item in needs.items or (needs,))
