"""Steps with the published action, read as if they ran the commands that it runs. Pure.

Whoever asks about workflows (gates, suites, verdicts) then knows one form of them. What the action
checks out is a step of its own before the command, as an action OWNER/NAME/checkout.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runci.read.yamlpos import Node
from runci.workflows.model import text_of_node

# The command of the action → what it runs, with the inputs in braces.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "check": ("runci check",),
    "gate": ("runci gate --ignore-is-ok",),
    "plan": ("runci plan --allow-empty",),
    "run": ("runci run --plan plan.json --suite {suite} --shard {shard} --results results",),
    "finish": (
        "runci needs --may-skip {may-skip} --may-fail {may-fail}",
        "runci verify plan.json results --run-jobs github --allow-empty",
    ),
}
_CHECKS_NOTHING_OUT = ("gate", "run")
# A branch may have a name of 64 such characters; one of 40 GitHub refuses.
_COMMIT = re.compile(r"[0-9a-f]{40}", re.IGNORECASE)
_EXPRESSIONS = re.compile(r'(?:[^"`\\$]|\$\{\{.*?\}\})*', re.DOTALL)


def as_commands(root: Node, action: str) -> Node:
    """A workflow, or an action, with the steps that use `action`, OWNER/NAME, as its commands."""
    if not action:
        return root
    found = dict(root.mapping)
    for key, jobs in (("jobs", True), ("runs", False)):
        if (below := found.get(key)) is None:
            continue
        each = {name: _job(job, action) for name, job in below.mapping.items()} if jobs else {}
        found[key] = replace(below, value=each) if jobs else _job(below, action)
    return replace(root, value=found) if found else root


def _job(job: Node, action: str) -> Node:
    steps = job.get("steps")
    if steps is None or not steps.items:
        return job
    read = tuple(each for step in steps.items for each in _steps(step, action))
    return replace(job, value={**job.mapping, "steps": replace(steps, value=read)})


def _steps(step: Node, action: str) -> Iterator[Node]:
    """The step as its commands, after what it checks out; as it is where it is another."""
    uses = step.get("uses")
    name, _, ref = text_of_node(uses).partition("@")
    if uses is None or name.lower() != action.lower():
        yield step
        return
    given = step.get("with") or replace(step, value={}, keys={})
    inputs = {key.lower(): node for key, node in given.mapping.items()}
    command = text_of_node(inputs.get("command"))
    if command not in _CHECKS_NOTHING_OUT:
        handed = {key: node for key, node in inputs.items() if key == "ref"}
        written = {key: node for key, node in step.mapping.items() if key == "if"}
        place = replace(uses, value=f"{action}/checkout@{ref}")
        yield replace(
            step, value={**written, "uses": place, "with": replace(given, value=handed, keys={})}
        )
    lines = [_line(line, inputs) for line in COMMANDS.get(command, ())]
    if not lines or None in lines:
        yield step
        return
    # What a name stands for can change: a gate that can become another decides nothing.
    moves = command == "gate" and not _COMMIT.fullmatch(ref)
    script = "\n".join(map(str, lines)) + (" && : by a name that can move" if moves else "")
    found = {key: node for key, node in step.mapping.items() if key != "with"}
    found["run"] = replace(uses, value=script, line=given.line)
    if command == "finish" and "needs" in inputs:
        env = step.get("env") or replace(given, value={}, keys={})
        found["env"] = replace(env, value={**env.mapping, "NEEDS": inputs["needs"]})
    yield replace(step, value=found, keys={**step.keys, "run": step.keys["uses"]})


def _line(command: str, inputs: Mapping[str, Node]) -> str | None:
    """The command with its inputs, each one word; None where one cannot be written so."""
    words = command.split()
    for at, word in enumerate(words):
        if word.startswith("{"):
            text = text_of_node(inputs.get(word.strip("{}")))
            if "${{" not in text:
                words[at] = shlex.quote(text)
            elif _EXPRESSIONS.fullmatch(text):
                words[at] = f'"{text}"'
            else:
                return None
    return " ".join(words)
