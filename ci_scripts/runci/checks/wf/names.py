"""Jobs that a merge may wait for, and the names of their checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from runci.checks.wf.audit import Audit
from runci.read.yamlpos import Node
from runci.workflows.model import Document, called_by, needs_of, text_of_node, value_of
from runci.workflows.outputs import given_inputs
from runci.workflows.values import Contexts, Unknown, spread, text_of
from runci.workflows.walk import MAX_CALLS

_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)

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
        called = called_by(node, audit.documents)
        if called is None:
            full = " / ".join((*callers, text))
            yield Check(full, document, job, not callers and job in finals)
        elif len(callers) < MAX_CALLS:
            scope = {"inputs": given_inputs(node, called, contexts)}
            yield from _checks(audit, called, scope, (*callers, text_of(text)))


def required_jobs(audit: Audit, required: Sequence[str]) -> Iterator[tuple[Document, str]]:
    """Every job whose check is, or may be, one of these; and the jobs that call it.

    A name that cannot be known may be any name around what stands outside its expressions.
    """
    for document in audit.documents.values():
        if CHECKED.intersection(document.triggers):
            yield from _required(audit, document, {"inputs": {}}, _Callers(required))


class _Callers(NamedTuple):
    """On the way to a called job: what is looked for, patterns of names, and the calling jobs."""

    required: Sequence[str]
    names: tuple[str, ...] = ("",)
    jobs: tuple[tuple[Document, str], ...] = ()


def _required(
    audit: Audit, document: Document, contexts: Contexts, callers: _Callers
) -> Iterator[tuple[Document, str]]:
    for job, node in document.jobs.items():
        names = tuple(
            f"{before}{name}" for before in callers.names for name in _patterns(node, job, contexts)
        )
        called = called_by(node, audit.documents)
        jobs = (*callers.jobs, (document, job))
        if called is None:
            if any(re.fullmatch(name, one) for name in names for one in callers.required):
                yield from jobs
        elif len(callers.jobs) < MAX_CALLS:
            scope = {"inputs": given_inputs(node, called, contexts)}
            before = tuple(f"{name} / " for name in names)
            yield from _required(audit, called, scope, _Callers(callers.required, before, jobs))


def _patterns(node: Node, job: str, contexts: Contexts) -> tuple[str, ...]:
    """The names that a job can have, as regular expressions."""
    name = node.get("name")
    if name is None:
        return (re.escape(job),)
    found = []
    for value in spread(value_of(name, contexts)):
        if isinstance(value, Unknown):
            outside = _EXPRESSION.split(text_of_node(name))
            found.append("(?s:.*)".join(map(re.escape, outside)))
        else:
            # GitHub shows the job's id where the name comes to nothing.
            found.append(re.escape(text_of(value) or job))
    return tuple(dict.fromkeys(found))


def final_jobs(jobs: Mapping[str, Node]) -> frozenset[str]:
    """Jobs that wait for two or more others, and for which no job waits."""
    wanted = {name.lower() for node in jobs.values() for name in needs_of(node)}
    return frozenset(
        job for job, node in jobs.items() if len(needs_of(node)) > 1 and job.lower() not in wanted
    )
