"""What got worse together: on one machine, between the same two commits; pure."""

from __future__ import annotations

from collections.abc import Sequence

from runci.nightly.verdict import Status, Verdict


def cause(verdict: Verdict) -> tuple[str, str, str] | None:
    """The machine and the commits between which it got worse; equal for what has one cause.

    None where the commits are not known, or are the same one.
    """
    bad, good = verdict.since_commit, verdict.last_good
    return (verdict.id.machine_key, bad, good) if bad and good and bad != good else None


def grouped(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Regressions of one cause together, where the first of them stands; all others alone."""
    groups: dict[object, list[Verdict]] = {}
    for i, verdict in enumerate(verdicts):
        shared = cause(verdict) if verdict.status is Status.REGRESSION else None
        groups.setdefault(shared or i, []).append(verdict)
    return list(groups.values())
