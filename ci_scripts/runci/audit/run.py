"""Applies the audit's rules to a checkout: read → rules → suppressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runci.audit.ids import IDS
from runci.audit.model import Audit
from runci.audit.registry import RULES
from runci.errors import Exit, RunciError
from runci.finding import Finding, Level
from runci.lines import LineReader
from runci.rules import ALL
from runci.rules.meta import UNJUSTIFIED
from runci.suites import Taxonomy
from runci.suppress import in_workflows, suppress
from runci.workflows import Broken, read_workflows
from runci.workflows.find import read_document, suite_scripts
from runci.workflows.model import Document


@dataclass(frozen=True, slots=True)
class Result:
    """Findings to report, and the counts of the last line."""

    findings: tuple[Finding, ...]
    files: int
    suppressed: int = 0

    @property
    def failed(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.level is Level.ERROR for finding in self.findings)


def audit(root: Path, taxonomy: Taxonomy, active: frozenset[str]) -> Result:
    """Read the workflows of a checkout and check them. Raises RunciError where there are none."""
    files, broken = read_workflows(root, taxonomy.workflows)
    if not files and not broken:
        folders = ", ".join(taxonomy.workflows.paths)
        raise RunciError(f"no workflow in {folders} below {root}", Exit.NOTHING)
    seen = read_audit(files, taxonomy, broken)
    found = check(seen, active)
    comments = in_workflows(found, LineReader(root))
    remaining = suppress(found, comments, (*ALL, *IDS), active | {UNJUSTIFIED.id})
    return Result(remaining.findings, len(files) + len(broken), remaining.count)


def read_audit(
    files: Mapping[str, bytes], taxonomy: Taxonomy, broken: tuple[Broken, ...] = ()
) -> Audit:
    """What the rules see of these files; pure."""
    read = [read_document(data, path) for path, data in sorted(files.items())]
    documents = {item.path: item for item in read if isinstance(item, Document)}
    return Audit(
        documents,
        taxonomy,
        (*broken, *(item for item in read if isinstance(item, Broken))),
        tuple(suite_scripts(files, documents, taxonomy.workflows)),
    )


def check(seen: Audit, active: frozenset[str]) -> list[Finding]:
    """All findings of the active rules, sorted; pure."""
    return sorted(f for rule in RULES if rule.id in active for f in rule.check(seen))
