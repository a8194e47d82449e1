"""How a job can end, and which ends of the jobs before it let a job start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.audit.conditions import needs_read, references, shown
from runci.workflows.evaluate import can_be, evaluate
from runci.workflows.expressions import Call, Expression
from runci.workflows.values import EITHER, Contexts, OneOf, Unknown, Value, one, text_of

SUCCESS, FAILURE, CANCELLED, SKIPPED = "success", "failure", "cancelled", "skipped"
MAX_TRIES = 3_000  # assignments looked at for one job; beyond that it counts as able to start


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


@dataclass(frozen=True, slots=True)
class Before:
    """The jobs that a job waits for: those it `needs`, and all that those wait for, by id."""

    needs: Mapping[str, Outcomes]
    ancestors: Mapping[str, Outcomes]


Assignment = Mapping[str, Outcome]


def reaching(expression: Expression | None, before: Before, contexts: Contexts) -> list[str] | None:
    """The assignment, as texts, with which a condition holds; None where none does.

    Ends of needed jobs are tried one by one; everything else that is unknown counts as both.
    """
    if expression is None:
        return ["its `if:` is no expression that can be read"]
    read = needs_read(expression)
    order = [job for job in before.needs if read is None or job.lower() in read]
    search = _Search(expression, before, contexts, order)
    found = search.first({})
    return None if found is None else search.texts(found)


@dataclass
class _Search:
    expression: Expression
    before: Before
    contexts: Contexts
    order: list[str]
    tries: int = 0

    def first(self, assigned: Assignment) -> Assignment | None:
        """The first assignment that extends this one and lets the condition hold."""
        self.tries += 1
        if self.tries > MAX_TRIES:
            return assigned  # too many to know: report it
        if not can_be(True, self.expression, self.scope(assigned)):
            return None
        if len(assigned) == len(self.order):
            return assigned
        job = self.order[len(assigned)]
        for outcome in self.before.needs[job]:
            found = self.first({**assigned, job: outcome})
            if found is not None:
                return found
        return None

    def scope(self, assigned: Assignment) -> Contexts:
        """What the condition can read: the ends that are assigned, else all that are possible."""
        ends_of = {
            job: (assigned[job],) if job in assigned else outcomes
            for job, outcomes in {**self.before.ancestors, **self.before.needs}.items()
        }
        needs: dict[str, Value] = {
            job: one(tuple(o.context() for o in ends_of[job])) for job in self.before.needs
        }
        return {**self.contexts, "needs": needs, **status_functions(list(ends_of.values()))}

    def texts(self, assigned: Assignment) -> list[str]:
        """The assignment for a reader: what the condition reads, with its value."""
        scope = self.scope(assigned)
        found = [f"needs.{job}.result = '{end.result}'" for job, end in assigned.items()]
        for part in dict.fromkeys(references(self.expression)):
            values = evaluate(part, scope)
            if shown(part).endswith(".result") or any(isinstance(v, (dict, tuple)) for v in values):
                continue
            known = len(values) == 1 and not isinstance(values[0], Unknown)
            if (not known and isinstance(part, Call)) or shown(part) == "github.event_name":
                continue  # a status function that may go either way; the event is named anyway
            found.append(f"{shown(part)} = {_quoted(values[0]) if known else 'anything'}")
        return found


def _quoted(value: Value) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "null" if value is None else text_of(value)


def status_functions(ancestors: list[Outcomes]) -> dict[str, Value]:
    """`success()`, `failure()` and `cancelled()` over everything that a job waits for."""
    results = [{outcome.result for outcome in outcomes} for outcomes in ancestors]
    good = all(SUCCESS in found for found in results)
    bad = any(FAILURE in found for found in results)
    certain = any(found == {FAILURE} for found in results)
    return {
        # A run that was cancelled is no success, whatever its jobs gave.
        "success()": OneOf(EITHER) if good else False,
        "failure()": True if certain else OneOf(EITHER) if bad else False,
        "cancelled()": OneOf(EITHER),
    }
