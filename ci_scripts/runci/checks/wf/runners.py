"""Jobs on machines of ours without a timeout, or that leave credentials there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runci.checks.wf.audit import Audit, WorkflowRule, job_span, key_span
from runci.core.finding import Finding
from runci.core.source import at
from runci.read.yamlpos import Node
from runci.workflows.model import Document, action_of, steps_of, text_of_node, value_of
from runci.workflows.outputs import MAX_ACTIONS
from runci.workflows.shell import commands
from runci.workflows.starts import only_hosted, shown
from runci.workflows.values import is_known, number_of, spread, text_of

MAX_MINUTES = 1440  # a day; nothing that is meant runs longer


def careless_runner_job(audit: Audit) -> Iterator[Finding]:
    """One finding for the timeout, one at each step that leaves a token on the machine."""
    for document, job, node in audit.jobs():
        if node.get("uses") is not None or only_hosted(node, document, audit.hosted):
            continue
        where = f"job {job!r} on {shown(node.get('runs-on'))}"
        if (said := _bad_timeout(node)) is not None:
            yield Finding(
                document.path,
                key_span(node, "timeout-minutes")
                if node.get("timeout-minutes")
                else job_span(document, job),
                "WF109",
                f"{where} {said}",
                f"Write a `timeout-minutes:` from 1 to {MAX_MINUTES}; without it a hanging job "
                "holds the machine six hours.",
                key=f"{job}: timeout",
            )
        for place, step, key, said in _leaving(document, steps_of(node), audit.documents, 0):
            yield Finding(
                place.path,
                key_span(step, key) if step.keys else at(step.line),
                "WF109",
                f"{where} leaves {said} on the machine",
                _REMEDY[key],
                key=f"{job}: credentials",
            )


def _bad_timeout(job: Node) -> str | None:
    """What is wrong with the time limit; one that is computed may be right."""
    node = job.get("timeout-minutes")
    if node is None:
        return "has no timeout-minutes"
    values = spread(value_of(node, {}))
    known = [number_of(value) for value in values if is_known(value)]
    if all(0 < minutes <= MAX_MINUTES for minutes in known):
        return None
    return f"has the timeout-minutes {text_of_node(node)}"


_REMEDY = {
    "uses": "Write `with: {persist-credentials: false}`.",
    "run": "Use actions/checkout with `persist-credentials: false`, or hand the token to the one "
    "command that needs it, in its environment.",
}
_TOKEN = re.compile(r"://[^/@\s]*\$(\{\{.*?\}\}|[^/@\s]*)@")
_KEEPS = frozenset({"clone", "config", "remote", "submodule"})


def _leaving(
    document: Document, steps: tuple[Node, ...], documents: Mapping[str, Document], depth: int
) -> Iterator[tuple[Document, Node, str, str]]:
    """Each step that leaves a token, with the key that says so and what it leaves."""
    for step in steps:
        if text_of_node(step.get("uses")).lower().startswith("actions/checkout@"):
            if _persists(step):
                yield document, step, "uses", "the token of actions/checkout"
            continue
        if _keeps_token(text_of_node(step.get("run"))):
            yield document, step, "run", "a token in the configuration of git"
        action = action_of(step, documents)
        runs = action.root.get("runs") if action is not None else None
        if action is not None and runs is not None and depth < MAX_ACTIONS:
            yield from _leaving(action, steps_of(runs), documents, depth + 1)


def _persists(checkout: Node) -> bool:
    node = checkout.get("with", "persist-credentials")
    values = spread(value_of(node, {})) if node is not None else (True,)
    return any(text_of(value).lower() != "false" for value in values)


def _keeps_token(script: str) -> bool:
    """Whether git writes a token into its configuration: in an address, or as a header."""
    variables: dict[str, str] = {}
    for command in commands(script):
        variables.update(command.assigned)
        words = [word.text for word in command.words]
        if words[:1] != ["git"] or not _KEEPS.intersection(words):
            continue
        read = re.findall(r"\$\{?(\w+)", " ".join(words))
        text = " ".join((*words, *(variables.get(name, "") for name in read)))
        header = "config" in words and "extraheader" in text.lower() and "$" in text
        if header or _TOKEN.search(text):
            return True
    return False


CARELESS_RUNNER_JOB = WorkflowRule(
    id="WF109",
    name="careless-runner-job",
    summary="A self-hosted job has no time limit that makes sense, or leaves a token behind.",
    reason="A machine of ours outlives the job: a job that hangs holds it for six hours, and a "
    "token in `.git/config` can be read by whatever runs in the job, or after it.",
    bad="jobs:\n  gpu:\n    runs-on: 1-gpu-5090\n    steps:\n      - uses: actions/checkout@v5",
    good="on: push\n"
    "jobs:\n"
    "  gpu:\n"
    "    runs-on: 1-gpu-5090\n"
    "    timeout-minutes: 30\n"
    "    steps:\n"
    "      - uses: actions/checkout@v5\n"
    "        with: {persist-credentials: false}",
    check=careless_runner_job,
)

RULES = (CARELESS_RUNNER_JOB,)
