"""One line a finding, `path:line:column: RULE message`, which editors and terminals can open."""

from __future__ import annotations

from collections.abc import Sequence

from runci.checks.formats import ReportContext, closing
from runci.core.finding import Finding, Level, Summary
from runci.text.terminal import printable


def render(
    findings: Sequence[Finding],
    summary: Summary,
    context: ReportContext,
) -> str:
    """Return the lines, and the summary as the last one."""
    lines = [*map(finding_line, findings), *closing(findings, summary, context)]
    return "".join(f"{line}\n" for line in lines)


def finding_line(finding: Finding) -> str:
    """Return the one line of a finding, whatever its path and message contain."""
    note = "note: " if finding.level is Level.NOTE else ""
    text = f"{finding.path}:{finding.line}:{finding.column}: {finding.rule} {note}{finding.message}"
    return printable(text)
