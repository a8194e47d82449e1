"""What the inputs of a call and the outputs of a job can be while no gate said yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runci.read.yamlpos import Node
from runci.workflows.gates import Gates, steering
from runci.workflows.model import (
    Document,
    action_of,
    default_input,
    mapping_at,
    steps_of,
    text_of_node,
    value_of,
)
from runci.workflows.values import (
    UNKNOWN,
    Contexts,
    Partial,
    Unknown,
    Value,
    bounded,
    one,
    spread,
    text_of,
)

MAX_ACTIONS = 10  # of composite actions within composite actions


def given_inputs(caller: Node, called: Document, contexts: Contexts) -> dict[str, Value]:
    """The inputs of a called workflow. `contexts` are the caller's."""
    declared = called.declared("on", "workflow_call", "inputs")
    given = {key.lower(): node for key, node in mapping_at(caller, "with").items()}
    found: dict[str, Value] = {}
    for name, node in declared.items():
        value = given.get(name.lower())
        default = node.get("default")
        if value is not None:
            found[name] = value_of(value, contexts)
        elif default is not None:
            found[name] = value_of(default, {"github": contexts.get("github", {})})
        else:
            found[name] = default_input(node)
        found[name] = _typed(found[name], text_of_node(node.get("type")))
    return found


def action_inputs(step: Node, action: Document, contexts: Contexts) -> dict[str, Value]:
    """The inputs of a composite action, all of them text."""
    given = {key.lower(): node for key, node in mapping_at(step, "with").items()}
    found: dict[str, Value] = {}
    for name, node in action.declared("inputs").items():
        value = given.get(name.lower()) or node.get("default")
        values = spread(value_of(value, contexts)) if value is not None else ("",)
        found[name] = one(as_texts(values))
    return found


def as_texts(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values as outputs and inputs of actions carry them: text."""
    return tuple(
        text_of(v) if v is None or isinstance(v, (bool, int, float)) else v for v in values
    )


def _typed(value: Value, kind: str) -> Value:
    """With the type that the input declares; where text meets another type, both count."""
    found: list[Value] = []
    for choice in spread(value):
        found.append(choice)
        if kind == "boolean" and isinstance(choice, str) and choice.lower() in ("true", "false"):
            found.append(choice.lower() == "true")
        if kind == "string" and isinstance(choice, (bool, int, float)):
            found.append(text_of(choice))
    return one(bounded(found))


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
        elif gates.is_step(step) and not steering(step):
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
