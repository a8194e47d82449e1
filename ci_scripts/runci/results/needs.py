"""What the jobs before a final job came to: `toJSON(needs)` → whether each did its part. Pure.

A skipped job counts as a success for GitHub. Here it does only where it is said that it may skip
and none of its suites is planned, or another job ran them; as a gate that denied does only where it
is said that it may fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runci.core.errors import Exit, RunciError
from runci.plan.show import escaped
from runci.text.tables import render_markdown

_WORDS = {
    "success": "succeeded",
    "failure": "failed",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
}


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How one job ended, and whether that is fine."""

    job: str
    said: str
    good: bool


def read_needs(text: str) -> dict[str, str]:
    """How each job of `toJSON(needs)` ended. Raises RunciError for anything else, and for none."""
    try:
        results = {job: str(end["result"]) for job, end in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RunciError(f"NEEDS must be toJSON(needs), the jobs before: {error}") from error
    if not results:
        raise RunciError("NEEDS names no job: nothing was checked", Exit.NOTHING)
    return results


def job_ends(
    results: Mapping[str, str],
    may_skip: Iterable[str],
    may_fail: Iterable[str] = (),
    one_of: Iterable[str] = (),
    planned: Mapping[str, frozenset[str] | None] | None = None,
) -> tuple[JobEnd, ...]:
    """Whether each job did its part. Raises RunciError where one that is excused is not there.

    Of the jobs `one_of` the others may be skipped where one succeeded. `planned` are the planned
    suites that each job runs; None, and no entry, where nothing is known of it.
    """
    excused = {"skipped": frozenset(may_skip), "failure": frozenset(may_fail)}
    group = frozenset(one_of)
    unknown = sorted(group.union(*excused.values()) - set(results))
    if unknown:
        raise RunciError(f"{unknown[0]}: this job does not wait for it")
    done = frozenset(job for job, result in results.items() if result == "success")
    ends = []
    for job, result in results.items():
        said, good = _WORDS.get(result, f"ended as {result!r}"), result == "success"
        if result == "skipped" and job in group and group & done:
            said, good = f"{said}: {', '.join(sorted(group & done))} ran instead", True
        elif result == "skipped" and job in excused[result]:
            why, good = _why_skipped(job, done, planned or {})
            said = f"{said}: {why}"
        elif result == "failure" and job in excused[result]:
            said, good = f"{said}: fine where none of its tests is planned", True
        ends.append(JobEnd(job, said, good))
    return tuple(ends)


def _why_skipped(
    job: str, done: frozenset[str], planned: Mapping[str, frozenset[str] | None]
) -> tuple[str, bool]:
    """What its being skipped means, and whether that is fine."""
    suites = planned.get(job)
    if suites is None:
        return "workflows.jobs in suites.yml does not say which suites it runs", False
    others = {other: (planned.get(other) or frozenset()) & suites for other in done}
    missing = suites.difference(*others.values())
    if missing:
        return f"{', '.join(sorted(missing))} is planned", False
    if suites:
        return f"{', '.join(sorted(o for o, runs in others.items() if runs))} ran instead", True
    return "none of its suites is planned", True


def as_markdown(ends: Iterable[JobEnd]) -> str:
    """A table for the summary of the final job."""
    rows = [["✅" if end.good else "❌", escaped(end.job), escaped(end.said)] for end in ends]
    return render_markdown(["", "job", "how it ended"], rows, "<<<") + "\n"
