"""Required checks that another job stands for, or that a skip turns green."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runci.checks.wf.audit import Audit, WorkflowRule, job_span, key_span
from runci.checks.wf.looks import looking
from runci.core.finding import Finding
from runci.read.yamlpos import Node
from runci.workflows.conditions import FAILURE, SKIPPED, SUCCESS, Outcome, condition, github_context
from runci.workflows.model import (
    Document,
    called_by,
    needs_of,
    text_of_node,
    value_of,
)
from runci.workflows.outputs import given_inputs
from runci.workflows.search import Before, Job, can_be_skipped, reaching
from runci.workflows.starts import only_hosted
from runci.workflows.values import Contexts, Unknown, spread, text_of
from runci.workflows.walk import MAX_CALLS

_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)

# Events whose checks appear on a pull request or in the merge queue.
CHECKED = frozenset({"pull_request", "pull_request_target", "pull_request_review", "merge_group"})


def check_name_twice(audit: Audit) -> Iterator[Finding]:
    """One finding at each job but the first of a name."""
    required = frozenset(audit.taxonomy.workflows.required_checks)
    known: dict[str, list[Check]] = {}
    for item in checks(audit):
        known.setdefault(item.name, []).append(item)
    for name, found in known.items():
        wanted = name in required if required else any(item.final for item in found)
        first = found[0]
        for item in found[1:] if wanted else ():
            if (item.document.path, item.job) == (first.document.path, first.job):
                continue  # one job, called twice under one name, is the caller's matter
            yield Finding(
                item.document.path,
                job_span(item.document, item.job),
                "WF102",
                f"check {name!r} is also a job of {first.document.path}",
                "Give one of them another `name:`: a merge that waits for the check takes "
                "whichever ends first.",
                key=name,
            )


CHECK_NAME_TWICE = WorkflowRule(
    id="WF102",
    name="check-name-twice",
    summary="A required check has the name of another job's check.",
    reason="A required check is known by its name alone: of two with one name, the green one may "
    "be the one that tested nothing. `workflows.required_checks` in suites.yml names the required "
    "ones; without it, jobs that wait for others and for which none waits are looked at.",
    bad="# .github/workflows/pr-test.yml has a job pr-test-finish, and so has this file:\n"
    "on: pull_request\n"
    "jobs:\n"
    "  pr-test-finish:\n"
    "    needs: [a, b]",
    good="on: pull_request\njobs:\n  pr-test-extra-finish:\n    needs: [a, b]",
    check=check_name_twice,
)


def green_by_skip(audit: Audit) -> Iterator[Finding]:
    """One finding at each final job of a workflow that a pull request starts."""
    for document, job in _final(audit):
        found = _fault(document, job, audit)
        if found is not None:
            yield found


def _final(audit: Audit) -> list[tuple[Document, str]]:
    """The jobs that a merge waits for, as suites.yml names them or as they look."""
    required = audit.taxonomy.workflows.required_checks
    if required:
        jobs = list(required_jobs(audit, required))
    else:
        checked = (d for d in audit.documents.values() if CHECKED.intersection(d.triggers))
        jobs = [(document, job) for document in checked for job in final_jobs(document)]
    found = {(d.path, job): (d, job) for d, job in jobs if needs_of(d.jobs[job])}
    return [found[key] for key in sorted(found)]


def _fault(document: Document, job: str, audit: Audit) -> Finding | None:
    node, path = document.jobs[job], document.path
    chains = list(looking(document, node, audit.documents))
    places = [(document, node), *(place for chain in chains for place in chain)]
    tolerant = next(((d, place) for d, place in places if _tolerant(place)), None)
    span, remedy = job_span(document, job), _remedy(document, node, audit)
    if _skipped_after_failure(node):
        span = key_span(node, "if") if node.get("if") else span
        said = "is skipped when a job before it fails: counts as green"
    elif _skipped_by_condition(document, node):
        span = key_span(node, "if")
        said = "can be skipped by its condition whatever the jobs before it did: counts as green"
    elif tolerant is not None:
        path = tolerant[0].path
        span, remedy = key_span(tolerant[1], "continue-on-error"), "Drop `continue-on-error`."
        said = "is green although it found what did not run"
    elif node.get("uses") is None and not chains:
        remedy = (
            "Run `runci verify`, or fail unless every `needs.*.result` is 'success'; no `||`, pipe "
            "or list of jobs that may skip may hide it."
        )
        said = "does not look for jobs that were skipped"
    else:
        return None
    return Finding(path, span, "WF105", f"final job {job!r} {said}", remedy, key=job)


def _remedy(document: Document, node: Node, audit: Audit) -> str:
    """Where a job may ask the gate by its condition, that condition must stay."""
    if node.get("uses") is not None or not only_hosted(node, document, audit.hosted):
        return (
            "Keep its condition, and add a last job on GitHub's machines that `needs` this one, "
            "with `if: always()`, and runs `runci verify`."
        )
    return "Write `if: always()`, and decide in its steps."


def always_reports(document: Document, node: Node) -> bool:
    """Whether the job runs whatever happened before it, on every event that gives a check."""
    return not (_skipped_after_failure(node) or _skipped_by_condition(document, node))


def _skipped_after_failure(node: Node) -> bool:
    """Whether the job cannot start once a job before it failed, or was skipped."""
    ends = condition(node.get("if"))
    return any(reaching(ends, before, {}) is None for before in _nothing_ran(node))


def _skipped_by_condition(document: Document, node: Node) -> bool:
    """Whether something else in its condition, such as the event, can skip the job all the same."""
    holds = condition(node.get("if"))
    events = sorted(CHECKED.intersection(document.triggers))
    return any(
        can_be_skipped(holds, before, {"github": github_context(document, event), "inputs": {}})
        for event in events
        for before in _nothing_ran(node)
    )


def _may_start(document: Document, node: Node) -> bool:
    """Whether any event that gives a check can start the job: one of releases is no check."""
    names, holds = needs_of(node), condition(node.get("if"))
    ends = tuple(Outcome(result, Unknown()) for result in (SUCCESS, FAILURE, SKIPPED))
    before = Before(names, {name: Job(ends) for name in names})
    return any(
        reaching(holds, before, {"github": github_context(document, event), "inputs": {}})
        is not None
        for event in CHECKED.intersection(document.triggers)
    )


def _nothing_ran(node: Node) -> Iterator[Before]:
    """All jobs before it failed, or all were skipped."""
    names = needs_of(node)
    for result in (FAILURE, SKIPPED):
        yield Before(names, {name: Job((Outcome(result, Unknown()),)) for name in names})


def _tolerant(place: Node) -> bool:
    return text_of_node(place.get("continue-on-error")) not in ("", "false")


GREEN_BY_SKIP = WorkflowRule(
    id="WF105",
    name="green-by-skip",
    summary="A final job is green, or skipped, although a job before it did not run.",
    reason="A skipped job counts as a success for a required check, and so does a final job that "
    "looks for failures only. What was never run is then merged as tested.",
    bad="on: pull_request\n"
    "jobs:\n"
    "  pr-test-finish:\n"
    "    needs: [base-a, gpu]\n"
    "    if: always()\n"
    "    steps:\n"
    "      - if: contains(needs.*.result, 'failure')\n"
    "        run: exit 1",
    good="on: pull_request\n"
    "jobs:\n"
    "  pr-test-finish:\n"
    "    needs: [base-a, gpu]\n"
    "    if: always()\n"
    "    steps:\n"
    "      - run: runci verify plan.json results",
    check=green_by_skip,
)


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
    finals = final_jobs(document)
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


def final_jobs(document: Document) -> frozenset[str]:
    """Jobs that wait for two or more others, and for which no job waits.

    One that starts on no event of a pull request, such as a mail on a schedule, is no check of it.
    """
    wanted = {name.lower() for node in document.jobs.values() for name in needs_of(node)}
    return frozenset(
        job
        for job, node in document.jobs.items()
        if len(needs_of(node)) > 1 and job.lower() not in wanted and _may_start(document, node)
    )


RULES = (CHECK_NAME_TWICE, GREEN_BY_SKIP)
