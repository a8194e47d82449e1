"""A report for programs, as one JSON object.

Keys are sorted and findings are in the order of path, place and rule. Fields are only added while
`version` stays the same.

| field | type | what it is |
|---|---|---|
| `version` | 1 | version of this shape |
| `tool.name`, `tool.version` | text | `runci` and its version |
| `tool.command` | text | what was run, such as `runci lint` |
| `summary.files` | number | files that were checked |
| `summary.noun` | text | what was checked, such as `test files` |
| `summary.registrations` | number or null | registrations in them, where they were read |
| `summary.seconds` | number | wall time |
| `summary.findings` | number | findings of level `error`, which fail the run |
| `summary.notes` | number | findings of level `note`, which do not |
| `summary.fixable` | number | errors that `--fix` mends |
| `summary.fixed` | number | findings that this run mended |
| `summary.suppressed` | number | findings silenced by a comment |
| `summary.baselined` | number | findings known to the baseline |
| `findings[].path` | text | relative to the root, with forward slashes |
| `findings[].line`, `.column` | number | first place, from 1, columns in characters |
| `findings[].end_line`, `.end_column` | number | where it ends, the column exclusive |
| `findings[].rule`, `.name` | text | id and name of the rule; the name may be empty |
| `findings[].address` | text | of the rule's page; may be empty |
| `findings[].level` | text | `error` or `note` |
| `findings[].message` | text | what is wrong |
| `findings[].remedy` | text | how to mend it; may be empty |
| `findings[].fixable` | true or false | whether `--fix` mends it |

Bytes of a path that are not UTF-8 are lone surrogates, as Python's `os.fsdecode` gives them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from runci import __version__
from runci.checks.formats import ReportContext, count
from runci.core.finding import Finding, Summary
from runci.core.site import rule_page

VERSION = 1


def render(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> str:
    """Return the object, indented, in ASCII so that any output encoding carries it."""
    document = {
        "version": VERSION,
        "tool": {"name": "runci", "version": __version__, "command": context.command},
        "summary": _summary(findings, summary),
        "findings": [_finding(finding, context) for finding in findings],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _summary(findings: Sequence[Finding], summary: Summary) -> dict[str, object]:
    counts = count(findings)
    return {
        "files": summary.files,
        "noun": summary.noun,
        "registrations": summary.registrations,
        "seconds": round(summary.seconds, 3),
        "findings": counts.errors,
        "notes": counts.notes,
        "fixable": counts.fixable,
        "fixed": summary.fixed,
        "suppressed": summary.suppressed,
        "baselined": summary.baselined,
    }


def _finding(finding: Finding, context: ReportContext) -> dict[str, object]:
    rule = context.rules.get(finding.rule)
    return {
        "path": finding.path,
        "line": finding.span.line,
        "column": finding.span.column,
        "end_line": finding.span.end_line,
        "end_column": finding.span.end_column,
        "rule": finding.rule,
        "name": rule.name if rule else "",
        "address": rule_page(rule.id) if rule else "",
        "level": finding.level.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "fixable": finding.fixable,
    }
