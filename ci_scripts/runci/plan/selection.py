"""Changed paths → the suites that they start, with reasons; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.config.taxonomy import Kind, Taxonomy
from runci.core.globs import matches
from runci.core.paths import is_below
from runci.core.registration import Backend, Registration
from runci.plan.changes import Changes
from runci.read.testfile import TestFile

# Where a repository that develops runci has it.
OWN_CODE = ("runci/**", "*/runci/**")

Key = tuple[Backend, str]
Registrations = Mapping[str, Iterable[Registration]]


ASKED = "all suites were asked for"


@dataclass(frozen=True, slots=True)
class Started:
    """What one path starts: everything or nothing, for a reason, or suites, each with one."""

    everything: str | None = None
    suites: tuple[tuple[Key, str], ...] = ()
    nothing: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Suites to plan, each with what started it.

    `idle` are changed paths that start nothing, by the reason; `other_kinds` are suites that were
    started and are of a kind that this plan is not for, `elsewhere` those that its service does not
    run.
    """

    suites: Mapping[Key, tuple[str, ...]]
    everything: str | None = None
    idle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_kinds: tuple[Key, ...] = ()
    elsewhere: tuple[Key, ...] = ()


def select(changes: Changes | None, taxonomy: Taxonomy, registrations: Registrations) -> Selection:
    """Which suites the changes start; None for all of them.

    What cannot be known starts everything.
    """
    if changes is None:
        return _everything(ASKED, taxonomy)
    if changes.unknown is not None:
        return _everything(f"the changed paths are not known: {changes.unknown}", taxonomy)
    causes: dict[Key, dict[str, list[str]]] = {}
    idle: dict[str, list[str]] = {}
    for path in changes.paths:
        started = starts(path, taxonomy, registrations)
        if started.everything is not None:
            return _everything(f"{path} changed: {started.everything}", taxonomy)
        for key, why in started.suites:
            causes.setdefault(key, {}).setdefault(why, []).append(path)
        if started.nothing is not None:
            idle.setdefault(started.nothing, []).append(path)
    reasons = {key: tuple(_reason(*cause) for cause in causes[key].items()) for key in causes}
    return Selection(reasons, idle={why: tuple(paths) for why, paths in idle.items()})


def starts(path: str, taxonomy: Taxonomy, registrations: Registrations) -> Started:
    """What a change of this path starts."""
    everything = _starts_everything(path, taxonomy)
    if everything is not None:
        return Started(everything)
    known = path in registrations
    if not known and taxonomy.is_ignored(path):
        return Started(nothing=f"ignored in {taxonomy.path}")
    if not taxonomy.components:
        return Started(f"{taxonomy.path} has no components that say what a path starts")
    suites = [
        ((item.backend, item.effective_suite), "its own tests")
        for item in registrations.get(path, ())
        if item.enabled
    ]
    if not known:
        suites += [(key, "tests beside it") for key in _beside(path, taxonomy, registrations)]
    for component in taxonomy.components:
        if matches(path, component.paths):
            why = f"component {component.name}"
            suites += [(key, why) for key in taxonomy.suites if matches(key[1], component.suites)]
    if suites:
        return Started(suites=tuple(dict.fromkeys(suites)))
    if known:
        return Started(nothing="its registrations are disabled")
    return Started(_unlisted(path, taxonomy))


def narrow(
    selection: Selection, taxonomy: Taxonomy, kinds: Sequence[Kind], names: Sequence[str]
) -> Selection:
    """Only the suites of these kinds, or, where names (globs) are given, only those.

    Who runs a suite (`run_by`) makes no difference: its kind says when it runs.
    """
    wanted = tuple(kinds)
    suites = {}
    others = []
    for key, reasons in selection.suites.items():
        suite = taxonomy.suites.get(key)
        if suite is None:
            continue
        if matches(suite.name, names) if names else suite.kind in wanted:
            suites[key] = reasons
        elif not names:
            others.append(key)
    everything = selection.everything
    if everything == ASKED:
        of = (
            f"named {', '.join(names)}" if names else f"of kind {', '.join(k.value for k in kinds)}"
        )
        everything = f"all suites {of} were asked for"
    return replace(selection, suites=suites, everything=everything, other_kinds=tuple(others))


GITHUB = "github"


def runs_on_service(run_by: str | None, service: str) -> bool:
    """Whether a service runs a suite with this `run_by`: GitHub those without, another one those
    whose text has its name, however it is written and whatever else it says."""
    if service == GITHUB:
        return run_by is None
    return service in re.sub(r"[\W_]", "", run_by or "").lower()


def of_service(selection: Selection, taxonomy: Taxonomy, service: str) -> Selection:
    """Only the suites that a service runs."""
    mine, others = {}, []
    for key, reasons in selection.suites.items():
        if runs_on_service(taxonomy.suites[key].run_by, service):
            mine[key] = reasons
        else:
            others.append(key)
    return replace(selection, suites=mine, elsewhere=tuple(others))


def unregistered(tests: Iterable[TestFile], registrations: Registrations) -> list[str]:
    """Test files that no suite has, and so run nowhere."""
    readable = (file for file in tests if file.readable and file.tests and not file.calls)
    return sorted(file.path for file in readable if file.path not in registrations)


def _starts_everything(path: str, taxonomy: Taxonomy) -> str | None:
    if path == taxonomy.path:
        return "it names the suites"
    if taxonomy.is_workflow(path):
        return "it is a workflow or a part of one"
    if matches(path, OWN_CODE):
        return "it is a part of runci"
    return None


def _unlisted(path: str, taxonomy: Taxonomy) -> str:
    if matches(path, taxonomy.ignore):
        return "no component lists it, and ignore leaves out neither configuration nor tests"
    return "no component lists it"


def _beside(path: str, taxonomy: Taxonomy, registrations: Registrations) -> list[Key]:
    """The suites of the tests below the folder of a helper, such as a conftest.py."""
    folder, _, name = path.rpartition("/")
    is_test = name.endswith(".py") and matches(path, taxonomy.globs(path).test_files)
    if is_test or not taxonomy.is_at_tests(path):
        return []
    return list(
        dict.fromkeys(
            (item.backend, item.effective_suite)
            for test, items in registrations.items()
            if is_below(test, (folder,))
            for item in items
            if item.enabled
        )
    )


def _everything(why: str, taxonomy: Taxonomy) -> Selection:
    return Selection(dict.fromkeys(taxonomy.suites, ()), everything=why)


def _reason(why: str, paths: list[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{why}: {min(paths)}{more}"
