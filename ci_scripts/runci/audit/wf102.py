"""WF102: two jobs that give a required check the same name."""

from __future__ import annotations

from collections.abc import Iterator

from runci.audit.model import Audit, WorkflowRule, job_span
from runci.audit.names import Check, checks
from runci.finding import Finding


def check(audit: Audit) -> Iterator[Finding]:
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


RULE = WorkflowRule(
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
    check=check,
)
