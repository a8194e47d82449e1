"""Which files a run takes from a plan; pure but for the plan's bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runci.errors import RunciError
from runci.globs import matches
from runci.plan.model import Plan, PlannedSuite, Shard, faults
from runci.registration import Backend
from runci.rules.base import nearest
from runci.run.files import Wanted
from runci.run.model import RunFile, Selection
from runci.suites import Execution, Taxonomy
from runci.targets import Wanted as Targets
from runci.targets import is_below


def from_plan(
    plan: Plan,
    path: str,
    shard: str | None,
    taxonomy: Taxonomy,
    head: str | None,
    exists: Callable[[str], bool],
    wanted: Wanted | None = None,
) -> Selection:
    """The files of a shard. Raises RunciError for a plan that is not of this tree.

    `head` is the commit that is checked out, None where that cannot be known. The shard must be of
    the suite and backend that are `wanted`: a workflow names them, so that its lint can read it.
    """
    if plan.commit and head is not None and plan.commit != head:
        raise RunciError(
            f"{path}: a plan of commit {plan.commit[:12]}, but {head[:12]} is checked out: check "
            "that commit out, or plan again with `runci plan`"
        )
    suite, part = _find(plan, path, shard, wanted or Wanted())
    missing = [file.path for file in part.files if not exists(file.path)]
    if missing:
        raise RunciError(f"{path}: {missing[0]} is planned and does not exist: plan again")
    files = tuple(
        RunFile(f.path, f.seconds, f.group, matches(f.path, taxonomy.benchmarks), f.only)
        for f in part.files
    )
    return Selection(
        Backend(suite.backend),
        suite.name,
        part.id,
        files,
        taxonomy.runners.get(suite.runner) if suite.runner else None,
        Execution(suite.execution),
        suite.timeout_minutes,
        given=("--plan", path, "--shard", part.id),
        commit=plan.commit,
        plan=plan.digest,
    )


def _find(plan: Plan, path: str, wanted: str | None, only: Wanted) -> tuple[PlannedSuite, Shard]:
    shards = [(s, shard) for s in plan.suites if _is_wanted(s, only) for shard in s.shards]
    ids = [shard.id for _, shard in shards]
    wrong = faults(plan)
    if wrong:
        raise RunciError(f"{path}: {wrong[0]}: plan again with `runci plan`")
    listed = ", ".join(ids) or "none"
    if wanted is None and len(shards) == 1:
        return shards[0]
    if wanted is None:
        raise RunciError(f"{path}: choose a shard with --shard ID: {listed}")
    for suite, shard in shards:
        if shard.id == wanted:
            return suite, shard
    raise RunciError(
        f"--shard {wanted}: {path} has no such shard{nearest(wanted, ids)} (it has {listed})"
    )


def named(selection: Selection, wanted: Targets, path: str) -> Selection:
    """The files of a planned shard that the command line names too; of a planned part, that part.

    A test of a file that is planned whole may be named alone: its result is not the planned one.
    """
    kept = []
    for file in selection.files:
        if not is_below(file.path, wanted.paths):
            continue
        only = wanted.only.get(file.path)
        if only is not None and file.only and only != file.only:
            raise RunciError(f"{file.path}: {path} plans {' '.join(file.targets)}: name that")
        kept.append(replace(file, only=only or file.only))
    for one in wanted.paths:
        if not any(is_below(file.path, (one,)) for file in kept):
            raise RunciError(f"{one}: not in shard {selection.shard} of {path}")
    return replace(selection, files=tuple(kept))


def _is_wanted(suite: PlannedSuite, only: Wanted) -> bool:
    if only.backend is not None and suite.backend != only.backend.value:
        return False
    return only.suite is None or suite.name == only.suite
