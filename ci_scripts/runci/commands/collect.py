"""`runci collect`: registrations by suite, with totals."""

from __future__ import annotations

import argparse
import gc
from argparse import Namespace
from typing import TYPE_CHECKING, TypeVar

from runci.checks.tree import load_tree, wanted_tests
from runci.commands.shared import tree_arguments, tree_options
from runci.config.taxonomy import Kind
from runci.core.errors import Exit, RunciError
from runci.core.paths import is_below
from runci.core.registration import Backend
from runci.text.terminal import write

if TYPE_CHECKING:
    from runci.plan.collect import Filter


_Choice = TypeVar("_Choice", Backend, Kind)


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("paths", nargs="*", metavar="PATH", help="only tests below these")
    tree_arguments(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.add_argument("--backend", metavar="NAME", help="only this backend, such as cuda")
    command.add_argument("--suite", metavar="GLOB", help="only suites that match")
    command.add_argument("--kind", metavar="KIND", help="only suites of this kind")
    command.add_argument("--disabled", action="store_true", help="only disabled registrations")
    command.add_argument("--files", action="store_true", help="list the files of each suite")


def run(options: Namespace) -> int:
    """`runci collect`: registrations by suite, with totals."""
    from runci.plan.collect import as_json, as_table, by_suite

    gc.disable()
    wanted = _filter(options)
    request = tree_options(options)
    tree = load_tree(request)
    below = wanted_tests(request, tree)
    registrations = {
        path: found
        for path, found in tree.registrations.items()
        if (not below or is_below(path, below))
    }
    suites = by_suite(registrations, tree.taxonomy, wanted)
    if options.format == "json":
        write(as_json(suites))
    else:
        write(as_table(suites, files=options.files))
    if not suites:
        raise RunciError("no registration matches", Exit.NOTHING)
    return Exit.OK


def _filter(options: Namespace) -> Filter:
    from runci.plan.collect import Filter

    return Filter(
        backend=_choice(Backend, "--backend", options.backend),
        suite=options.suite,
        kind=_choice(Kind, "--kind", options.kind),
        disabled=options.disabled,
    )


def _choice(of: type[_Choice], option: str, given: str | None) -> _Choice | None:
    from runci.text.wording import nearest

    names = [member.value for member in of]
    if given is None or given in names:
        return None if given is None else of(given)
    raise RunciError(f"{option} {given}: choose one of {', '.join(names)}{nearest(given, names)}")
