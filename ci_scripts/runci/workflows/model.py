"""Workflows and composite actions as data: triggers, inputs, jobs, steps, matrices.

A base for every check of workflows. Nothing here knows of suites.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runci.read.yamlpos import Node
from runci.workflows.evaluate import render
from runci.workflows.runs import ACTION_FILES, local_path
from runci.workflows.values import (
    Choices,
    Contexts,
    Partial,
    Unknown,
    Value,
    equal,
    one,
    spread,
    text_of,
)

MAX_COMBINATIONS = 256  # GitHub's own bound on a matrix
MAX_NUMBER = 2**1023


class Place(NamedTuple):
    """Where something is written; the job is empty outside jobs."""

    path: str
    line: int
    job: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A context whose values are written somewhere: `inputs`, `matrix`, `env`."""

    values: Value
    places: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Document:
    """One workflow or action file, read."""

    path: str
    root: Node

    @property
    def triggers(self) -> Mapping[str, Node | None]:
        """The events that start it, with what is configured for each."""
        node = self.root.get("on")
        if node is None:
            return {}
        if isinstance(node.value, str):
            return {node.value: None}
        if node.items:
            return {text_of_node(item): None for item in node.items}
        return dict(node.mapping)

    @property
    def jobs(self) -> Mapping[str, Node]:
        """Jobs by id."""
        return mapping_at(self.root, "jobs")

    def declared(self, *path: str) -> Mapping[str, Node]:
        """Inputs declared below a path: `on`, `workflow_call`, `inputs`."""
        return mapping_at(self.root, *path)


def mapping_at(node: Node, *path: str) -> Mapping[str, Node]:
    """The mapping below a path, empty where there is none."""
    found = node.get(*path)
    return found.mapping if found else {}


def steps_of(job: Node) -> tuple[Node, ...]:
    """The steps of a job, or of what a composite action `runs`."""
    steps = job.get("steps")
    return steps.items if steps else ()


def needs_of(job: Node) -> tuple[str, ...]:
    """The ids that `needs:` names, as text or list."""
    needs = job.get("needs")
    return tuple(text_of_node(item) for item in needs.items or (needs,)) if needs else ()


def called_by(job: Node, documents: Mapping[str, Document]) -> Document | None:
    """The workflow of ours that a job calls."""
    return documents.get(local_path(text_of_node(job.get("uses"))) or "")


def action_of(step: Node, documents: Mapping[str, Document]) -> Document | None:
    """The local action that a step uses."""
    path = local_path(text_of_node(step.get("uses")))
    if path is None:
        return None
    names = (posixpath.join(path, name) for name in ACTION_FILES)
    return next((documents[name] for name in names if name in documents), None)


def text_of_node(node: Node | None) -> str:
    """A scalar as text, empty where there is none."""
    return "" if node is None or isinstance(node.value, (tuple, dict)) else text_of(_scalar(node))


def _scalar(node: Node) -> None | bool | float | str | Unknown:
    value = node.value
    if isinstance(value, (tuple, dict)):
        return Unknown()
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        return Unknown()  # no floating-point number, as all of GitHub's are
    return value


def value_of(node: Node, contexts: Contexts) -> Value:
    """A value of the file with its expressions evaluated."""
    if isinstance(node.value, str):
        return one(render(node.value, contexts)) if "${{" in node.value else node.value
    if isinstance(node.value, tuple):
        return tuple(value_of(item, contexts) for item in node.value)
    if isinstance(node.value, dict):
        return {key: value_of(item, contexts) for key, item in node.value.items()}
    return _scalar(node)


def typed_input(declared: Node) -> Choices:
    """What an input of `workflow_dispatch` can be."""
    kind = text_of_node(declared.get("type")) or "string"
    options = declared.get("options")
    if kind == "choice" and options:
        return tuple(text_of_node(option) for option in options.items) or ("",)
    if kind == "boolean":
        return (True, False)
    return (text_of_node(declared.get("default")), Unknown(typed=True))


def default_input(declared: Node) -> Value:
    """What an input is where the caller leaves it out."""
    default = declared.get("default")
    if default is not None:
        return _scalar(default)
    return {"boolean": False, "number": 0}.get(text_of_node(declared.get("type")), "")


class Cell(NamedTuple):
    """A value of a matrix and where it is written."""

    value: Value
    line: int


Combination = dict[str, Cell]


def combinations(job: Node, contexts: Contexts, path: str) -> Iterator[Bound]:
    """The `matrix` context of each job that a matrix makes; one unknown where it is computed."""
    matrix = job.get("strategy", "matrix")
    if matrix is None:
        yield Bound({}, {})
    elif not matrix.mapping:
        yield Bound(value_of(matrix, contexts) if matrix.value else {}, {})
    else:
        for found in _combined(matrix, contexts)[:MAX_COMBINATIONS]:
            values: dict[str, Value] = {key: cell.value for key, cell in found.items()}
            places = {key.lower(): Place(path, cell.line) for key, cell in found.items()}
            computed = isinstance(_entries(matrix.get("include"), contexts), Unknown)
            yield Bound(Partial(values) if computed else values, places)


def _combined(matrix: Node, contexts: Contexts) -> list[Combination]:
    """As GitHub does: the product of the lists, without `exclude`, then `include` on top."""
    made: list[Combination] = [{}]
    axes = {key: node for key, node in matrix.mapping.items() if key not in ("include", "exclude")}
    for key, node in axes.items():
        cells = list(_cells(node, contexts))
        # Stop early: lists can multiply beyond all bounds.
        made = [{**known, key: cell} for known in made for cell in cells][:MAX_COMBINATIONS]
    excluded = _entries(matrix.get("exclude"), contexts)
    if isinstance(excluded, list):
        made = [known for known in made if not any(_agrees(known, e) for e in excluded)]
    included = _entries(matrix.get("include"), contexts)
    return _include(made if axes else [], included, axes)


def _include(
    made: list[Combination], included: list[Combination] | Unknown, axes: Mapping[str, Node]
) -> list[Combination]:
    if isinstance(included, Unknown):
        return [*made, {}]  # at least one more, of which nothing is known
    originals = len(made)
    for entry in included:
        shared = {key: cell for key, cell in entry.items() if key in axes}
        fits = [i for i in range(originals) if _agrees(made[i], shared)]
        for i in fits:
            made[i] = {**made[i], **entry}
        if not fits:
            made.append(entry)
    return made


def _cells(node: Node, contexts: Contexts) -> Iterator[Cell]:
    if isinstance(node.value, tuple):
        for item in node.value:
            yield Cell(value_of(item, contexts), item.line)
        return
    for value in spread(value_of(node, contexts)):
        for found in value if isinstance(value, tuple) else (Unknown(),):
            yield Cell(found, node.line)


def _entries(node: Node | None, contexts: Contexts) -> list[Combination] | Unknown:
    """The entries of `include` or `exclude`."""
    if node is None:
        return []
    if isinstance(node.value, tuple):
        return [
            {key: Cell(value_of(item, contexts), item.line) for key, item in entry.mapping.items()}
            for entry in node.value
        ]
    value = value_of(node, contexts)
    if not isinstance(value, tuple):
        return Unknown()
    return [
        {key: Cell(found, node.line) for key, found in entry.items()}
        for entry in value
        if isinstance(entry, dict)
    ]


def _agrees(known: Combination, wanted: Combination) -> bool:
    return all(key in known and equal(known[key].value, cell.value) for key, cell in wanted.items())
