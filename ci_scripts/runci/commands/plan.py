"""`runci plan`: options in, plan.json and a summary out."""

from __future__ import annotations

import argparse
import gc
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from runci.checks.engine import judge
from runci.checks.rt import find_in
from runci.checks.rule import Tree
from runci.checks.tree import load_tree
from runci.commands.shared import (
    baseline_arguments,
    percent,
    positive,
    tree_arguments,
    tree_options,
)
from runci.config.repository import BASELINE, PYPROJECT, find_config
from runci.config.taxonomy import Kind, Taxonomy
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.core.globs import matches
from runci.core.paths import linked_below, read_named
from runci.core.targets import Target, read_target
from runci.plan import changes as changing
from runci.plan.build import MARGIN, Settings, make_plan, tests_of
from runci.plan.configuration import own_configuration
from runci.plan.model import Accepted, Plan
from runci.plan.pipelines import SERVICES
from runci.plan.selection import (
    GITHUB,
    Selection,
    narrow,
    of_service,
    runs_on_service,
    select,
    starts,
    unregistered,
)
from runci.plan.show import as_github, as_markdown, as_table
from runci.plan.times import Times, measured
from runci.plan.unplanned import RULES, divide, unplannable
from runci.read.decode import read
from runci.read.written import ANY, written
from runci.run.files import refuse_parts
from runci.text.terminal import terminal_width, write
from runci.text.wording import nearest, plural, some

SHOWN = 10


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.set_defaults(paths=())
    what = command.add_argument_group("what changed (one of these)")
    one = what.add_mutually_exclusive_group()
    one.add_argument("--base", metavar="REV", help="since this commit, such as origin/main")
    one.add_argument(
        "--changed", nargs="+", metavar="PATH", help="these paths; @FILE lists them (@-: stdin)"
    )
    one.add_argument("--all", action="store_true", help="whatever changed: all suites")
    one.add_argument(
        "--test",
        metavar="PATH",
        help="whatever changed: this file, or PATH::TEST of it, in all its suites",
    )
    what.add_argument("--head", metavar="REV", default="HEAD", help="what is checked out")
    what.add_argument(
        "--changed-count", type=positive, metavar="N", help="how many --changed should list"
    )
    kinds = ("per-commit", "extra", "nightly", "weekly", "stress")
    command.add_argument(
        "--kind", action="append", choices=kinds, help="repeatable (default: per-commit)"
    )
    command.add_argument(
        "--suite", action="append", default=[], metavar="GLOB", help="only these, of any kind"
    )
    command.add_argument(
        "--shards",
        action="append",
        type=_suite_shards,
        default=[],
        metavar="SUITE=N",
        help="as many shards, not the fewest",
    )
    command.add_argument(
        "--times", action="append", default=[], metavar="RESULTS", help="measured times"
    )
    command.add_argument(
        "--margin",
        type=percent,
        default=MARGIN,
        metavar="PERCENT",
        help="of the timeout that stays unplanned (default: %(default)s)",
    )
    command.add_argument("--max-parallel", type=positive, metavar="N", help="for --format github")
    command.add_argument("--explain", metavar="PATH", help="say what a change of PATH starts")
    baseline_arguments(command)
    command.add_argument(
        "--allowed",
        metavar="ANSWER",
        help="the gate's; unless it is `true`, a change since --base of the taxonomy, the baseline "
        "or [tool.runci] is not planned, since it would be by its own word",
    )
    command.add_argument("--keep-going", action="store_true", help="plan despite unreadable tests")
    command.add_argument("--allow-empty", action="store_true", help="a plan without tests is right")
    command.add_argument("-o", "--output", metavar="FILE", help="write plan.json there as well")
    command.add_argument(
        "--service",
        choices=(GITHUB, *SERVICES),
        help="only suites that it runs, by their run_by (default: with its --format)",
    )
    formats = ("table", "markdown", "json", GITHUB, *SERVICES)
    command.add_argument("--format", choices=formats, default="table")
    tree_arguments(command)


def _suite_shards(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SUITE=N")
    return name, positive(number)


def run(options: Namespace) -> int:
    """`runci plan`: which suites run for a commit, in which shards."""
    gc.disable()
    request = tree_options(options, RULES)
    tree = load_tree(request)
    changes = _changes(options, request.root)
    if options.explain is not None:
        write(explain(_relative(options.explain), changes, tree))
        return Exit.OK
    own = _own_configuration(options, changes, request.root)
    result = judge(request, {"RT": find_in(tree, RULES)})
    faults, accepted = divide(unplannable(tree), result)
    made = _made(options, changes, tree, (*own, *faults), accepted, request.root)
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
    if options.format in SERVICES:  # its log is all that people see of a pipeline
        sys.stderr.write(as_table(made, terminal_width()))
    return status


def _made(
    options: Namespace,
    changes: changing.Changes | None,
    tree: Tree,
    said: Sequence[str],
    accepted: Sequence[Accepted],
    root: Path,
) -> Plan:
    commit = changing.head_commit(root) or ""
    target = _target(options.test, tree, root)
    tests = tree.registrations
    selection = _selection(options, changes, tree)
    if target is not None:
        tests = {target.path: tests[target.path]}
        planned = [key for key in selection.suites if key in tests_of(tests)]
        selection = Selection(dict.fromkeys(planned, (f"asked for: {options.test}",)))
    times, unread = _times(options.times)
    notes = [*(changes.notes if changes is not None else ()), *unread, *said]
    nowhere = unregistered(tree.files, tree.registrations)
    if nowhere:
        notes.append(f"{plural(len(nowhere), 'test files')} registered nowhere: {some(nowhere)}")
    settings = Settings(options.margin, dict(options.shards), times, _parts(target))
    return make_plan(commit, selection, tree.taxonomy, tests, settings, notes, accepted)


def _own_configuration(
    options: Namespace, changes: changing.Changes | None, root: Path
) -> tuple[str, ...]:
    """A note where a change plans by its own word. Raises RunciError where it may not."""
    if options.allowed is None or changes is None:
        return ()
    before = changing.file_at(root, options.base, PYPROJECT) if options.base else None
    after = read(root, PYPROJECT)
    read_from = (find_config(root, options.config), options.baseline or root / BASELINE)
    places = (linked_below(root, Path(path)) for path in (*read_from, root / PYPROJECT))
    links = dict(place for place in places if place is not None)
    found = own_configuration(changes, before, after if isinstance(after, bytes) else None, links)
    if found and options.allowed != "true":
        raise RunciError(
            f"{some(found)}: this change is of what decides what must run, and the gate did not "
            "allow it: not verified, since it would be by its own word. See what the gate says",
            Exit.FINDINGS,
        )
    said = "read what it does before you believe this page"
    return (f"planned and verified by its own {some(found)}: {said}",) if found else ()


def explain(path: str, changes: changing.Changes | None, tree: Tree) -> str:
    """Why a change of this path starts what it starts, one thing a line."""
    started = starts(path, tree.taxonomy, tree.registrations)
    if changes is not None and changes.unknown is None and path not in changes.paths:
        head = f"{path} is not among the changed paths. A change would start:\n"
    else:
        head = f"{path} starts:\n"
    if started.everything is not None:
        return f"{head}  everything: {started.everything}\n"
    if started.nothing is not None:
        return f"{head}  nothing: {started.nothing}\n"
    lines = [f"  {backend.value} {name}: {why}\n" for (backend, name), why in started.suites]
    return head + "".join(lines)


def _target(text: str | None, tree: Tree, root: Path) -> Target | None:
    """The test file, or part of it, that --test names."""
    if text is None:
        return None
    target = read_target(text)
    target = replace(target, path=_relative(target.path))
    if target.path not in tree.registrations:
        raise RunciError(f"--test {text}: no such test{nearest(target.path, tree.registrations)}")
    refuse_parts(_parts(target), tree.taxonomy, (target.path,))
    data = read(root, target.path)
    known = written(data) if isinstance(data, bytes) else ANY
    if target.test and not known.may_have(target.test):
        tests = sorted(name for name in known.names if "test" in name.lower())
        raise RunciError(
            f"--test {text}: {target.path} has no test {target.test}"
            f"{nearest(target.test.partition('[')[0], tests)} (it has {some(tests) or 'none'})"
        )
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
    path = given[1:]
    text = sys.stdin.buffer.read() if path == "-" else read_named(path, option="--changed @")
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
    service = _service(options)
    return selection if service is None else _of_service(selection, taxonomy, service, options)


def _service(options: Namespace) -> str | None:
    """Whose suites are planned: all of them where neither it nor its format is asked for."""
    format_of = options.format if options.format in (GITHUB, *SERVICES) else None
    if None not in (options.service, format_of) and options.service != format_of:
        raise RunciError(f"--service {options.service} --format {format_of}: leave --service out")
    return options.service or format_of


def _of_service(
    selection: Selection, taxonomy: Taxonomy, service: str, options: Namespace
) -> Selection:
    known = any(runs_on_service(suite.run_by, service) for suite in taxonomy.suites.values())
    if service != GITHUB and not known and not options.allow_empty:
        raise RunciError(
            f"{taxonomy.path}: no suite has a run_by that names {service}: write it at those that "
            "it runs, or pass --allow-empty",
            Exit.NOTHING,
        )
    return of_service(selection, taxonomy, service)


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
    from runci.results.read import read_results

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
    if options.format == GITHUB:
        return as_github(made, taxonomy.suites, options.max_parallel)
    if options.format in SERVICES:
        named = [(f"--{name}", getattr(options, name)) for name in ("root", "config")]
        return SERVICES[options.format](made, [word for pair in named if pair[1] for word in pair])
    return as_table(made, terminal_width())


def _status(options: Namespace, made: Plan, faults: Sequence[str]) -> int:
    if faults and not options.keep_going:
        shown = "\n  ".join(faults[:SHOWN])
        more = f"\n  and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise RunciError(
            f"{plural(len(faults), 'tests')} would never run:\n  {shown}{more}\n"
            "mend them (`runci lint`), accept them (a comment with a reason, or --baseline FILE), "
            "or pass --keep-going to plan the others",
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
