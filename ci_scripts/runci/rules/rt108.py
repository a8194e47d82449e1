"""RT108: the same backend and suite twice in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.registration import Registration
from runci.rules.base import FileRule, Tree
from runci.source import Edit, Span, comments_in, split_lines


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each repetition."""
    for first, again in _repetitions(tree.of(file)):
        same = _equal(first, again)
        keep = "Remove one" if same else "Keep the one whose values are right"
        yield Finding(
            file.path,
            again.span,
            "RT108",
            f"{again.backend.value} suite {again.effective_suite} is registered twice "
            f"(first on line {first.span.line}): the file would run twice",
            f"{keep}: a file runs once in a suite.",
            key=again.effective_suite,
            fixable=same,
        )


def _repetitions(
    registrations: Sequence[Registration],
) -> Iterator[tuple[Registration, Registration]]:
    seen: dict[tuple[str, str], Registration] = {}
    for registration in registrations:
        key = (registration.backend.value, registration.effective_suite)
        if key in seen:
            yield seen[key], registration
        else:
            seen[key] = registration


def _equal(one: Registration, other: Registration) -> bool:
    return replace(one, span=other.span) == other


def fix(_file: TestFile, text: str, finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Delete the repetition but not its comments, with its line where nothing else is there."""
    lines = split_lines(text)
    span = finding.span
    before = lines[span.line - 1][: span.column - 1]
    after = lines[span.end_line - 1][span.end_column - 1 :]
    rest = after.lstrip(" \t;")  # the statement or comment that follows stays
    first, last = span.column, span.end_column + len(after) - len(rest)
    if not rest.strip():
        kept = before.rstrip(" \t;")
        if not kept:
            comments = "".join(f"{comment}\n" for comment in comments_in(text, span))
            return [Edit(Span(span.line, 1, span.end_line + 1, 1), comments)]
        first, last = len(kept) + 1, span.end_column + len(after.rstrip("\r\n"))
    return [Edit(Span(span.line, first, span.end_line, last), "")]


RULE = FileRule(
    id="RT108",
    name="duplicate-registration",
    summary="One file registers twice in the same suite of the same backend.",
    reason="The file runs twice in that suite, or in two shards at once.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")\n'
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")',
    fixable=True,
    check=check,
    fix=fix,
)
