"""The ruleset of the default branch: whether what a merge waits for is what tests report."""

from __future__ import annotations

from collections.abc import Iterator

from runci.checks.wf.audit import Audit, WorkflowRule
from runci.checks.wf.required import CHECKED, always_reports, final_jobs, required_jobs
from runci.core.finding import Finding
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.model import Document, text_of_node

_ID = "WF111"


def required_checks(audit: Audit) -> Iterator[Finding]:
    """What an export lacks, and each required check that a skip turns green or leaves waiting."""
    if audit.ruleset is None:
        return
    path, root = audit.ruleset
    rules = _rules(root)
    if text_of_node(root.get("enforcement") or rules) not in ("", "active"):
        yield _finding(path, root, "enforcement", "the ruleset is not active", "Activate it.")
    if not _reviewed(root, rules):
        yield _finding(
            path, rules, "reviews", "no review by code owners is required",
            "Require a pull request with a review from code owners, and name them in CODEOWNERS.",
        )  # fmt: skip
    contexts = list(_contexts(root, rules))
    if not contexts:
        remedy = f"Require the status check of the last job{_names(audit)}."
        yield _finding(path, rules, "none", "no status check is required", remedy)
        return
    for node in contexts:
        fault = _fault(text_of_node(node), audit)
        if fault is not None:
            name, remedy = text_of_node(node), f"Require only the last job{_names(audit)}."
            yield _finding(path, node, name, f"required check {name!r} {fault}", remedy)
    named = {text_of_node(node) for node in contexts}
    wanted = set(audit.taxonomy.workflows.required_checks) - named
    if wanted or not _holds_last(audit, named):
        what = ", ".join(map(repr, sorted(wanted))) or "no last job"
        remedy = f"Require the last job{_names(audit)}."
        said = f"{what} of `required_checks` in suites.yml is not required" if wanted else (
            "no last job that always runs is required")  # fmt: skip
        yield _finding(path, contexts[0], "last", said, remedy)


def _finding(path: str, node: Node, key: str, said: str, remedy: str) -> Finding:
    return Finding(path, at(node.line, node.column), _ID, said, remedy, key=key)


def _rules(root: Node) -> Node:
    """A ruleset's rules; a list of rules, or the protection of a branch, is its own."""
    return root.get("rules") or root


def _of_type(rules: Node, kind: str) -> Iterator[Node]:
    for rule in rules.items:
        if text_of_node(rule.get("type")) == kind:
            yield rule.get("parameters") or rule


def _contexts(root: Node, rules: Node) -> Iterator[Node]:
    """The names of required checks, where they stand."""
    for rule in _of_type(rules, "required_status_checks"):
        listed = rule.get("required_status_checks")
        yield from (
            node for each in (listed.items if listed else ()) if (node := each.get("context"))
        )
    old = root.get("required_status_checks")
    newer = old.get("checks") if old else None
    if newer and newer.items:
        yield from (node for each in newer.items if (node := each.get("context")))
    elif old and (names := old.get("contexts")):
        yield from names.items


def _reviewed(root: Node, rules: Node) -> bool:
    asked = [rule.get("require_code_owner_review") for rule in _of_type(rules, "pull_request")]
    asked.append(root.get("required_pull_request_reviews", "require_code_owner_reviews"))
    return any(node is not None and node.value is True for node in asked)


def _fault(name: str, audit: Audit) -> str | None:
    """Why this check must not be required; None where nothing speaks against it."""
    jobs = list(required_jobs(audit, (name,)))
    if not jobs:
        return "is published by no job: a merge would wait for ever"
    for document, job in jobs:
        node = document.jobs[job]
        where = f"job {job!r} of {document.path}"
        if node.get("uses") is not None:
            return (
                f"comes from a called workflow, {where}: its name is not known where it is skipped"
            )
        if node.get("strategy", "matrix") is not None:
            return f"is one of a matrix, {where}: none of them is known where it is skipped"
        if not always_reports(document, node):
            return f"is {where}, which can be skipped: that counts as green"
    return None


def _last(audit: Audit) -> Iterator[tuple[Document, str]]:
    for document in audit.documents.values():
        if CHECKED.intersection(document.triggers):
            for job in sorted(final_jobs(document)):
                if always_reports(document, document.jobs[job]):
                    yield document, job


def _holds_last(audit: Audit, names: set[str]) -> bool:
    last = {(document.path, job) for document, job in _last(audit)}
    return any(
        (document.path, job) in last for document, job in required_jobs(audit, tuple(sorted(names)))
    )


def _names(audit: Audit) -> str:
    jobs = sorted({job for _, job in _last(audit)})
    return f" ({', '.join(jobs)})" if jobs else ""


RULESET = WorkflowRule(
    id=_ID,
    name="ruleset",
    summary="The ruleset of the default branch lets through what was not tested or reviewed.",
    reason="A skipped job is green under its own name, so a label that starts nothing would "
    "satisfy a required GPU job. Only a last job that always runs may be required. Looked at are "
    "`.github/ruleset.json` and what `--ruleset` names: an export of GitHub's, or its answer about "
    "a ruleset, the rules of a branch or the protection of a branch.",
    bad='{"enforcement": "active", "rules": [{"type": "required_status_checks", "parameters":\n'
    '  {"required_status_checks": [{"context": "gpu"}]}}]}',
    good='{"enforcement": "active", "rules": [{"type": "required_status_checks", "parameters":\n'
    '  {"required_status_checks": [{"context": "finish"}]}},\n'
    '  {"type": "pull_request", "parameters": {"require_code_owner_review": true}}]}',
    check=required_checks,
)

RULES = (RULESET,)
