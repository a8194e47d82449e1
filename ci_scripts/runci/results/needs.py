"""What the jobs before a final job came to: `toJSON(needs)` → whether each did its part. Pure.

A skipped job counts as a success for GitHub. Here it does only where it is said that it may skip,
as a gate that denied does only where it is said that it may fail; then `runci verify` tells whether
anything that should have run is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
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


def job_ends(
    text: str, may_skip: Iterable[str], may_fail: Iterable[str] = (), one_of: Iterable[str] = ()
) -> tuple[JobEnd, ...]:
    """Every job of `toJSON(needs)`. Raises RunciError for anything else, and for no job at all.

    Of the jobs `one_of` the others may be skipped where one succeeded.
    """
    try:
        results = {job: end["result"] for job, end in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunciError(f"NEEDS must be toJSON(needs), the jobs before: {error}") from error
    if not results:
        raise RunciError("NEEDS names no job: nothing was checked", Exit.NOTHING)
    excused = {"skipped": frozenset(may_skip), "failure": frozenset(may_fail)}
    group = frozenset(one_of)
    unknown = sorted(group.union(*excused.values()) - set(results))
    if unknown:
        raise RunciError(f"{unknown[0]}: this job does not wait for it")
    done = frozenset(job for job in group if results[job] == "success")
    ends = []
    for job, result in results.items():
        why = ""
        if job in group and result == "skipped" and done:
            why = f"{', '.join(sorted(done))} ran instead"
        elif job in excused.get(str(result), ()):
            why = "fine where none of its tests is planned"
        ends.append(_end(job, result, why))
    return tuple(ends)


def _end(job: str, result: object, excuse: str) -> JobEnd:
    said = _WORDS.get(str(result), f"ended as {result!r}")
    if excuse:
        return JobEnd(job, f"{said}: {excuse}", True)
    return JobEnd(job, said, result == "success")


def as_markdown(ends: Iterable[JobEnd]) -> str:
    """A table for the summary of the final job."""
    rows = [["✅" if end.good else "❌", escaped(end.job), escaped(end.said)] for end in ends]
    return render_markdown(["", "job", "how it ended"], rows, "<<<") + "\n"
