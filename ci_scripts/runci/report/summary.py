"""The closing sentence that the reports for people share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runci.finding import Finding, Level, Summary


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


def plural(number: int, noun: str) -> str:
    """Return «1 file» or «1,547 files» for the noun «files»."""
    return f"{number:,} {noun.removesuffix('s') if number == 1 else noun}"


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
