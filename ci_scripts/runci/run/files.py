"""Which files a run takes: a suite, a shard of it, named files, or a shard of a plan; pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.checks.rule import Tree
from runci.config.taxonomy import Execution, Taxonomy
from runci.core.errors import Exit, RunciError
from runci.core.invocation import PLAIN
from runci.core.paths import is_below
from runci.core.registration import Backend, Registration
from runci.core.targets import Targets
from runci.plan.model import Plan, PlannedSuite, Shard, faults
from runci.plan.times import DEFAULT_MS
from runci.read.registrations import registration
from runci.run.model import Job, RunFile, Selection
from runci.text.wording import nearest


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for; `paths` are relative to the root, `shard` counts from 1.

    `only` are the tests that are wanted of a file that is not wanted whole.
    """

    suite: str | None = None
    backend: Backend | None = None
    paths: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def choose(tree: Tree, wanted: Wanted) -> Selection:
    """The files of a suite. Raises RunciError where the suite is not clear, or a file not in it."""
    backend, suite = _suite(tree, wanted)
    members = {
        path: item
        for path, items in tree.registrations.items()
        for item in items
        if item.backend is backend and item.effective_suite == suite
    }
    chosen = _named(members, wanted.paths, suite)
    disabled = tuple((p, r.disabled or "") for p, r in chosen.items() if not r.enabled)
    if wanted.paths and disabled:
        path, reason = disabled[0]
        raise RunciError(f"{path}: disabled in {suite}: {reason}; take disabled= away to run it")
    declared = tree.taxonomy.suite(backend, suite)
    default = declared.default_est_time if declared else None
    files = [
        RunFile(
            path,
            item.est_time or default or DEFAULT_MS / 1000,
            item.in_process_group,
            tree.taxonomy.is_benchmark(path),
            wanted.only.get(path, item.only),
        )
        for path, item in sorted(chosen.items())
        if item.enabled
    ]
    refuse_parts(wanted.only, tree.taxonomy, chosen)
    hw = ("--hw", backend.value) if len(tree.taxonomy.backends_with(suite)) != 1 else ()
    runner = declared.runner if declared else None
    return Selection(
        backend,
        suite,
        f"{backend.value}-{suite}",
        tuple(files),
        tree.taxonomy.runners.get(runner) if runner else None,
        tree.taxonomy.execution(declared) if declared else Execution.PYTEST,
        declared.timeout_minutes if declared else None,
        given=("--suite", suite, *hw),
        max_deselected=declared.max_deselected if declared else None,
        invocation=declared.invocation if declared else PLAIN,
        disabled=disabled,
        broken=() if wanted.paths else _broken(tree),
    )


def take_shard(selection: Selection, index: int, count: int) -> Selection:
    """One of `count` shards of a suite, counted from 1; empty where there are fewer files."""
    from runci.plan.partition import Item, split

    items = [Item(f.path, round(f.predicted * 1000), f.group) for f in selection.files]
    parts = split(items, count)
    kept = {item.path for item in parts[index - 1].items} if index <= len(parts) else set()
    return replace(
        selection,
        files=tuple(file for file in selection.files if file.path in kept),
        shard=f"{selection.backend.value}-{selection.suite}-{index}of{count}",
        given=(*selection.given, "--shard", f"{index}/{count}"),
        # Reported once, not by every shard.
        broken=selection.broken if index == 1 else (),
    )


def jobs(files: Iterable[RunFile]) -> list[Job]:
    """Files that share a child together, at the place of the first of them."""
    groups: dict[tuple[str, str], list[RunFile]] = {}
    for file in files:
        key = ("group", file.group) if file.group is not None else ("path", file.path)
        groups.setdefault(key, []).append(file)
    return [Job(tuple(members)) for members in groups.values()]


def order_jobs(items: Sequence[Job], order: str, slots: int, seed: int) -> list[Job]:
    """The order in which jobs start. «auto»: the longest first where several run at once."""
    if order == "random":
        shuffled = sorted(items, key=lambda job: job.name)
        random.Random(seed).shuffle(shuffled)  # noqa: S311  an order, not a secret
        return shuffled
    if order == "longest" or (order == "auto" and slots > 1):
        return sorted(items, key=lambda job: (-job.predicted, job.name))
    return sorted(items, key=lambda job: job.name) if order == "path" else list(items)


def _suite(tree: Tree, wanted: Wanted) -> tuple[Backend, str]:
    if wanted.suite is not None:
        return backend_of(tree.taxonomy, wanted.suite, wanted.backend), wanted.suite
    if not wanted.paths:
        raise RunciError("name what to run: --suite NAME, --plan FILE --shard ID, or files")
    found = [
        (path, item)
        for path, items in sorted(tree.registrations.items())
        for item in items
        if is_below(path, wanted.paths) and wanted.backend in (None, item.backend)
    ]
    pairs = sorted({(item.backend.value, item.effective_suite) for _, item in found})
    if len(pairs) == 1:
        return Backend(pairs[0][0]), pairs[0][1]
    if not pairs:
        raise RunciError(
            f"{' '.join(wanted.paths)}: registered in no suite"
            + (f" of {wanted.backend.value}" if wanted.backend else "")
            + ": add a call such as register_cpu_ci(...) (`runci lint` says what is wrong)",
            Exit.NOTHING,
        )
    listed = ", ".join(f"--hw {backend} --suite {suite}" for backend, suite in pairs)
    raise RunciError(f"{' '.join(wanted.paths)}: in several suites, choose one: {listed}")


def backend_of(taxonomy: Taxonomy, suite: str, wanted: Backend | None) -> Backend:
    """The backend of a suite. Raises RunciError where it is not clear, or has no such suite."""
    backends = taxonomy.backends_with(suite)
    if wanted is not None and wanted in backends:
        return wanted
    if wanted is None and len(backends) == 1:
        return backends[0]
    if not backends:
        known = sorted({name for _, name in taxonomy.suites})
        raise RunciError(
            f"--suite {suite}: {taxonomy.path} has no such suite"
            f"{nearest(suite, known)} (it has {', '.join(known)})"
        )
    names = ", ".join(backend.value for backend in backends)
    if wanted is not None:
        raise RunciError(f"--hw {wanted.value}: {suite} is a suite of {names}")
    raise RunciError(f"--suite {suite}: a suite of {names}: choose one with --hw")


def _named(
    members: dict[str, Registration], paths: tuple[str, ...], suite: str
) -> dict[str, Registration]:
    if not paths:
        return members
    for path in paths:
        if not any(is_below(member, (path,)) for member in members):
            raise RunciError(f"{path}: nothing there is registered in {suite}", Exit.NOTHING)
    return {path: item for path, item in members.items() if is_below(path, paths)}


def refuse_parts(
    only: Mapping[str, tuple[str, ...]], taxonomy: Taxonomy, files: Collection[str]
) -> None:
    """Raise RunciError where a part is wanted of what has none: a folder, a benchmark."""
    for path, tests in only.items():
        if path not in files:
            raise RunciError(f"{path}::{tests[0]}: {path} is a folder: name a file's test")
        if taxonomy.is_benchmark(path):
            raise RunciError(
                f"{path}::{tests[0]}: a benchmark is one measurement and has no tests: name the "
                "file alone"
            )


def _broken(tree: Tree) -> tuple[tuple[str, str], ...]:
    """Files whose registrations cannot be read: no one knows which suite they belong to."""
    found = []
    for file in tree.files:
        if not file.readable:
            found.append((file.path, f"cannot be read: {file.errors[0].message}"))
        elif any(registration(call) is None for call in file.calls):
            found.append((file.path, "has a registration that is not valid: see `runci lint`"))
    return tuple(found)


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
        RunFile(f.path, f.seconds, f.group, taxonomy.is_benchmark(f.path), f.only)
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
        max_deselected=suite.max_deselected,
        invocation=suite.invocation,
        under=part.under,
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
