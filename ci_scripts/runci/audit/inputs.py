"""The `inputs` that a call gives: what stands in `with:`, over the defaults."""

from __future__ import annotations

from runci.workflows.model import Document, default_input, mapping_at, text_of_node, value_of
from runci.workflows.values import Contexts, Value, bounded, one, spread, text_of
from runci.yamlpos import Node


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
