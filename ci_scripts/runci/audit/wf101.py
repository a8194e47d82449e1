"""WF101: a job away from GitHub's machines that a stranger can start without the gate."""

from __future__ import annotations

from collections.abc import Iterator

from runci.audit.explore import Start, starts
from runci.audit.model import Audit, WorkflowRule, key_span
from runci.audit.runners import shown
from runci.finding import Finding
from runci.source import at
from runci.workflows.model import text_of_node

MAX_SHOWN = 8  # values of an assignment in one message


def check(audit: Audit) -> Iterator[Finding]:
    """One finding at each such job, with the first assignment that starts it."""
    for broken in audit.broken:
        message = f"this file cannot be used, so nothing is proven of it: {broken.message}"
        yield Finding(broken.path, at(broken.line), "WF101", message, "Mend the file.", broken.path)
    ways: dict[tuple[str, str], list[Start]] = {}
    for start in starts(audit.documents, audit.gates, audit.hosted):
        ways.setdefault((start.document.path, start.job), []).append(start)
    for (path, job), found in ways.items():
        first = min(found, key=lambda start: start.needs_cancelling)
        where = key_span(first.node, "runs-on" if first.runs_on is not None else "uses")
        yield Finding(
            path,
            where,
            "WF101",
            _message(first, sorted({start.event for start in found})),
            "Let the job `needs` the gate and start only on "
            f"`needs.GATE.outputs.{audit.gates.output} == 'true'`, or run it on GitHub's machines.",
            key=job,
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


RULE = WorkflowRule(
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
    check=check,
)
