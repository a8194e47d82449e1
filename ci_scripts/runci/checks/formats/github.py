"""GitHub workflow commands: annotations on the lines of a pull request.

Each finding gives a line for whoever reads the log, and one `::error` or `::notice` command, which
the runner takes out of the log. Written against the runner's own parser, `ActionCommand.cs` and
`ActionCommandManager.cs` of actions/runner: a line is a command when it begins with `::` after
white space, or has `##[` anywhere; columns are dropped when a span has several lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from runci.checks.formats import Counts, ReportContext, closing, count, from_working_folder
from runci.checks.formats.concise import finding_line
from runci.core.finding import Finding, Level, Summary
from runci.text.github import annotation

# What GitHub shows of one step, for errors and notices each.
SHOWN_PER_STEP = 10
SHOWN_PER_RUN = 50


def render(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> str:
    """Return the log lines and commands in the order of the files, then the summary."""
    lines: list[str] = []
    for finding in findings:
        lines += [log_line(finding), command(finding, context)]
    lines += [line + _hidden(count(findings)) for line in closing(findings, summary, context)]
    return "".join(f"{line}\n" for line in lines)


def log_line(finding: Finding) -> str:
    """Return the finding as one line that the runner does not take for a command."""
    line = finding_line(finding).replace("##[", "##\\[")
    # The runner may see past marks that it ignores, so what is not plainly a name is led by «./».
    plain = line[0].isascii() and (line[0].isalnum() or line[0] in "._/")
    return line if plain else f"./{line}"


def command(finding: Finding, context: ReportContext) -> str:
    """Return the workflow command that annotates the finding's lines."""
    span = finding.span
    rule = context.rules.get(finding.rule)
    properties = {
        "file": from_working_folder(context.root, finding.path),
        "line": str(span.line),
        "col": str(span.column),
        "endLine": str(span.end_line),
        "endColumn": str(span.end_column),
        "title": f"{finding.rule} {rule.name}" if rule else finding.rule,
    }
    if span.line != span.end_line:
        del properties["col"], properties["endColumn"]
    kind = "error" if finding.level is Level.ERROR else "notice"
    data = f"{finding.message}\n{finding.remedy}" if finding.remedy else finding.message
    return annotation(kind, data, properties)


def _hidden(counts: Counts) -> str:
    if max(counts.errors, counts.notes) <= SHOWN_PER_STEP:
        return ""
    return (
        f"; GitHub shows the first {SHOWN_PER_STEP} annotations of a kind in a step and"
        f" {SHOWN_PER_RUN} in a run, this log has all {counts.errors + counts.notes:,}"
    )
