"""RT202: a legacy `suite=` where stage and runner_config are required."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.parse.registrations import registration as read
from runci.registration import Registration
from runci.rules.base import FileRule, Tree, arguments_span
from runci.source import Edit, comments_in
from runci.suites import Suite


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration."""
    for registration in tree.of(file):
        suite = _pair(registration, tree)
        if suite is not None:
            yield Finding(
                file.path,
                arguments_span(file, registration, "suite"),
                "RT202",
                f'suite="{suite.name}" must be written as stage and runner_config',
                f"Write {_written(suite)}.",
                key=suite.name,
                fixable=True,
            )


def _pair(registration: Registration, tree: Tree) -> Suite | None:
    if registration.suite is None:
        return None
    suite = tree.taxonomy.suite(registration.backend, registration.suite)
    return suite if suite is not None and suite.pair_required and suite.stage else None


def _written(suite: Suite) -> str:
    return f'stage="{suite.stage}", runner_config="{suite.runner_config}"'


def fix(file: TestFile, text: str, finding: Finding, tree: Tree) -> Sequence[Edit]:
    """Replace the suite by the pair; arguments that follow by position get their names."""
    call = next(c for c in file.calls if any(a.span == finding.span for a in c.arguments))
    registration = read(call)
    suite = _pair(registration, tree) if registration is not None else None
    if suite is None:
        return []
    edits: list[Edit] = []
    for argument in call.arguments:
        if argument.name == "suite":
            indent = " " * (argument.span.column - 1)
            above = "".join(f"{c}\n{indent}" for c in comments_in(text, argument.span))
            edits.append(Edit(argument.span, above + _written(suite)))
        elif argument.positional and argument.name in ("nightly", "disabled"):
            span = argument.span._replace(
                end_line=argument.span.line, end_column=argument.span.column
            )
            edits.append(Edit(span, f"{argument.name}="))
    return edits


RULE = FileRule(
    id="RT202",
    name="legacy-suite",
    summary="A suite that consists of a stage and a runner config is written as one string.",
    reason="Tools that select by stage or by runner (a rerun of one test, a plan for one machine) "
    "cannot see it.",
    bad="from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=20, "
    'suite="base-b-test-1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    fixable=True,
    check=check,
    fix=fix,
)
