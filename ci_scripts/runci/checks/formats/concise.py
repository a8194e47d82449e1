"""One line a finding, `path:line:column: RULE message`, which editors and terminals can open."""

from __future__ import annotations

from collections.abc import Sequence

from runci.checks.formats import ReportContext, summary_line
from runci.core.finding import Finding, Level, Summary
from runci.text.terminal import printable


def render(
    findings: Sequence[Finding],
    summary: Summary,
    context: ReportContext,  # noqa: ARG001 (all reporters are called alike)
) -> str:
    """Return the lines, and the summary as the last one."""
    lines = [finding_line(finding) for finding in findings]
    return "\n".join([*lines, summary_line(findings, summary)]) + "\n"


def finding_line(finding: Finding) -> str:
    """Return the one line of a finding, whatever its path and message contain."""
    note = "note: " if finding.level is Level.NOTE else ""
    text = f"{finding.path}:{finding.line}:{finding.column}: {finding.rule} {note}{finding.message}"
    return printable(text)
