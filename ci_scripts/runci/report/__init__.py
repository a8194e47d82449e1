"""Reporters: findings in, text out.

Each reporter is a module with `render(findings, summary, context) -> str`. It is imported when it
is chosen, so that a run pays for one reporter only. The text ends with a newline.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from runci.errors import RunciError
from runci.finding import Finding, Summary
from runci.report.context import ReportContext

__all__ = ["REPORTERS", "ReportContext", "render"]

REPORTERS: dict[str, str] = {
    "text": "runci.report.text",
    "concise": "runci.report.concise",
    "github": "runci.report.github",
    "json": "runci.report.json_",
    "sarif": "runci.report.sarif",
    "junit": "runci.report.junit",
}


class _Reporter(Protocol):
    def render(
        self, findings: Sequence[Finding], summary: Summary, context: ReportContext
    ) -> str: ...


def render(
    format: str,  # noqa: A002 (the name of the option)
    findings: Sequence[Finding],
    summary: Summary,
    context: ReportContext,
) -> str:
    """Return the report in one of the formats of `REPORTERS`, its findings sorted by place."""
    if format not in REPORTERS:
        raise RunciError(f"unknown format {format!r}: choose one of {', '.join(REPORTERS)}")
    reporter = cast(_Reporter, import_module(REPORTERS[format]))
    return reporter.render(sorted(findings), summary, context)
