"""The text of the workflow and of the gate's settings, for a proposal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.adopt.jobs import GATE, job_names, runs_here
from runci.adopt.propose import Proposal, Suite
from runci.adopt.taxonomy_text import CPU_LABEL, minutes
from runci.config.gate import RUN_LABEL, Labels
from runci.config.taxonomy import MARGIN_MINUTES
from runci.core.registration import output_name
from runci.text.yaml import quoted, scalar

WORKFLOW_LABELS = (Labels().run, Labels().bypass_maintenance)  # that the gate knows
ANSWERS = ("allowed", "outcome")
CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97"
NOTHING, FINISH = "nothing to test", "finish"  # names of the check
# No owner has a dot in its name: until somebody fills it in, every job fails.
NO_ACTION = f"OWNER.invalid/runci@{'0' * 40}"
ASKS = "{actions: read, contents: read, issues: read, pull-requests: read}"  # what the gate reads

PERMISSIONS_TEXT = """\
# People without write access whose pull requests, from branches of this repository, may use GPUs.
# Only the file on the default branch counts. `id` is the number at
# https://api.github.com/users/LOGIN; a login can change hands. Like this:
#
#   - {login: octocat, id: 583231, cooldown_minutes: 60, because: wrote most of the kernel tests}
#
# Labels of other names, which have to stand in the workflow, too: labels: {run: gpu-ci}
version: 1
people: []
"""
STATUS_TEXT = """\
# Whether pull requests may use GPUs now. Only the file on the default branch counts.
# With `paused: true` give a `reason:`, a sentence that every contributor is shown.
version: 1
paused: false
"""


def needs_gate(proposal: Proposal) -> bool:
    """Whether a job of the workflow is on a machine that is not GitHub's."""
    return any(suite.machine is not None for suite in runs_here(proposal))


def workflow_text(proposal: Proposal, branch: str, action: str) -> str:
    """The whole workflow; of at most 80 lines where up to four suites run in it.

    `action` is OWNER/NAME@COMMIT.
    """
    suites, gate, jobs = runs_here(proposal), needs_gate(proposal), job_names(proposal)
    lines = [*_head(branch, gate), "jobs:", *_plan(action, gate)]
    if gate:
        lines += _gate(action)
    for suite in suites:
        lines += _tests(suite, jobs[suite.key], action)
    if suites:
        lines += _finish([*jobs.values()], action, gate, branch)
    return "".join(f"{line}\n" for line in lines)


def _head(branch: str, gate: bool) -> Iterator[str]:
    starts = f" GPU jobs start by the label {RUN_LABEL}, or a push." if gate else ""
    yield f"# Plans a change's tests, runs them in shards, fails unless all of them ran.{starts}"
    yield "name: runci"
    yield "on:"
    labels = ", labeled, unlabeled" if gate else ""
    types = f"opened, synchronize, reopened, ready_for_review, edited{labels}"
    yield f"  pull_request: {{types: [{types}]}}"
    yield f"  push: {{branches: [{quoted(branch)}]}}"
    yield "permissions: {}"
    yield "concurrency: # what changes nothing of the tests stands alone; what does ends a run"
    yield "  group: >-"
    number = _plain("github.event.pull_request.number || github.run_id")
    yield from _beside(f"    runci-{number}-${{{{ (", gate, ") && github.run_id || 'tests' }}")
    ends = """contains(fromJSON('["synchronize", "edited", "unlabeled"]'), github.event.action)"""
    granted = f" || github.event.label.name == '{RUN_LABEL}'" if gate else ""
    yield f"  cancel-in-progress: {_plain(ends + granted)}"


def _beside(before: str, gate: bool, after: str) -> Iterator[str]:
    """Whether an event neither changes the commit or its base, nor grants or takes back."""
    edited = f"{before}github.event.action == 'edited' && !github.event.changes.base"
    if not gate:
        yield edited + after
        return
    yield f"{edited} ||"
    indent = " " * (len(before) - len(before.lstrip()))
    ours = f"[{', '.join(map(quoted, WORKFLOW_LABELS))}]"
    named = f"contains(fromJSON('{ours}'), github.event.label.name)"
    yield f"{indent}github.event.label && !{named}{after}"


def _plan(action: str, gate: bool) -> Iterator[str]:
    yield "  plan:"
    if gate:
        yield f"    needs: {GATE}"
        yield f"    if: \"!cancelled() && needs.{GATE}.outputs.outcome != 'ignore'\""
    yield f"    runs-on: {CPU_LABEL}"
    yield "    permissions: {contents: read}"
    yield f"    outputs: {{suites: {_value('steps.plan.outputs.suites')}}}"
    yield "    steps:"
    yield f"      - {{id: plan, uses: {action}, with: {{command: plan}}}}"
    yield f"      - {{uses: {action}, with: {{command: check}}}}"


def _gate(action: str) -> Iterator[str]:
    yield f"  {GATE}: # with nothing of the pull request on its machine"
    yield f"    runs-on: {CPU_LABEL}"
    yield f"    permissions: {ASKS}"
    outputs = ", ".join(f"{one}: {_value(f'steps.gate.outputs.{one}')}" for one in ANSWERS)
    yield f"    outputs: {{{outputs}}}"
    yield f"    steps: [{{id: gate, uses: {action}, with: {{command: gate}}}}]"


def _tests(suite: Suite, job: str, action: str) -> Iterator[str]:
    planned = f"fromJSON(fromJSON(needs.plan.outputs.suites).{output_name(*suite.key)})"
    asks = f"      - {{name: Ask the gate again, uses: {action}, with: {{command: gate}}}}"
    yield f"  {scalar(job)}:"
    if suite.machine is None:
        yield "    needs: plan"
        yield f"    if: \"!cancelled() && needs.plan.result == 'success' && {planned}.size > 0\""
        yield f"    runs-on: {CPU_LABEL}"
    else:
        yield f"    needs: [plan, {GATE}]"
        yield f"    if: needs.{GATE}.outputs.allowed == 'true' && {planned}.size > 0"
        yield f"    runs-on: {suite.machine.runs_on}"
    yield f"    timeout-minutes: {minutes(suite) + MARGIN_MINUTES}"
    yield f"    permissions: {ASKS if suite.machine else '{contents: read}'}"
    shards = _value(f"{planned}.shards")
    yield f"    strategy: {{fail-fast: false, matrix: {{shard: {shards}}}}}"
    yield "    steps: # before the last, install what the tests need: - run: pip install -e ."
    if suite.machine is not None:
        yield asks
    yield f"      - {{uses: {CHECKOUT}, with: {{persist-credentials: false}}}} # v7.0.1"
    if suite.machine is None:
        yield f'      - {{uses: {PYTHON}, with: {{python-version: "3.12"}}}} # v7.0.0'
    given = f"command: run, suite: {scalar(suite.name)}, shard: {_value('matrix.shard')}"
    yield f"      - {{uses: {action}, with: {{{given}}}}}"


def _finish(names: Sequence[str], action: str, gate: bool, branch: str) -> Iterator[str]:
    before = ["plan", *([GATE] if gate else []), *map(scalar, names)]
    yield "  finish: # the check to require before a merge; what tests less has another name"
    yield "    name: >-"
    start = "      ${{ ("
    if gate:  # what the gate calls its labels is not known here
        start += f"needs.{GATE}.outputs.outcome == 'ignore' || "
    yield from _beside(start, gate, f") && '{NOTHING}' ||")
    # A check stands at a commit, which another pull request can bring into another branch.
    other = f"github.base_ref && github.base_ref != {_text(branch)}"
    yield f"      {other} && format('{FINISH} ({{0}})', github.base_ref) || '{FINISH}' }}}}"
    yield f"    needs: [{', '.join(before)}]"
    yield "    if: always()"
    yield f"    runs-on: {CPU_LABEL}"
    yield "    permissions: {actions: read, contents: read}"
    skip = quoted(",".join(names))
    given = f"command: finish, needs: {_value('toJSON(needs)')}, may-skip: {skip}"
    if gate:
        allowed = _value(f"needs.{GATE}.outputs.allowed")
        heard = f"if: needs.{GATE}.outputs.outcome != 'ignore'"
        given = f"{given}, may-fail: {GATE}, allowed: {allowed}"
        yield f"    steps: [{{{heard}, uses: {action}, with: {{{given}}}}}]"
    else:
        yield "    # No gate is asked: whoever reviews a change of runci.yml decides."
        yield f'    steps: [{{uses: {action}, with: {{{given}, allowed: "true"}}}}]'


def _text(value: str) -> str:
    """A text in an expression."""
    return "'" + value.replace("'", "''") + "'"


def _plain(expression: str) -> str:
    return f"${{{{ {expression} }}}}"


def _value(expression: str) -> str:
    """An expression that a mapping in braces can hold."""
    return quoted(_plain(expression))
