"""RT106: an argument that the marker does not take."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.parse.registrations import argument_problem
from runci.registration import PARAMETERS, POSITIONAL
from runci.rules.base import FileRule, Tree, nearest

_SIGNATURE = f"The marker takes {', '.join(PARAMETERS)}; the first {len(POSITIONAL)} by position."


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each unknown, repeated, starred or surplus argument."""
    for call in tree.rejected(file):
        for argument in call.arguments:
            problem = argument_problem(call, argument)
            if problem not in _MESSAGES:
                continue
            hint = nearest(argument.name or "", PARAMETERS) if problem == "unknown" else ""
            message = _MESSAGES[problem].format(name=argument.name, text=argument.text)
            key = f"{argument.name}:{argument.text}"
            yield Finding(file.path, argument.span, "RT106", message + hint, _SIGNATURE, key=key)


_MESSAGES = {
    "starred": "a starred argument ({text}) cannot be read",
    "surplus": "a surplus argument ({text})",
    "unknown": "unknown argument {name!r}",
    "repeated": "{name} is given twice",
}

RULE = FileRule(
    id="RT106",
    name="unknown-argument",
    summary="An unknown, repeated, starred or surplus argument.",
    reason="A misspelled parameter loses its meaning (a `disable=` that disables nothing) or stops "
    "the file with a TypeError when it runs.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner="cpu")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")',
    check=check,
)
