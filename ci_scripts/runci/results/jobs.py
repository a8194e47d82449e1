"""What GitHub says of a run's jobs → whether each planned shard had one that succeeded; pure.

Results are files, and a test of any job can write a file; how a job ended is GitHub's own word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runci.core.errors import RunciError
from runci.core.globs import matches
from runci.plan.model import Plan
from runci.results.verify import Kind, Problem

Table = Mapping[str, tuple[str, ...]]  # a job's name: globs of the suites that it runs
LONGEST = 100  # of a job's name, its matrix with it: GitHub's runner cuts off what is more


@dataclass(frozen=True, slots=True)
class Job:
    """One execution of a job. `conclusion` is None until `status` is `completed`."""

    name: str
    attempt: int
    id: int
    status: str
    conclusion: str | None


def read_jobs(answer: object, place: str) -> tuple[Job, ...]:
    """GitHub's list of a run's jobs over all attempts, alone or in the answer that holds it.

    Raises RunciError for anything else; `place` is for messages.
    """
    listed = answer.get("jobs") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        raise RunciError(f"{place}: must be the jobs of a run, as GitHub lists them (filter=all)")
    if isinstance(answer, dict) and answer.get("total_count") != len(listed):
        total = answer.get("total_count")
        raise RunciError(f"{place}: {len(listed)} of {total} jobs: pass all pages as one list")
    return tuple(_job(entry, place, number) for number, entry in enumerate(listed))


def _job(entry: object, place: str, index: int) -> Job:
    found: Any = entry if isinstance(entry, dict) else {}
    wanted = {"name": str, "run_attempt": int, "id": int, "status": str}
    for key, kind in wanted.items():
        if type(found.get(key)) is not kind:
            value = found.get(key)
            raise RunciError(f"{place}: jobs[{index}].{key}: {value!r} is no {kind.__name__}")
    conclusion = found.get("conclusion")
    if conclusion is not None and not isinstance(conclusion, str):
        raise RunciError(f"{place}: jobs[{index}].conclusion: {conclusion!r} is no str")
    name, attempt, ident, status = (found[key] for key in wanted)
    return Job(name, attempt, ident, status, conclusion)


def suites_of(job: str, table: Table, suites: Iterable[str]) -> frozenset[str] | None:
    """Those of the suites that a job runs, with all that it calls; None where nothing is known."""
    globs = [g for name, g in table.items() if name == job or name.startswith(f"{job} / ")]
    if globs:
        return frozenset(suite for suite in suites if any(matches(suite, g) for g in globs))
    return frozenset([job]) if job in set(suites) else None


def jobs_of(suite: str, table: Table) -> tuple[str, ...]:
    """The names of the jobs that run a suite; its own where the table has none."""
    return tuple(name for name, globs in table.items() if matches(suite, globs)) or (suite,)


def are_over(plan: Plan, table: Table, jobs: Sequence[Job]) -> bool:
    """Whether each planned shard's job that is listed has ended: one that is not was skipped."""
    newest = [_newest(jobs, names, shard) for names, shard in _wanted(plan, table)]
    return all(job is None or job.status == "completed" for job in newest)


def job_problems(plan: Plan, table: Table, jobs: Sequence[Job]) -> Iterator[Problem]:
    """Each planned shard whose newest job, over all attempts, is missing or did not succeed."""
    for names, shard in _wanted(plan, table):
        found = _newest(jobs, names, shard)
        if found is None:
            yield Problem(Kind.JOB, f"shard {shard}: {_unlisted(names, shard)}")
        elif found.status != "completed":
            said = f"shard {shard}: its job «{found.name}» is not over: {found.status}"
            yield Problem(Kind.JOB, said)
        elif found.conclusion != "success":
            end = f"ended as {found.conclusion} in attempt {found.attempt}"
            yield Problem(Kind.JOB, f"shard {shard}: its job «{found.name}» {end}")


def _unlisted(names: Sequence[str], shard: str) -> str:
    shown = [f"{name} ({shard})" for name in names]
    cut = any(len(name.rpartition(" / ")[2]) > LONGEST for name in shown)
    remedy = (
        f"GitHub cuts names off after {LONGEST} characters: shorten it"
        if cut
        else "suites.yml says which jobs run a suite, under workflows.jobs"
    )
    return f"GitHub lists no job {' or '.join(f'«{name}»' for name in shown)} ({remedy})"


def _wanted(plan: Plan, table: Table) -> Iterator[tuple[tuple[str, ...], str]]:
    for suite in plan.suites:
        for shard in suite.shards:
            yield jobs_of(suite.name, table), shard.id


def _newest(jobs: Sequence[Job], names: Sequence[str], shard: str) -> Job | None:
    found = [job for job in jobs if any(_runs(job.name, name, shard) for name in names)]
    return max(found, key=lambda job: (job.attempt, job.id), default=None)


def _runs(shown: str, name: str, shard: str) -> bool:
    """Whether this is the job of that name for the shard: GitHub adds the values of its matrix."""
    start = f"{name} ("
    return (
        shown.startswith(start)
        and shown.endswith(")")
        and shard in shown[len(start) : -1].split(", ")
    )
