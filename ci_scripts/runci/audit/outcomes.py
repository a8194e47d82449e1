"""The ways in which a job can end."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from runci.workflows.values import OneOf, Unknown, Value, one, spread

MAX_VARIANTS = 8  # combinations of outputs that are looked at one by one
SUCCESS, FAILURE, CANCELLED, SKIPPED = "success", "failure", "cancelled", "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way in which a job can end. `outputs` is empty where the job did not run."""

    result: str
    outputs: Value = field(default_factory=dict)

    def context(self) -> dict[str, Value]:
        """What `needs.JOB` or `jobs.JOB` is."""
        return {"result": self.result, "outputs": self.outputs}


Outcomes = tuple[Outcome, ...]

# A job that does not start; a run that is cancelled ends waiting jobs, too.
IDLE: Outcomes = (Outcome(SKIPPED), Outcome(CANCELLED))
ANY_END: Outcomes = (
    *IDLE,
    *(Outcome(result, Unknown()) for result in (SUCCESS, FAILURE, CANCELLED)),
)


def ends(outputs: Value, tolerant: bool = False) -> Outcomes:
    """The ways in which a job that may start can end: of one that broke off, outputs may lack.

    `tolerant`: with `continue-on-error`, one that broke off counts as a success.
    """
    broken: Value = outputs
    if isinstance(outputs, dict):
        broken = {key: one(_or_empty(value)) for key, value in outputs.items()}
    whole = broken if tolerant else outputs
    return (Outcome(SUCCESS, whole), Outcome(FAILURE, broken), Outcome(CANCELLED, broken), *IDLE)


def _or_empty(value: Value) -> tuple[Value, ...]:
    values = value.values if isinstance(value, OneOf) else (value,)
    return values if "" in values else (*values, "")


def variants(end: Outcome) -> Outcomes:
    """The same end once for each value of its outputs, where those are few."""
    if not isinstance(end.outputs, dict):
        return (end,)
    choices = [spread(value) for value in end.outputs.values()]
    if math.prod(map(len, choices)) > MAX_VARIANTS:
        return (end,)
    return tuple(
        Outcome(end.result, dict(zip(end.outputs, values, strict=True)))
        for values in itertools.product(*choices)
    )
