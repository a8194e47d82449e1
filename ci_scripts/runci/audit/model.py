"""What the audit's rules see, and what such a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runci.audit.gates import Gates
from runci.finding import Finding, RuleInfo
from runci.source import Span, at
from runci.suites import Taxonomy
from runci.workflows.model import Document
from runci.workflows.runs import Broken, SuiteRun
from runci.workflows.walk import Script
from runci.yamlpos import Node


@dataclass(frozen=True, slots=True)
class Audit:
    """Every workflow and local action, by path.

    `broken` are the files that cannot be read: nothing can be proven of them. `suite_scripts` are
    the scripts that start suites, with those suites.
    """

    documents: Mapping[str, Document]
    taxonomy: Taxonomy
    broken: tuple[Broken, ...] = ()
    suite_scripts: Sequence[tuple[Script, tuple[SuiteRun, ...]]] = ()

    @property
    def gates(self) -> Gates:
        """What counts as the gate."""
        return Gates.of(self.taxonomy.workflows)

    @property
    def hosted(self) -> tuple[str, ...]:
        """Labels of GitHub's own runners, beside the standard ones."""
        return self.taxonomy.workflows.hosted

    def jobs(self) -> Iterator[tuple[Document, str, Node]]:
        """Every job of every workflow."""
        for document in self.documents.values():
            for name, node in document.jobs.items():
                yield document, name, node


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRule(RuleInfo):
    """A rule about workflows."""

    check: Callable[[Audit], Iterable[Finding]]


def key_span(parent: Node, key: str) -> Span:
    """Where a key of a mapping stands; where the mapping starts, if it lacks the key."""
    return at(*parent.keys.get(key, (parent.line, parent.column)))


def job_span(document: Document, job: str) -> Span:
    """Where the id of a job stands."""
    jobs = document.root.get("jobs")
    return key_span(jobs or document.root, job)
