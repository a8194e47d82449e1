"""RT105: a constant that the parameter cannot mean."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import Argument, MarkerCall, TestFile
from runci.parse.registrations import seconds, type_problem
from runci.registration import PARAMETERS
from runci.rules.base import FileRule, Tree


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at the value of each such argument, and at a call without an estimate."""
    for call in file.calls:
        for argument in call.arguments:
            problem = _problem(argument)
            if problem is not None:
                message, remedy = problem
                key = f"{argument.name}={argument.text}"
                yield Finding(file.path, argument.value_span, "RT105", message, remedy, key=key)
        if call.argument("est_time") is None and call.via != "value" and not _starred(call):
            yield Finding(
                file.path,
                call.span,
                "RT105",
                f"{call.written}() has no est_time",
                "State the measured seconds that the file takes, such as est_time=30.",
                key="est_time",
            )


def _starred(call: MarkerCall) -> bool:
    return any(argument.kind in ("*", "**") for argument in call.arguments)


def _problem(argument: Argument) -> tuple[str, str] | None:
    if argument.kind != "constant" or argument.name not in PARAMETERS:
        return None
    name, text = argument.name, argument.text
    if name == "est_time":
        if seconds(argument) is None:
            wrong = f"est_time={text} is not a positive, finite number of seconds"
            return wrong, "State the measured seconds that the file takes, such as est_time=30."
        return None
    if type_problem(argument):
        wanted = "True or False" if name == "nightly" else "a string"
        return f"{name}={text} must be {wanted}", f"Write {name} as {wanted}, or leave it out."
    if isinstance(argument.value, str) and not argument.value.strip():
        return f"{name}={text} is empty", _EMPTY.get(name, f"Name the {name}, or leave it out.")
    return None


_EMPTY = {
    "disabled": "Give the reason and an issue, or leave `disabled` out: an empty one disables the "
    "test in silence.",
}

RULE = FileRule(
    id="RT105",
    name="impossible-value",
    summary="A value that its parameter cannot have: no positive finite est_time, an empty name.",
    reason="An estimate of 0, inf or True breaks the partition for everybody; `disabled=''` "
    "disables a test in silence.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=0, stage="base-a", '
    'runner_config="cpu")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")',
    check=check,
)
