"""RT102: a registration that is not a plain statement at top level."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each marker call in any other place."""
    for call in file.calls:
        if call.within is None:
            continue
        place = "in an expression" if call.within == "expression" else f"inside `{call.within}`"
        yield Finding(
            file.path,
            call.span,
            "RT102",
            f"{call.written}() stands {place}: it is not read as a registration",
            "Move the call to the top level of the file, as a statement of its own. "
            "Registrations are read without running the file, so no condition can hold for them.",
            key=call.written,
        )


RULE = FileRule(
    id="RT102",
    name="registration-not-at-top-level",
    summary="A registration stands inside if, try, with, a function, a class or an expression.",
    reason="Registrations are read from the syntax tree, without running the file: one inside a "
    "block is dropped in silence, or would mean something that no reader of the tree can decide.",
    bad="from runci import register_cuda_ci\n\n"
    "if True:\n"
    '    register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    check=check,
)
