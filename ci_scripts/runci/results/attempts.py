"""Results of a plan by file and attempt, and those that are not of it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from runci.plan.model import Plan
from runci.results import FileResult

Key = tuple[str, str, str]  # backend, suite, path
Planned = tuple[str, tuple[str, ...]]  # the shard, and the tests of the file; none: all of them
# By file, then by attempt: the results and where each was read.
Attempts = dict[Key, dict[int, list[tuple[str, FileResult]]]]


def by_attempt(results: Iterable[tuple[str, FileResult]], plan: Plan) -> tuple[Attempts, list[str]]:
    """The results of this plan by file and attempt; of the others, what is wrong."""
    planned = {
        (suite.backend, suite.name, file.path): (shard.id, file.only)
        for suite in plan.suites
        for shard in suite.shards
        for file in shard.files
    }
    attempts: Attempts = {}
    foreign: list[str] = []
    for path, result in results:
        fault = _foreign(result, plan, planned)
        if fault is not None:
            foreign.append(f"{path}: {fault}")
        else:
            of_file = attempts.setdefault(key_of(result), {})
            of_file.setdefault(result.attempt, []).append((path, result))
    return attempts, foreign


def without_copies(
    results: Sequence[tuple[str, FileResult]],
) -> tuple[list[tuple[str, FileResult]], int]:
    """Each record once: the same run downloaded twice did not run twice."""
    seen: set[str] = set()
    kept = []
    for path, result in results:
        record = result.to_json()
        if record not in seen:
            kept.append((path, result))
        seen.add(record)
    return kept, len(results) - len(kept)


def _foreign(result: FileResult, plan: Plan, planned: Mapping[Key, Planned]) -> str | None:
    if result.plan is None:
        return f"{result.path} was run without a plan"
    if result.plan != plan.digest:
        return f"{result.path} was run for the plan {result.plan[:12]}, not {plan.digest[:12]}"
    if result.commit != plan.commit:
        commit = result.commit[:12] or "an unknown commit"
        return f"{result.path} was run at {commit}, but the plan is of {plan.commit[:12]}"
    found = planned.get(key_of(result))
    if found is None:
        return f"{result.path} is not planned in {result.backend} {result.suite}"
    shard, only = found
    if shard != result.shard:
        return f"{result.path} was run in shard {result.shard}, but is planned in {shard}"
    if only != result.only:
        parts = [" ".join(part) or "the whole file" for part in (result.only, only)]
        return f"{result.path} was run for {parts[0]}, but what is planned is {parts[1]}"
    return None


def key_of(result: FileResult) -> Key:
    """What a plan knows a result by."""
    return result.backend, result.suite, result.path
