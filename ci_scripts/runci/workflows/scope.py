"""What expressions can read at one point of a workflow, and where each value is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runci.workflows.evaluate import can_hold
from runci.workflows.expressions import Access, ExpressionError, Literal, Name, parse, split
from runci.workflows.model import Bound, Place, mapping_at, text_of_node, value_of
from runci.workflows.values import Partial, Unknown, Value
from runci.yamlpos import Node


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions can read at one point: contexts, and where their values are written."""

    path: str
    job: str
    contexts: Mapping[str, Value]
    places: Mapping[str, Place]  # such as «inputs.suite»

    def place(self, node: Node) -> Place:
        """Where the value is written: of a lone reference, where what it refers to is written."""
        return self.origin(node.value) or Place(self.path, node.line, self.job)

    def origin(self, text: object) -> Place | None:
        """Where a lone `${{ context.key }}` gets its value from."""
        pieces = split(text) if isinstance(text, str) else ()
        if len(pieces) != 1 or not pieces[0].expression:
            return None
        try:
            found = parse(pieces[0].text)
        except ExpressionError:
            return None
        while isinstance(found, Access) and isinstance(found.of, Access):
            found = found.of  # of `matrix.config.suite` the entry `config`
        match found:
            case Access(Name(context), Literal(str(key))):
                return self.places.get(f"{context}.{key.lower()}")
        return None

    def binding(self, context: str, bound: Bound) -> Scope:
        """The scope with one context replaced."""
        places = {k: p for k, p in self.places.items() if not k.startswith(f"{context}.")}
        places |= {f"{context}.{key}": place for key, place in bound.places.items()}
        return replace(self, contexts={**self.contexts, context: bound.values}, places=places)

    def with_env(self, node: Node) -> Scope:
        """The scope below an `env:` of a workflow, job or step."""
        added = mapping_at(node, "env")
        if not added:
            return self
        known = self.contexts.get("env")
        values = Partial(known if isinstance(known, dict) else {})
        values.update({key: value_of(item, self.contexts) for key, item in added.items()})
        places = {f"env.{key.lower()}": self.place(item) for key, item in added.items()}
        contexts = {**self.contexts, "env": values}
        return replace(self, contexts=contexts, places={**self.places, **places})

    def on_runner(self, name: str, runs_on: Node | None) -> Scope:
        """The scope with what `runs-on` is, kept as `name`."""
        known = value_of(runs_on, self.contexts) if runs_on is not None else Unknown()
        return replace(self, contexts={**self.contexts, name: known})

    def may_run(self, node: Node) -> bool:
        """Whether the `if:` of a job or step can hold."""
        found = node.get("if")
        if found is None or isinstance(found.value, bool):
            return found is None or bool(found.value)
        return can_hold(text_of_node(found), self.contexts)
