"""Whether the program that a gate's step starts is ours, or can be the pull request's.

The steps before it are followed: what is checked out where, and whether anything of it, or a text
of the event, can put another program in the gate's place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runci.read.yamlpos import Node
from runci.workflows.conditions import condition
from runci.workflows.effects import says_of_others, says_of_script
from runci.workflows.evaluate import can_be
from runci.workflows.gates import Gates
from runci.workflows.machine import Doubt, Machine, joined
from runci.workflows.model import Document, action_of, mapping_at, steps_of, text_of_node, value_of
from runci.workflows.origins import (
    is_ours,
    own_inputs,
    perhaps_empty,
    runs_own_commit,
)
from runci.workflows.outputs import MAX_ACTIONS, action_inputs
from runci.workflows.runs import local_path
from runci.workflows.values import Contexts, spread


def doubts(
    document: Document,
    job: Node,
    contexts: Contexts,
    documents: Mapping[str, Document],
    gates: Gates,
) -> tuple[Doubt, ...]:
    """What speaks against the gates of a job, on one event. `contexts` are the job's."""
    walk = _Walk(documents, gates, (document.root, job))
    if not walk.has_gate(job, 0):
        return ()
    container = job.get("container")
    volumes = job.get("container", "volumes")
    parts = [container, *(job.get("container", key) for key in ("image", "options"))]
    texts = map(text_of_node, (*parts, *(volumes.items if volumes is not None else ())))
    machine = Machine()
    if not all(is_ours(text, contexts) for text in texts):
        found = _doubt(document, job, "container", "a container that the event names")
        machine = replace(machine, doubts=(found,))
    return tuple(sorted(set(walk.steps(document, job, contexts, machine, 0).asked)))


def _doubt(document: Document, node: Node, key: str, text: str) -> Doubt:
    return Doubt(document.path, *node.keys.get(key, (node.line, node.column)), text)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Follows the steps of one job. `around` are the nodes whose `env` and `defaults` hold."""

    documents: Mapping[str, Document]
    gates: Gates
    around: tuple[Node, ...]

    def has_gate(self, node: Node, depth: int) -> bool:
        """Whether a gate is asked among steps, also in local actions."""
        for step in steps_of(node):
            action = action_of(step, self.documents)
            runs = action.root.get("runs") if action is not None and depth < MAX_ACTIONS else None
            if self.gates.mentions(step) or (runs is not None and self.has_gate(runs, depth + 1)):
                return True
        return False

    def steps(
        self, document: Document, node: Node, contexts: Contexts, machine: Machine, depth: int
    ) -> Machine:
        for step in steps_of(node):
            holds = condition(step.get("if"))
            if holds is not None and not can_be(True, holds, contexts):
                continue
            if self.gates.mentions(step):
                machine = self._asked(document, step, contexts, machine)
            elif step.get("run") is not None:
                machine = self._ran(document, step, contexts, machine)
            else:
                machine = self._used(document, step, contexts, machine, depth)
        return machine

    def _asked(
        self, document: Document, step: Node, contexts: Contexts, machine: Machine
    ) -> Machine:
        folder = self._folder(step, contexts)
        beside = any(
            machine.holds(None if folder is None else joined(folder, path))
            for path in self.gates.read_from(step)
        )
        said = "a program of the pull request's checkout"
        own = (_doubt(document, step, "run", said),) if beside else ()
        return replace(machine, asked=(*machine.asked, *machine.doubts, *own))

    def _folder(self, step: Node, contexts: Contexts) -> str | None:
        """Where a step starts, from the workspace; None where that is not known."""
        written = step.get("working-directory")
        for node in reversed(self.around):
            written = written or node.get("defaults", "run", "working-directory")
        values = spread(value_of(written, contexts)) if written is not None else ("",)
        text = values[0]
        return joined("", text) if len(values) == 1 and isinstance(text, str) else None

    def _used(
        self, document: Document, step: Node, contexts: Contexts, machine: Machine, depth: int
    ) -> Machine:
        uses = text_of_node(step.get("uses"))
        if _CHECKOUT.search(uses):
            return _checked_out(step, contexts, machine)
        path, action = local_path(uses), action_of(step, self.documents)
        if path is None:
            said = says_of_others(step, uses, contexts, machine)
        else:
            taken = uses.startswith("./") and machine.holds(path)
            said = "an action of the pull request's checkout" if taken else ""
        if said:
            found = _doubt(document, step, "uses", said)
            machine = replace(machine, doubts=(*machine.doubts, found))
        runs = action.root.get("runs") if action is not None else None
        if action is None or runs is None or depth >= MAX_ACTIONS:
            return machine
        defaults = {
            n: d for n, node in action.declared("inputs").items() if (d := node.get("default"))
        }
        given = {**defaults, **mapping_at(step, "with")}
        inputs = own_inputs(action_inputs(step, action, contexts), given, contexts)
        scope = {"github": contexts["github"], "inputs": inputs}
        inside = replace(self, around=(self.around[0], self.around[1], step))
        return inside.steps(action, runs, scope, machine, depth + 1)

    def _ran(self, document: Document, step: Node, contexts: Contexts, machine: Machine) -> Machine:
        folder = self._folder(step, contexts)
        said = says_of_script(self.around, step, contexts, machine, folder)
        if not said:
            return machine
        return replace(machine, doubts=(*machine.doubts, _doubt(document, step, "run", said)))


_CHECKOUT = re.compile(r"checkout[^/@]*@", re.IGNORECASE)  # GitHub's own, and what wraps it


def _checked_out(step: Node, contexts: Contexts, machine: Machine) -> Machine:
    given = {name.lower(): node for name, node in mapping_at(step, "with").items()}
    path = given.get("path")
    folders = spread(value_of(path, contexts)) if path is not None else ("",)
    known = len(folders) == 1 and isinstance(folders[0], str)
    folder = joined("", str(folders[0])) if known else ""
    if not _is_own_checkout(given, contexts):
        return replace(machine, foreign=machine.foreign | {folder})
    if not known or text_of_node(given.get("clean")) == "false":
        return machine
    left = {f for f in machine.foreign if folder and not f"{f}/".startswith(f"{folder}/")}
    return replace(machine, foreign=frozenset(left))


def _is_own_checkout(given: Mapping[str, Node], contexts: Contexts) -> bool:
    repository, ref = text_of_node(given.get("repository")), text_of_node(given.get("ref"))
    if not (is_ours(repository, contexts) and is_ours(ref, contexts)) or "pull/" in ref:
        return False
    node = given.get("ref")
    values = perhaps_empty(node, contexts) if node is not None else ("",)
    # A repository that is written out may be this one, of which no `ref` is the event's commit.
    return all(value for value in values) or runs_own_commit(contexts)
