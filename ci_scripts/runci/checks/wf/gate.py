"""Self-hosted jobs that a stranger can start without the gate, and gates that are weak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runci.checks.wf.audit import Audit, WorkflowRule, job_span, key_span
from runci.core.finding import Finding, Level
from runci.core.source import Span, at
from runci.read.yamlpos import Node
from runci.workflows.conditions import condition, stranger_context, stranger_events
from runci.workflows.evaluate import can_be
from runci.workflows.gates import Gates, is_plain_shell, steering
from runci.workflows.machine import Doubt
from runci.workflows.model import Document, action_of, called_by, needs_of, steps_of, text_of_node
from runci.workflows.outputs import MAX_ACTIONS
from runci.workflows.starts import Start, shown, starts
from runci.workflows.trust import doubts
from runci.workflows.values import Partial

MAX_SHOWN = 8  # values of an assignment in one message


def runner_without_gate(audit: Audit) -> Iterator[Finding]:
    """One finding at each such job, with the first assignment that starts it."""
    for broken in audit.broken:
        message = f"this file cannot be used, so nothing is proven of it: {broken.message}"
        yield Finding(broken.path, at(broken.line), "WF101", message, "Mend the file.", broken.path)
    ways: dict[tuple[str, str], list[Start]] = {}
    for start in starts(audit.documents, audit.gates, audit.hosted):
        ways.setdefault((start.document.path, start.job), []).append(start)
    for (path, job), found in ways.items():
        first = min(found, key=lambda start: (start.needs_rerun, start.needs_cancelling))
        where = key_span(first.node, "runs-on" if first.runs_on is not None else "uses")
        yield Finding(
            path,
            where,
            "WF101",
            _message(first, sorted({start.event for start in found})),
            _remedy(first, audit.gates.output),
            key=job,
            level=Level.NOTE if first.needs_rerun else Level.ERROR,
        )


def _remedy(start: Start, output: str) -> str:
    gate = f"Let the job `needs` the gate and start only on `needs.GATE.outputs.{output} == 'true'`"
    if start.runs_on is not None:
        return f"{gate}, or run it on GitHub's machines."
    return (
        f"{gate}; or, where you know that all of what it calls runs on GitHub's machines, say so "
        "beside it: `# runci: ignore[WF101] REASON`."
    )


def _message(start: Start, events: list[str]) -> str:
    if start.runs_on is None:
        uses = text_of_node(start.node.get("uses"))
        what = f"job {start.job!r} calls {uses}, which is not read and may use any runner: it"
    else:
        what = f"job {start.job!r} on {shown(start.node.get('runs-on'))}"
    through = f", called by {' > '.join(start.callers)}," if start.callers else ""
    why = [*start.why[:MAX_SHOWN], *(["…"] if len(start.why) > MAX_SHOWN else [])]
    reason = ", ".join(why) or "no condition stands in its way"
    return f"{what}{through} can start on {', '.join(events)} without the gate: {reason}"


RUNNER_WITHOUT_GATE = WorkflowRule(
    id="WF101",
    name="runner-without-gate",
    summary="A self-hosted job can start on a stranger's event although the gate did not say yes.",
    reason="Anybody may open a pull request or write a comment. Where that alone starts a job on "
    "a machine of ours, anybody's code runs there. The audit takes every gate to have said no or "
    "nothing, every job before it to have ended in any way that is then possible, and everything "
    "that it cannot know as both; the message is the assignment with which the job starts. "
    "`workflows.gates` in suites.yml says what a gate is, `workflows.hosted` which further labels "
    "are GitHub's.",
    bad="on: pull_request\n"
    "jobs:\n"
    "  gate:\n"
    "    uses: ./.github/workflows/pr-gate.yml\n"
    "  gpu:\n"
    "    needs: gate\n"
    "    if: always() && needs.gate.result != 'failure'  # skipped and cancelled, too\n"
    "    runs-on: 1-gpu-5090",
    good="on: pull_request\n"
    "jobs:\n"
    "  gate:\n"
    "    uses: ./.github/workflows/pr-gate.yml\n"
    "  gpu:\n"
    "    needs: gate\n"
    "    if: needs.gate.outputs.allowed == 'true'\n"
    "    runs-on: 1-gpu-5090",
    check=runner_without_gate,
)

_REMEDY = {
    "if": "Drop the `if:`: the gate itself knows what to ignore.",
    "needs": "Drop `needs:`: a gate that waits is skipped with what it waits for.",
    "continue-on-error": "Drop `continue-on-error`: who asks the gate must see it fail.",
    "shell": "Drop the shell: bash, as GitHub starts it, runs the gate and nothing else.",
    "env": "Drop the variable, or set it in the steps that need it.",
    "program": "Ask the gate before anything of the pull request is on the machine: check out "
    "`ref: ${{ github.event.repository.default_branch }}`, or install runci by name and version.",
    "uses": "Write the full commit behind the @, and its version as a comment.",
    "run": "Run the gate command alone in its step: what stands beside it can answer in its place.",
}


def weak_gate(audit: Audit) -> Iterator[Finding]:
    """One finding at each key that weakens a gate job, its step, or the call of it."""
    gates = audit.gates
    for document, job, node in audit.jobs():
        if _is_gate(node, audit.documents, gates) or _calls_gate(node, audit.documents, gates):
            for key, why in _weak(node):
                span = key_span(node, key) if key in node.keys else job_span(document, job)
                yield _finding(document, span, f"gate job {job!r} {why}", key)
        yield from _steps(document, steps_of(node), gates)
        if any(_asks(step, audit.documents, gates) for step in steps_of(node)):
            yield from _around(document, job, node)
    for doubt in sorted(set(_doubted(audit))):
        message = f"before the gate, or for it, the job uses {doubt.text}"
        found = audit.documents[doubt.path]
        yield _finding(found, at(doubt.line, doubt.column), message, "program")
    for document in audit.documents.values():
        runs = document.root.get("runs")
        if runs is not None:
            yield from _steps(document, steps_of(runs), gates)


def _doubted(audit: Audit) -> Iterator[Doubt]:
    """Why the programs that answer in the gates' place can be a stranger's, on any event."""
    for document, _, node in audit.jobs():
        called = ("pull_request",) if "workflow_call" in document.triggers else ()
        for event in (*stranger_events(document), *called):
            contexts = {"github": stranger_context(document, event), "inputs": Partial()}
            yield from doubts(document, node, contexts, audit.documents, audit.gates)


def _finding(document: Document, span: Span, message: str, key: str) -> Finding:
    return Finding(document.path, span, "WF103", message, _REMEDY[key], key=f"{message}:{key}")


def _asks(step: Node, documents: Mapping[str, Document], gates: Gates) -> bool:
    """Whether a step is the gate, or a local action with one."""
    action = action_of(step, documents)
    runs = action.root.get("runs") if action is not None else None
    return gates.mentions(step) or (runs is not None and _is_gate(runs, documents, gates, 1))


def _around(document: Document, job: str, node: Node) -> Iterator[Finding]:
    """What the job, or the whole workflow, sets for the gate's step, too."""
    for place, what in ((document.root, "the workflow"), (node, f"job {job!r}")):
        if not is_plain_shell(text_of_node(place.get("defaults", "run", "shell"))):
            span = key_span(place, "defaults")
            yield _finding(document, span, f"{what} starts the gate in a shell of its own", "shell")
        for name in steering(place):
            message = f"{what} sets {name}, which can put another program in the gate's place"
            yield _finding(document, key_span(place, "env"), message, "env")


def _steps(document: Document, steps: tuple[Node, ...], gates: Gates) -> Iterator[Finding]:
    for step in steps:
        if not gates.mentions(step):
            continue
        for key, why in _weak(step):
            yield _finding(document, key_span(step, key), f"the gate's step {why}", key)
        for name in steering(step):
            message = f"the gate's step sets {name}, which can put another program in its place"
            yield _finding(document, key_span(step, "env"), message, "env")
        if not gates.is_step(step) and (uses := text_of_node(step.get("uses"))):
            message = f"the gate's action {uses} has no commit: what its name stands for can change"
            yield _finding(document, key_span(step, "uses"), message, "uses")
        elif not gates.is_step(step):
            message = "the gate's step runs more than the gate"
            yield _finding(document, key_span(step, "run"), message, "run")


def _weak(node: Node) -> Iterator[tuple[str, str]]:
    written = node.get("if")
    found = condition(written)
    if written is not None and (found is None or can_be(False, found, {})):
        text = " ".join(text_of_node(written).split())
        yield "if", f"can be skipped: if: {text}"
    elif written is None and needs_of(node):
        yield "needs", f"is skipped when {', '.join(needs_of(node))} fails"
    if text_of_node(node.get("continue-on-error")) not in ("", "false"):
        yield "continue-on-error", "may fail without anybody noticing"


def _is_gate(node: Node, documents: Mapping[str, Document], gates: Gates, depth: int = 0) -> bool:
    """Whether a job's steps, also in local actions, hold a gate and a runner asks nothing first."""
    for step in steps_of(node):
        action = action_of(step, documents)
        runs = action.root.get("runs") if action is not None else None
        inside = runs is not None and depth < MAX_ACTIONS
        if gates.mentions(step) or (inside and _is_gate(runs or step, documents, gates, depth + 1)):
            # A job that asks again before its work is no gate for others.
            return depth > 0 or node.get("outputs") is not None or len(steps_of(node)) == 1
    return False


def _calls_gate(node: Node, documents: Mapping[str, Document], gates: Gates) -> bool:
    if gates.is_call(text_of_node(node.get("uses"))):
        return True
    called = called_by(node, documents)
    jobs = called.jobs.values() if called is not None else ()
    return bool(jobs) and all(_is_gate(job, documents, gates) for job in jobs)


WEAK_GATE = WorkflowRule(
    id="WF103",
    name="weak-gate",
    summary="The gate can be skipped, or its failure is tolerated.",
    reason="A skipped job counts as a success for whoever does not ask closely, and a check that "
    "is skipped is green. A gate therefore has no condition, waits for nothing, may not fail in "
    "silence, and stands alone in its step, in a plain shell and with nobody's `PATH`. Its program "
    "must be ours, too: where a pull request is checked out first, its own `./` action, "
    "`pip install .`, `python -m` or `GITHUB_PATH` would answer.",
    bad="on: pull_request\n"
    "jobs:\n"
    "  call-gate:\n"
    "    if: github.event_name == 'pull_request'\n"
    "    uses: ./.github/workflows/pr-gate.yml",
    good="on: pull_request\njobs:\n  call-gate:\n    uses: ./.github/workflows/pr-gate.yml",
    check=weak_gate,
)

RULES = (RUNNER_WITHOUT_GATE, WEAK_GATE)
