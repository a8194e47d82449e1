"""The text of the workflow and of the gate's settings, for a proposal. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from runci.adopt.propose import Proposal, Suite
from runci.adopt.taxonomy_text import CPU_LABEL, minutes
from runci.config.gate import RUN_LABEL

WORKFLOW_LABELS = (RUN_LABEL, "bypass-maintenance")  # that the gate knows
GATE = "call-gate"  # no job is called gate: `runci ... gate` in a script would be one
MARGIN_MINUTES = 15  # for what a job does besides its tests
CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97"
UPLOAD = "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f"
DOWNLOAD = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c"
# No name resolves below .invalid: until somebody fills it in, every job fails.
SOURCE = "runci[github,run] @ git+https://runci.invalid/OWNER/runci@REVISION"

PERMISSIONS_TEXT = """\
# People without write access whose pull requests, from branches of this repository, may use GPUs.
# Only the file on the default branch counts. `id` is the number at
# https://api.github.com/users/LOGIN; a login can change hands. Like this:
#
#   - {login: octocat, id: 583231, cooldown_minutes: 60, because: wrote most of the kernel tests}
version: 1
people: []
"""
STATUS_TEXT = """\
# Whether pull requests may use GPUs now. Only the file on the default branch counts.
# With `paused: true` give a `reason:`, a sentence that every contributor is shown.
version: 1
paused: false
"""


def runs_here(proposal: Proposal) -> tuple[Suite, ...]:
    """The suites that the workflow runs."""
    return tuple(suite for suite in proposal.suites if not suite.run_by)


def needs_gate(proposal: Proposal) -> bool:
    """Whether a job of the workflow is on a machine that is not GitHub's."""
    return any(suite.machine is not None for suite in runs_here(proposal))


def workflow_text(proposal: Proposal, branch: str) -> str:
    """The whole workflow; of at most 80 lines where up to three suites run in it."""
    suites = runs_here(proposal)
    lines = [*_head(branch, needs_gate(proposal)), "jobs:", *_plan(suites)]
    if needs_gate(proposal):
        lines += _gate()
    for suite in suites:
        lines += _tests(suite)
    if suites:
        lines += _finish(suites, needs_gate(proposal))
    return "".join(f"{line}\n" for line in lines)


def _head(branch: str, gate: bool) -> Iterator[str]:
    yield "# Plans the tests of a change, runs them in shards, and fails unless all of them ran."
    if gate:
        yield f"# GPU jobs start when the gate says yes: the label {RUN_LABEL}, or a push."
    yield "name: runci"
    yield "on:"
    yield "  pull_request: {types: [opened, synchronize, reopened, labeled]}"
    yield f"  push: {{branches: [{json.dumps(branch)}]}}"
    yield "permissions: {}"
    yield "# No package index has runci: put the repository and the commit that you use here."
    yield f'env: {{RUNCI: "{SOURCE}"}}'


def _plan(suites: Sequence[Suite]) -> Iterator[str]:
    keys = (f"{s.name}: {_value(f'steps.plan.outputs.{s.backend.value}_{s.name}')}" for s in suites)
    yield "  plan:"
    yield f"    runs-on: {CPU_LABEL}"
    yield "    permissions: {contents: read}"
    if suites:
        yield f"    outputs: {{{', '.join(keys)}}}"
    yield "    steps:"
    yield _checkout("fetch-depth: 2, ")
    yield '      - run: pipx install "$RUNCI" && runci check --format github'
    yield "      - id: plan"
    what = "github.event_name == 'pull_request' && '--base=HEAD^1' || '--all'"
    yield f"        env: {{WHAT: {_value(what)}}}"
    into = '-o plan.json --format github >> "$GITHUB_OUTPUT"'
    yield f'        run: runci plan "$WHAT" --allow-empty {into}'
    if suites:
        yield f"      - {{uses: {UPLOAD}, with: {{name: plan, path: plan.json}}}} # v7.0.0"


def _gate() -> Iterator[str]:
    yield f"  {GATE}: # with nothing of the pull request on its machine"
    yield f"    runs-on: {CPU_LABEL}"
    yield "    permissions: {actions: read, contents: read, issues: read, pull-requests: read}"
    yield f"    outputs: {{allowed: {_value('steps.gate.outputs.allowed')}}}"
    yield "    steps:"
    yield '      - run: pipx install "$RUNCI"'
    given = f"{{GITHUB_TOKEN: {_value('github.token')}}}"
    yield f"      - {{id: gate, run: runci gate --ignore-is-ok, env: {given}}}"


def _tests(suite: Suite) -> Iterator[str]:
    planned = f"fromJSON(needs.plan.outputs.{suite.name})"
    yield f"  {suite.name}:"
    if suite.machine is None:
        yield "    needs: plan"
        yield f"    if: {planned}.size > 0"
        yield f"    runs-on: {CPU_LABEL}"
    else:
        yield f"    needs: [plan, {GATE}]"
        yield f"    if: needs.{GATE}.outputs.allowed == 'true' && {planned}.size > 0"
        yield f"    runs-on: {suite.machine.runs_on}"
    yield f"    timeout-minutes: {minutes(suite) + MARGIN_MINUTES}"
    yield "    permissions: {contents: read}"
    shards = _value(f"{planned}.shards")
    yield f"    strategy: {{fail-fast: false, matrix: {{shard: {shards}}}}}"
    yield "    steps:"
    yield _checkout()
    yield f"      - {{uses: {DOWNLOAD}, with: {{name: plan}}}} # v8.0.1"
    if suite.machine is None:
        yield f'      - {{uses: {PYTHON}, with: {{python-version: "3.12"}}}} # v7.0.0'
    yield '      - run: pip install "$RUNCI" # and what the tests need, such as -e .'
    command = f'runci run --plan plan.json --suite {suite.name} --shard "$SHARD" --results results'
    shard = _value("matrix.shard")
    yield f"      - {{run: {command}, env: {{SHARD: {shard}}}}}"
    kept = f"{{name: {_value('matrix.shard', 'results-')}, path: results, overwrite: true}}"
    yield f'      - {{if: "!cancelled()", uses: {UPLOAD}, with: {kept}}} # v7.0.0'


def _finish(suites: Sequence[Suite], gate: bool) -> Iterator[str]:
    names = [suite.name for suite in suites]
    before = ["plan", *([GATE] if gate else []), *names]
    yield "  finish: # the check to require before a merge"
    yield f"    needs: [{', '.join(before)}]"
    yield "    if: always()"
    yield f"    runs-on: {CPU_LABEL}"
    yield "    permissions: {contents: read}"
    yield "    steps:"
    yield _checkout()
    yield f"      - {{uses: {DOWNLOAD}, with: {{name: plan}}}} # v8.0.1"
    yield f"      - {{uses: {DOWNLOAD}, with: {{pattern: results-*, path: results}}}} # v8.0.1"
    yield '      - run: mkdir -p results && pipx install "$RUNCI"'
    may_fail = f" --may-fail {GATE}" if gate else ""
    needs = f"runci needs --may-skip {','.join(names)}{may_fail}"
    yield f"      - run: {needs} && runci verify plan.json results --allow-empty"
    yield f"        env: {{NEEDS: {_value('toJSON(needs)')}}}"


def _checkout(more: str = "") -> str:
    return f"      - {{uses: {CHECKOUT}, with: {{{more}persist-credentials: false}}}} # v7.0.1"


def _value(expression: str, before: str = "") -> str:
    """An expression that a mapping in braces can hold."""
    return f'"{before}${{{{ {expression} }}}}"'
