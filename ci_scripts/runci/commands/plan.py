"""`runci plan`: options in, plan.json and a summary out."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from runci import lint as linting
from runci.atomic import replace_file
from runci.commands.shared import terminal_width, tree_options, write
from runci.errors import Exit, RunciError
from runci.globs import matches
from runci.plan import changes as changing
from runci.plan.build import Settings, make_plan, some, tests_of
from runci.plan.model import Plan
from runci.plan.selection import Selection, narrow, select, starts, unplannable, unregistered
from runci.plan.times import Times, measured
from runci.report.plan import as_github, as_markdown, as_table
from runci.report.summary import plural
from runci.rules.base import Tree, nearest
from runci.run.files import refuse_parts
from runci.suites import Kind, Taxonomy
from runci.targets import Target, read_target

SHOWN = 10


def plan(options: Namespace) -> int:
    """`runci plan`: which suites run for a commit, in which shards."""
    gc.disable()
    request = tree_options(options)
    tree = linting.load_tree(request)
    changes = _changes(options, request.root)
    if options.explain is not None:
        write(explain(_relative(options.explain), changes, tree))
        return Exit.OK
    faults = unplannable(tree.files, tree.uncollected, tree.taxonomy)
    made = _made(options, changes, tree, faults, changing.head_commit(request.root) or "")
    shown = _shown(options, made, tree.taxonomy)
    for_people = options.format in ("table", "markdown")
    if for_people:
        write(shown)
    status = _status(options, made, faults)
    # Only now: a step that tolerates errors must find no plan to go on with.
    if options.output is not None:
        replace_file(Path(options.output), made.to_json().encode())
    if not for_people:
        write(shown)
    return status


def _made(
    options: Namespace,
    changes: changing.Changes | None,
    tree: Tree,
    faults: Sequence[str],
    commit: str,
) -> Plan:
    target = _target(options.test, tree)
    tests = tree.registrations
    selection = _selection(options, changes, tree)
    if target is not None:
        tests = {target.path: tests[target.path]}
        planned = [key for key in selection.suites if key in tests_of(tests)]
        selection = Selection(dict.fromkeys(planned, (f"asked for: {options.test}",)))
    times, unread = _times(options.times)
    notes = [*(changes.notes if changes is not None else ()), *unread, *faults]
    nowhere = unregistered(tree.files)
    if nowhere:
        notes.append(f"{plural(len(nowhere), 'test files')} registered nowhere: {some(nowhere)}")
    settings = Settings(options.margin, dict(options.shards), times, _parts(target))
    return make_plan(commit, selection, tree.taxonomy, tests, settings, notes)


def explain(path: str, changes: changing.Changes | None, tree: Tree) -> str:
    """Why a change of this path starts what it starts, one thing a line."""
    started = starts(path, tree.taxonomy, tree.registrations)
    if changes is not None and changes.unknown is None and path not in changes.paths:
        head = f"{path} is not among the changed paths. A change would start:\n"
    else:
        head = f"{path} starts:\n"
    if started.everything is not None:
        return f"{head}  everything: {started.everything}\n"
    if not started.suites:
        roots = ", ".join(tree.taxonomy.roots)
        return (
            f"{head}  nothing: in no component of {tree.taxonomy.path},\n"
            f"  and no enabled test below {roots}\n"
        )
    lines = [f"  {backend.value} {name}: {why}\n" for (backend, name), why in started.suites]
    return head + "".join(lines)


def _target(text: str | None, tree: Tree) -> Target | None:
    """The test file, or part of it, that --test names."""
    if text is None:
        return None
    target = read_target(text)
    target = replace(target, path=_relative(target.path))
    if target.path not in tree.registrations:
        raise RunciError(f"--test {text}: no such test{nearest(target.path, tree.registrations)}")
    refuse_parts(_parts(target), tree.taxonomy, (target.path,))
    return target


def _parts(target: Target | None) -> dict[str, tuple[str, ...]]:
    """The tests to run of a file that is not planned whole."""
    return {target.path: (target.test,)} if target is not None and target.test else {}


def _changes(options: Namespace, root: Path) -> changing.Changes | None:
    """None for all suites, whatever changed."""
    if options.base is not None:
        return changing.between(root, options.base, options.head)
    if options.changed is not None:
        paths = [path for given in options.changed for path in _listed(given)]
        return changing.listed(paths, options.changed_count)
    if options.all or options.test is not None or options.explain is not None:
        return None
    raise RunciError(
        "what changed? pass --base REV (such as --base origin/main), --changed PATH ..., "
        "--test PATH, or --all"
    )


def _listed(given: str) -> Iterable[str]:
    """A path, or with @ the file that lists them, one a line or ended by NULs (@- reads stdin)."""
    if not given.startswith("@"):
        return [given]
    if given == "@-":
        text = sys.stdin.buffer.read()
    else:
        try:
            text = Path(given[1:]).read_bytes()
        except OSError as error:
            raise RunciError(f"--changed {given}: cannot read: {error.strerror}") from error
    end = b"\0" if b"\0" in text else b"\n"
    return [line.decode("utf-8", "surrogateescape").rstrip("\r") for line in text.split(end)]


def _selection(options: Namespace, changes: changing.Changes | None, tree: Tree) -> Selection:
    taxonomy = tree.taxonomy
    known = {name for _, name in taxonomy.suites}
    fixed = [name for name, _ in options.shards if name not in known]
    for name in [*(n for n in options.suite if not any(matches(k, (n,)) for k in known)), *fixed]:
        raise RunciError(
            f"{taxonomy.path} has no suite {name!r}{nearest(name, known)} (`runci collect`)"
        )
    kinds = [Kind(kind) for kind in options.kind or [Kind.PER_COMMIT.value]]
    selection = narrow(
        select(changes, taxonomy, tree.registrations), taxonomy, kinds, options.suite
    )
    if options.suite and not options.allow_empty:
        _refuse_empty(options.suite, selection, tree)
    return selection


def _refuse_empty(names: Sequence[str], selection: Selection, tree: Tree) -> None:
    """A suite that somebody names is meant to run something."""
    tests = tests_of(tree.registrations)
    for backend, name in selection.suites:
        if name in names and (backend, name) not in tests:
            raise RunciError(
                f"suite {name} has no enabled test for {backend.value}: register one, correct "
                "--suite, or pass --allow-empty",
                Exit.NOTHING,
            )


def _times(places: Sequence[str]) -> tuple[Times, list[str]]:
    from runci.results.files import read_results

    if not places:
        return Times({}), []
    found = read_results(places)
    times = measured(result for _, result in found.results)
    notes = list(found.broken)
    if times.unusable:
        notes.append(f"{times.unusable} results without a time that can be used")
    if not times.timings:
        notes.append(f"no measured time in {', '.join(places)}: estimates are used")
    return times, notes


def _shown(options: Namespace, made: Plan, taxonomy: Taxonomy) -> str:
    if options.format == "json":
        return made.to_json()
    if options.format == "markdown":
        return as_markdown(made)
    if options.format == "github":
        return as_github(made, taxonomy.suites, options.max_parallel)
    return as_table(made, terminal_width())


def _status(options: Namespace, made: Plan, faults: Sequence[str]) -> int:
    if faults and not options.keep_going:
        shown = "\n  ".join(faults[:SHOWN])
        more = f"\n  and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise RunciError(
            f"{len(faults)} tests would never run:\n  {shown}{more}\n"
            "mend them (`runci lint`), or pass --keep-going to plan the others",
            Exit.FINDINGS,
        )
    if options.test and not made.suites:
        # Whoever names a test wants it to run: --allow-empty is for changes that start nothing.
        raise RunciError(
            f"--test {options.test}: no suite of --kind {' '.join(options.kind or ['per-commit'])}"
            f"{''.join(f' --suite {name}' for name in options.suite)} has it enabled "
            "(`runci collect PATH` says which suites it is in)",
            Exit.NOTHING,
        )
    if options.all and not made.suites and not options.allow_empty:
        raise RunciError(
            "no suite has a test: correct --kind or --suite, or pass --allow-empty", Exit.NOTHING
        )
    return Exit.OK


def _relative(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")
