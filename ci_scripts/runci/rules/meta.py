"""RT901 and RT902: faults of suppression comments themselves (found by `suppress.py`)."""

from __future__ import annotations

from runci.finding import RuleInfo

_HEAD = "from runci import register_cpu_ci\n\n"
_CALL = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu"'

UNJUSTIFIED = RuleInfo(
    id="RT901",
    name="suppression-without-reason",
    summary="A suppression comment names no rule, an unknown rule, or no reason.",
    reason="A suppression without a reason cannot be reviewed or ever removed. One that names no "
    "known rule suppresses nothing, or everything.",
    bad=f'{_HEAD}{_CALL}, disabled="flaky")  # runci: ignore[RT109]',
    good=f'{_HEAD}{_CALL}, disabled="flaky")  # runci: ignore[RT109] issue tracker is private',
)

UNUSED = RuleInfo(
    id="RT902",
    name="unused-suppression",
    summary="A suppression comment that suppresses nothing.",
    reason="The fault is gone; the comment would hide the next one.",
    bad=f"{_HEAD}{_CALL})  # runci: ignore[RT109] issue tracker is private",
    good=f"{_HEAD}{_CALL})",
)
