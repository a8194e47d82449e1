"""What rules about workflows see, and what such a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runci.config.taxonomy import Taxonomy
from runci.core.finding import Finding, RuleInfo
from runci.core.source import Span, at
from runci.read.yamlpos import Node
from runci.workflows.find import read_document, suite_scripts
from runci.workflows.gates import Gates
from runci.workflows.model import Document
from runci.workflows.runs import Broken, SuiteRun
from runci.workflows.walk import Script


@dataclass(frozen=True, slots=True)
class Audit:
    """Every workflow and local action, by path.

    `broken` are the files that cannot be read: nothing can be proven of them. `suite_scripts` are
    the scripts that start suites, with those suites. `ruleset` is an export of the default
    branch's rules, with its path.
    """

    documents: Mapping[str, Document]
    taxonomy: Taxonomy
    broken: tuple[Broken, ...] = ()
    suite_scripts: Sequence[tuple[Script, tuple[SuiteRun, ...]]] = ()
    ruleset: tuple[str, Node] | None = None

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


def read_audit(
    files: Mapping[str, bytes],
    taxonomy: Taxonomy,
    broken: tuple[Broken, ...] = (),
    ruleset: tuple[str, Node] | None = None,
) -> Audit:
    """What the rules see of these files; pure."""
    action = taxonomy.workflows.action
    read = [read_document(data, path, action) for path, data in sorted(files.items())]
    documents = {item.path: item for item in read if isinstance(item, Document)}
    return Audit(
        documents,
        taxonomy,
        (*broken, *(item for item in read if isinstance(item, Broken))),
        tuple(suite_scripts(files, documents, taxonomy.workflows)),
        ruleset,
    )


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
