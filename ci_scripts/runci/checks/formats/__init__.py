"""Reporters: findings in, text out.

Each reporter is a module with `render(findings, summary, context) -> str`. It is imported when it
is chosen, so that a run pays for one reporter only. The text ends with a newline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from runci.checks.reporters import REPORTERS
from runci.core.errors import RunciError
from runci.core.finding import Finding, Level, RuleInfo, Summary
from runci.text.wording import plural


@dataclass(frozen=True)
class ReportContext:
    """The surroundings of a report; reporters read nothing else.

    `read_lines` gives the source lines of a finding's path, or None where it cannot be read; the
    caller caches. `color` is decided by the caller, see `terminal.use_color`. `width` is the
    terminal's, in columns. `root` is the folder that the paths are relative to, as seen from the
    working folder ("." where they are the same) or absolute. `command` is what the user ran.
    `quiet` reports have findings and nothing else.
    """

    read_lines: Callable[[str], Sequence[str] | None]
    rules: Mapping[str, RuleInfo]
    color: bool = False
    width: int = 80
    root: str = "."
    command: str = "runci lint"
    quiet: bool = False

    @property
    def program(self) -> str:
        """The command without its subcommand: «runci lint» is run by «runci»."""
        return self.command.rpartition(" ")[0] or self.command


@dataclass(frozen=True, slots=True)
class Counts:
    """How many findings there are, notes apart; `files` have at least one of either."""

    errors: int
    notes: int
    fixable: int
    files: int


def count(findings: Sequence[Finding]) -> Counts:
    """Count the findings; only errors count as fixable, since only they fail the run."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    return Counts(
        errors=len(errors),
        notes=len(findings) - len(errors),
        fixable=sum(finding.fixable for finding in errors),
        files=len({finding.path for finding in findings}),
    )


def summary_line(findings: Sequence[Finding], summary: Summary) -> str:
    """Return one line: what was found, where, in how much, and in what time."""
    counts = count(findings)
    # A finding may stand in a file that is not one of those checked, such as suites.yml: the two
    # numbers of files are therefore told apart and never put as «2 of 1,547».
    found = _found(counts)
    checked = _checked(summary)
    if counts.files:
        line = f"{found} in {plural(counts.files, 'files')}; {checked}"
    elif summary.files:
        line = f"{found} in {checked}"
    else:
        line = f"nothing was checked: {checked}"
    return line + _set_aside(summary)


def closing(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> list[str]:
    """The last line of a report for people, where it has one."""
    return [] if context.quiet else [summary_line(findings, summary)]


def _found(counts: Counts) -> str:
    text = plural(counts.errors, "findings") if counts.errors else "no findings"
    if counts.fixable:
        text += f" ({counts.fixable:,} fixable with --fix)"
    if counts.notes:
        text += f" and {plural(counts.notes, 'notes')}"
    return text


def _checked(summary: Summary) -> str:
    parts = [plural(summary.files, summary.noun)]
    if summary.registrations is not None:
        parts.append(plural(summary.registrations, "registrations"))
    parts.append(f"{summary.seconds:.2f} s")
    return ", ".join(parts)


def _set_aside(summary: Summary) -> str:
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (summary.fixed, "fixed"),
            (summary.suppressed, "suppressed"),
            (summary.baselined, "in the baseline"),
        )
        if number
    ]
    return f" ({', '.join(parts)})" if parts else ""


def is_absolute(path: str) -> bool:
    """Say whether the path is absolute on any system: reports travel between them."""
    return path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path) is not None


def from_working_folder(root: str, path: str) -> str:
    """Join root and path with forward slashes; a root of «.» or nothing adds nothing."""
    base = root.replace("\\", "/").rstrip("/")
    while base.startswith("./"):
        base = base[2:].lstrip("/")
    return path if base in ("", ".") else f"{base}/{path}"


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
