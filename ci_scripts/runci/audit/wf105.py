"""WF105: a final job that is green, or skipped, although something before it did not run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.audit.conditions import condition
from runci.audit.model import Audit, WorkflowRule, job_span, key_span
from runci.audit.names import CHECKED, final_jobs, needs_of, required_jobs
from runci.audit.outcomes import FAILURE, SKIPPED, Outcome
from runci.audit.search import Before, Job, reaching
from runci.finding import Finding
from runci.workflows.model import Document, steps_of, text_of_node
from runci.workflows.values import Unknown
from runci.yamlpos import Node

# A step that looks at more than failures: `runci verify`, all of `needs`, or a word for it.
_LOOKS = re.compile(
    r"runci verify|tojson\(\s*needs\s*\)|\.result[^\n]*(success|skipped)"
    r"|(success|skipped)['\"]?[^\n]*\.result",
    re.IGNORECASE,
)


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each final job of a workflow that a pull request starts."""
    for document, job in _final(audit):
        found = _fault(document, job)
        if found is not None:
            yield found


def _final(audit: Audit) -> list[tuple[Document, str]]:
    """The jobs that a merge waits for, as suites.yml names them or as they look."""
    required = audit.taxonomy.workflows.required_checks
    if required:
        jobs = list(required_jobs(audit, required))
    else:
        checked = (d for d in audit.documents.values() if CHECKED.intersection(d.triggers))
        jobs = [(document, job) for document in checked for job in final_jobs(document.jobs)]
    found = {(d.path, job): (d, job) for d, job in jobs if needs_of(d.jobs[job])}
    return [found[key] for key in sorted(found)]


def _fault(document: Document, job: str) -> Finding | None:
    node = document.jobs[job]
    span, remedy = job_span(document, job), "Write `if: always()`."
    if _skipped_after_failure(node):
        span = key_span(node, "if") if node.get("if") else span
        said = "is skipped when a job before it fails: counts as green"
    elif (tolerant := _tolerant(node)) is not None:
        span, remedy = key_span(tolerant, "continue-on-error"), "Drop `continue-on-error`."
        said = "is green although it found what did not run"
    elif node.get("uses") is None and not _looks(node):
        remedy = "Run `runci verify`, or fail unless every `needs.*.result` is 'success'."
        said = "does not look for jobs that were skipped"
    else:
        return None
    return Finding(document.path, span, "WF105", f"final job {job!r} {said}", remedy, key=job)


def _skipped_after_failure(node: Node) -> bool:
    """Whether the job cannot start once a job before it failed, or was skipped."""
    names = needs_of(node)
    for result in (FAILURE, SKIPPED):
        before = {name: Job((Outcome(result, Unknown()),)) for name in names}
        if reaching(condition(node.get("if")), Before(names, before), {}) is None:
            return True
    return False


def _tolerant(node: Node) -> Node | None:
    """The job, or the step that looks, where its failure is tolerated."""
    looking = (step for step in steps_of(node) if _LOOKS.search(str(step.plain())))
    for place in (node, *looking):
        if text_of_node(place.get("continue-on-error")) not in ("", "false"):
            return place
    return None


def _looks(node: Node) -> bool:
    return any(_LOOKS.search(str(step.plain())) for step in (node, *steps_of(node)))


RULE = WorkflowRule(
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
    "      - run: runci verify --plan plan.json results",
    check=check,
)
