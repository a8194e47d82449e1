"""RT107: no suite, two suites, or half of (stage, runner_config)."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import MarkerCall, TestFile
from runci.parse.registrations import pair_problem
from runci.rules.base import FileRule, Tree


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such call."""
    for call in tree.rejected(file):
        stars = any(argument.kind in ("*", "**") for argument in call.arguments)
        problem = None if stars else pair_problem(call)
        if problem is not None:
            message, remedy = _explain(call, problem, tree)
            yield Finding(file.path, call.span, "RT107", message, remedy, key=problem)


def _explain(call: MarkerCall, problem: str, tree: Tree) -> tuple[str, str]:
    pair = "Name the suite as stage=... and runner_config=..., or as suite=... alone."
    if problem == "neither":
        return f"{call.written}() names no suite", pair
    if problem == "both":
        return f"{call.written}() names suite as well as stage or runner_config", pair
    other = "stage" if problem == "runner_config" else "runner_config"
    given = call.argument(other)
    value = given.text if given is not None else ""
    message = f"{call.written}() has {other}={value} but no {problem}"
    choices = _choices(call, other, problem, given.value if given is not None else None, tree)
    hint = f" With this {other}: {', '.join(choices)}." if choices else ""
    return message, f"Add {problem}=...{hint}"


def _choices(call: MarkerCall, given: str, missing: str, value: object, tree: Tree) -> list[str]:
    """Values of the missing half that make a suite of this backend."""
    suites = (s for (owner, _), s in tree.taxonomy.suites.items() if owner is call.backend)
    found = (getattr(s, missing) for s in suites if s.stage and getattr(s, given) == value)
    return sorted({repr(half) for half in found})


RULE = FileRule(
    id="RT107",
    name="incomplete-suite",
    summary="Neither or both of suite and (stage, runner_config), or half of the pair.",
    reason="A registration without a whole suite belongs to no job, or to an ambiguous one.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu")',
    check=check,
)
