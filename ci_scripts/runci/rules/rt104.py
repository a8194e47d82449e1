"""RT104: an argument that is not a constant."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the value of each such argument."""
    for call in tree.rejected(file):
        for argument in call.arguments:
            if argument.kind != "expression":
                continue
            name = argument.name or "an argument"
            yield Finding(
                file.path,
                argument.value_span,
                "RT104",
                f"{name}={argument.text} is not a constant",
                f"Write the value of {name} itself: the call is read without running the file.",
                key=f"{name}={argument.text}",
            )


RULE = FileRule(
    id="RT104",
    name="argument-not-constant",
    summary="An argument of a registration is computed.",
    reason="The call is read without running the file. A computed `disabled` or `nightly` would be "
    "ignored, a computed suite unknown.",
    bad="from runci import register_cpu_ci\n\n"
    "MINUTE = 60\n"
    'register_cpu_ci(est_time=2 * MINUTE, stage="base-a", runner_config="cpu")',
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=120, stage="base-a", runner_config="cpu")',
    check=check,
)
