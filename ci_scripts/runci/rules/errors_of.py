"""Parse errors as findings: shared by the file rules."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile


def parse_findings(
    file: TestFile, rule: str, kinds: tuple[str, ...], remedy: str
) -> Iterator[Finding]:
    """One finding a parse error of these kinds."""
    decoded = all(error.kind != "encoding" for error in file.errors)
    for error in file.errors:
        if error.kind in kinds:
            fixable = error.kind == "bom" and decoded
            yield Finding(
                file.path, error.span, rule, error.message, remedy, error.kind, fixable=fixable
            )
