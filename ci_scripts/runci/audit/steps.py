"""What the outputs of a job can be while no gate said yes."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from runci.audit.gates import Gates
from runci.audit.inputs import action_inputs, as_texts
from runci.workflows.model import Document, mapping_at, steps_of, text_of_node, value_of
from runci.workflows.uses import ACTION_FILES, local_path
from runci.workflows.values import UNKNOWN, Contexts, Partial, Unknown, Value, bounded, one, spread
from runci.yamlpos import Node

MAX_ACTIONS = 10  # of composite actions within composite actions


def job_outputs(
    job: Node,
    matrices: Sequence[Contexts],
    documents: Mapping[str, Document],
    gates: Gates,
) -> dict[str, Value]:
    """The outputs of a job, over all jobs that its matrix makes."""
    declared = mapping_at(job, "outputs")
    found: dict[str, list[Value]] = {name: [] for name in declared}
    for contexts in matrices if declared else ():
        steps = _steps(steps_of(job), contexts, documents, gates, 0)
        inside = {**contexts, "steps": steps}
        for name, node in declared.items():
            found[name] += as_texts(spread(value_of(node, inside)))
    return {name: one(bounded(values or [""])) for name, values in found.items()}


def _steps(
    steps: Sequence[Node],
    contexts: Contexts,
    documents: Mapping[str, Document],
    gates: Gates,
    depth: int,
) -> Partial:
    """The `steps` context. Of a step that is no gate and no local action nothing is known."""
    found = Partial()
    for step in steps:
        name = text_of_node(step.get("id")).lower()
        if not name:
            continue
        action = action_of(step, documents)
        if name in found:  # an id that stands twice, which GitHub refuses
            found[name] = Unknown()
        elif gates.is_step(step):
            found[name] = gates.denied()
        elif action is not None and depth < MAX_ACTIONS:
            inputs = action_inputs(step, action, {**contexts, "steps": found})
            scope = {"github": contexts["github"], "inputs": inputs}
            inner = _steps(
                steps_of(action.root.get("runs") or action.root), scope, documents, gates, depth + 1
            )
            found[name] = Partial({"outputs": _action_outputs(action, {**scope, "steps": inner})})
        else:
            found[name] = Unknown()
    return found


def _action_outputs(action: Document, contexts: Contexts) -> Value:
    if text_of_node(action.root.get("runs", "using")) != "composite":
        return one(UNKNOWN)
    found: dict[str, Value] = {}
    for name, node in mapping_at(action.root, "outputs").items():
        value = node.get("value")
        values = as_texts(spread(value_of(value, contexts))) if value is not None else ()
        found[name] = one(bounded(("", *values)))  # the step itself may be skipped
    return found


def action_of(step: Node, documents: Mapping[str, Document]) -> Document | None:
    """The local action that a step uses."""
    path = local_path(text_of_node(step.get("uses")))
    if path is None:
        return None
    names = (posixpath.join(path, name) for name in ACTION_FILES)
    return next((documents[name] for name in names if name in documents), None)
