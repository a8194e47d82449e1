"""Which ends of the jobs before it let a job start.

The ends of the needed jobs are tried one by one, as far as they agree: a job was skipped only
where its own condition can fail, and ran only where it can hold. A run may be cancelled at any
time, and a job may have ended in an earlier attempt, which was. Whatever else is unknown counts as
both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runci.workflows.conditions import (
    CANCELLED,
    FAILURE,
    SKIPPED,
    SUCCESS,
    Outcome,
    Outcomes,
    asks_status,
    needs_read,
    one_of,
    references,
    shown,
    variants,
)
from runci.workflows.evaluate import can_be, evaluate
from runci.workflows.expressions import Call, Expression
from runci.workflows.values import EITHER, Contexts, OneOf, Unknown, Value, text_of

CANCELLED_RUN = "the run is cancelled"
EARLIER_ATTEMPT = "an earlier attempt was cancelled"
MAX_TRIES = 1_500  # assignments looked at for one job; beyond that it counts as able to start
Assignment = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Job:
    """A job that another waits for.

    `condition` is None where it cannot be read. `loose`: it can be skipped whatever its condition
    says, as a matrix without entries is.
    """

    ends: Outcomes
    condition: Expression | None = None
    needs: tuple[str, ...] = ()
    loose: bool = True


@dataclass(frozen=True, slots=True)
class Before:
    """What a job waits for: the ids that it `needs`, and everything that those wait for."""

    needs: tuple[str, ...]
    jobs: Mapping[str, Job]

    def ancestors(self, needs: tuple[str, ...]) -> tuple[str, ...]:
        """The ids that `needs` means, with everything that those wait for; the first first."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in found:
                return
            for before in self.jobs[name].needs:
                visit(before)
            found[name] = None

        for name in needs:
            visit(name)
        return tuple(found)


def reaching(expression: Expression | None, before: Before, contexts: Contexts) -> list[str] | None:
    """The assignment, as texts, with which a condition holds; None where none does."""
    if expression is None:
        return ["its `if:` is no expression that can be read"]
    wanted = {job for job in before.needs if _reads(expression, job)}
    if asks_status(expression):
        wanted = set(before.needs)
    order = [job for job in before.ancestors(before.needs) if job in wanted]
    for cancelled, earlier in ((False, False), (True, False), (False, True)):
        search = _Search(expression, before, contexts, order, cancelled, earlier)
        found = search.first({})
        if found is not None:
            return search.texts(found)
    return None


def can_be_skipped(expression: Expression | None, before: Before, contexts: Contexts) -> bool:
    """Whether a condition can fail in a run that nobody cancels, after ends that are given."""
    if expression is None:
        return False  # a text, which is always true
    search = _Search(expression, before, contexts, [], cancelled=False)
    return can_be(False, expression, search.scope(before.needs, {}, cancelled=False))


def _reads(expression: Expression, job: str) -> bool:
    read = needs_read(expression)
    return read is None or job.lower() in read


@dataclass
class _Search:
    expression: Expression
    before: Before
    contexts: Contexts
    order: list[str]
    cancelled: bool  # whether the run is being cancelled
    earlier: bool = False  # whether an earlier attempt, whose ends are kept, was
    tries: int = 0

    def first(self, assigned: Assignment) -> Assignment | None:
        """The first assignment that extends this one and lets the condition hold."""
        self.tries += 1
        if self.tries > MAX_TRIES:
            return assigned  # too many to know: report it
        scope = self.scope(self.before.needs, assigned, self.cancelled)
        if not can_be(True, self.expression, scope):
            return None
        if len(assigned) == len(self.order):
            return assigned
        job = self.order[len(assigned)]
        for end in itertools.chain.from_iterable(map(variants, self.before.jobs[job].ends)):
            extended = {**assigned, job: end}
            found = self.first(extended) if self.agrees(job, end, assigned) else None
            if found is not None:
                return found
        return None

    def agrees(self, job: str, end: Outcome, assigned: Assignment) -> bool:
        """Whether a job can end so, where those before it ended as assigned."""
        known = self.before.jobs[job]
        if known.condition is None or end.result == CANCELLED:
            return True
        if end.result == SKIPPED and known.loose:
            return True
        # Of a run that is being cancelled, a job before may have ended while it was not yet.
        may_be = None if self.cancelled or self.earlier else False
        scope = self.scope(known.needs, assigned, may_be)
        return can_be(end.result != SKIPPED, known.condition, scope)

    def scope(
        self, needs: tuple[str, ...], assigned: Assignment, cancelled: bool | None
    ) -> Contexts:
        """What a condition can read: the ends that are assigned, else all that are possible."""
        ends = {
            job: (assigned[job],) if job in assigned else self.before.jobs[job].ends
            for job in self.before.ancestors(needs)
        }
        known: dict[str, Value] = {job: one_of(ends[job]) for job in needs}
        return {**self.contexts, "needs": known, **_status(ends.values(), cancelled)}

    def texts(self, assigned: Assignment) -> list[str]:
        """The assignment for a reader: what the condition reads, with its value."""
        scope = self.scope(self.before.needs, assigned, self.cancelled)
        found = [
            f"needs.{job}.result = '{end.result}'"
            for job, end in assigned.items()
            if end.result != SUCCESS or _reads(self.expression, job)
        ]
        for part in dict.fromkeys(references(self.expression)):
            values = evaluate(part, scope)
            if shown(part).endswith(".result") or any(isinstance(v, (dict, tuple)) for v in values):
                continue
            known = len(values) == 1 and not isinstance(values[0], Unknown)
            if isinstance(part, Call) or shown(part) == "github.event_name":
                continue  # said by the results; named as the event
            found.append(f"{shown(part)} = {_quoted(values[0]) if known else 'anything'}")
        return [*found, *self._circumstances()]

    def _circumstances(self) -> Iterator[str]:
        if self.cancelled:
            yield CANCELLED_RUN
        if self.earlier:
            yield EARLIER_ATTEMPT
        if self.tries > MAX_TRIES:
            yield "too many ways to try them all"


def _quoted(value: Value) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "null" if value is None else text_of(value)


def _status(ancestors: Iterable[Outcomes], cancelled: bool | None) -> dict[str, Value]:
    """`success()`, `failure()` and `cancelled()` over everything that a job waits for.

    `cancelled` is None where the run may have been cancelled.
    """
    results = [{end.result for end in ends} for ends in ancestors]
    good = all(SUCCESS in found for found in results)
    sure = all(found == {SUCCESS} for found in results) and cancelled is False
    bad = any(FAILURE in found for found in results)
    certain = any(found == {FAILURE} for found in results) and cancelled is False
    return {
        "success()": sure or (OneOf(EITHER) if good else False),
        "failure()": certain or (OneOf(EITHER) if bad else False),
        "cancelled()": OneOf(EITHER) if cancelled is None else cancelled,
    }
