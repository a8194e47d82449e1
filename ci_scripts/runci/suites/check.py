"""What must agree across suites.yml and a schema cannot say: names, globs, the order of folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from runci.globs import compile_glob, matches
from runci.registration import Backend, pair_suite
from runci.suites.schema_check import Pointer, Problem, place, remedy, shown
from runci.yamlpos import Node

_BACKENDS = frozenset(backend.value for backend in Backend)


@dataclass(frozen=True, slots=True)
class Declared:
    """One suite of one backend; `node` is the value that names it, `entry` holds its settings."""

    backend: str
    name: str
    node: Node
    entry: Node
    pointer: Pointer  # of the entry
    stage: str | None = None
    runner_config: str | None = None


def declared(root: Node) -> Iterator[Declared]:
    """The suites in the order of the file."""
    for backend, entries in children(root, "suites"):
        for index, entry in enumerate(entries.items):
            at = ("suites", backend, index)
            stage = entry.get("stage")
            for node in one_or_more(entry.get("name")) if stage is None else ():
                yield Declared(backend, str(node.value), node, entry, at)
            for node in one_or_more(entry.get("runner_configs")) if stage is not None else ():
                pair = str(stage.value if stage else ""), str(node.value)
                yield Declared(backend, pair_suite(*pair), node, entry, at, *pair)


def disagreements(root: Node, broken: set[str]) -> Iterator[Problem]:
    """Every fault across sections; a section that is broken itself is not compared with others."""
    suites = list(declared(root)) if "suites" not in broken else []
    entries = list({id(suite.entry): suite for suite in suites}.values())
    if "runners" not in broken:
        yield from _unknown_runners(root, suites, entries)
    yield from _declared_twice(suites)
    yield from _timeouts_of_others(entries)
    if "suites" not in broken:
        yield from _matching_nothing(root, suites)
    yield from _never_reached(root)


def _unknown_runners(
    root: Node, suites: list[Declared], entries: list[Declared]
) -> Iterator[Problem]:
    known = [name for name, _ in children(root, "runners")]
    uses = [((*s.pointer, "runner_configs"), s.node) for s in suites if s.stage is not None]
    for entry in entries:
        uses += [((*entry.pointer, "runner"), n) for n in one_or_more(entry.entry.get("runner"))]
    for index, skip in enumerate(one_or_more(root.get("skips"))):
        uses += [(("skips", index, "runners"), n) for n in one_or_more(skip.get("runners"))]
    for at, node in uses:
        if isinstance(node.value, str) and node.value not in known:
            text = f"{shown(node)} is not declared under runners; {remedy(node.value, known)}"
            yield _problem(node, at, text)


def _declared_twice(suites: list[Declared]) -> Iterator[Problem]:
    first: dict[tuple[str, str], Declared] = {}
    for suite in suites:
        known = first.setdefault((suite.backend, suite.name), suite)
        if known is not suite:
            text = f"{suite.backend} has suite {suite.name!r} already (line {known.node.line}); "
            yield _problem(suite.node, suite.pointer, text + "allowed: each suite once")


def _timeouts_of_others(entries: list[Declared]) -> Iterator[Problem]:
    """A timeout for a runner config that the stage does not have."""
    for entry in entries:
        configs = [str(node.value) for node in one_or_more(entry.entry.get("runner_configs"))]
        timeouts = entry.entry.get("timeout_minutes")
        for name, (line, column) in timeouts.keys.items() if timeouts else ():
            if name not in configs:
                text = f"{name!r} is no runner config of this stage; {remedy(name, configs)}"
                key = Node(name, line, column, {})
                yield _problem(key, (*entry.pointer, "timeout_minutes"), text)


def _matching_nothing(root: Node, suites: list[Declared]) -> Iterator[Problem]:
    """Globs of suite names that no declared suite matches."""
    for at, nodes, backend in _suite_globs(root):
        names = [s.name for s in suites if backend in (None, s.backend)]
        for node in one_or_more(nodes):
            glob = _readable(node)
            if glob is not None and not any(matches(name, (glob,)) for name in names):
                what = f"{backend} suite" if backend else "suite"
                text = f"{shown(node)} matches no {what}; {remedy(glob, names)}"
                yield _problem(node, at, text)


def _suite_globs(root: Node) -> Iterator[tuple[Pointer, Node | None, str | None]]:
    for name, component in children(root, "components"):
        yield ("components", name, "suites"), component.get("suites"), None
    for index, policy in enumerate(one_or_more(root.get("taxonomy"))):
        for backend, node in children(policy, "allow"):
            if backend in _BACKENDS:  # the schema reports any other
                yield ("taxonomy", index, "allow", backend), node, backend


def _never_reached(root: Node) -> Iterator[Problem]:
    """A folder below one that an earlier entry decides."""
    earlier: list[tuple[str, int]] = []
    for index, policy in enumerate(one_or_more(root.get("taxonomy"))):
        for node in one_or_more(policy.get("folder")):
            folder = _readable(node)
            if folder is None:
                continue
            for wide, line in earlier:
                if matches(folder, (wide,)):
                    text = f"{folder!r} is never reached: {wide!r} on line {line} decides first; "
                    text += "allowed: narrow folders above wide ones"
                    yield _problem(node, ("taxonomy", index, "folder"), text)
                    break
            earlier.append((folder, node.line))


def _readable(node: Node) -> str | None:
    """The glob that stands there; None where the schema has reported that none does."""
    if not isinstance(node.value, str):
        return None
    try:
        compile_glob(node.value)
    except re.error:
        return None
    return node.value


def children(node: Node, key: str) -> list[tuple[str, Node]]:
    """The entries of the mapping below a key; none where there is no mapping."""
    below = node.get(key)
    return list(below.mapping.items()) if below else []


def one_or_more(node: Node | None) -> tuple[Node, ...]:
    """The items of a list; a value that is no list alone; nothing where the key is missing."""
    if node is None:
        return ()
    return node.items if isinstance(node.value, tuple) else (node,)


def _problem(node: Node, at: Pointer, text: str) -> Problem:
    return Problem(node.line, node.column, f"{place(at)}: {text}", at)
