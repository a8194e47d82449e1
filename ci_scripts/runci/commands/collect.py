"""`runci collect`: registrations by suite, with totals."""

from __future__ import annotations

import gc
from argparse import Namespace
from typing import TYPE_CHECKING, TypeVar

from runci.commands.shared import terminal_width, tree_options, write
from runci.errors import Exit, RunciError
from runci.registration import Backend
from runci.suites import Kind

if TYPE_CHECKING:
    from runci.collect import Filter

_Choice = TypeVar("_Choice", Backend, Kind)


def collect(options: Namespace) -> int:
    """`runci collect`: registrations by suite, with totals."""
    from runci import lint as linting
    from runci.collect import by_suite
    from runci.report.collect import as_json, as_table

    gc.disable()
    wanted = _filter(options)
    request = tree_options(options)
    tree = linting.load_tree(request)
    below = linting.wanted_paths(request, tree)
    registrations = {
        path: found for path, found in tree.registrations.items() if linting.is_below(path, below)
    }
    suites = by_suite(registrations, tree.taxonomy, wanted)
    if options.format == "json":
        write(as_json(suites))
    else:
        write(as_table(suites, files=options.files, width=terminal_width()))
    if not suites:
        raise RunciError("no registration matches", Exit.NOTHING)
    return Exit.OK


def _filter(options: Namespace) -> Filter:
    from runci.collect import Filter

    return Filter(
        backend=_choice(Backend, "--backend", options.backend),
        suite=options.suite,
        kind=_choice(Kind, "--kind", options.kind),
        disabled=options.disabled,
    )


def _choice(of: type[_Choice], option: str, given: str | None) -> _Choice | None:
    from runci.rules.base import nearest

    names = [member.value for member in of]
    if given is None or given in names:
        return None if given is None else of(given)
    raise RunciError(f"{option} {given}: choose one of {', '.join(names)}{nearest(given, names)}")
