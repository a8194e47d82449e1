"""What a checkout takes where its `ref` is empty, and calls that ask for more than they have."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.checks.wf import check
from runci.checks.wf.audit import read_audit
from runci.config.taxonomy import Taxonomy

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FOLDER = ".github/workflows/"


def found(rule: str, **files: str) -> list[tuple[str, int]]:
    """The path and line of each finding; `a` is a.yml."""
    read = {f"{FOLDER}{name}.yml": text.encode() for name, text in files.items()}
    findings = check(read_audit(read, Taxonomy("runci.yml", ())), frozenset({rule}))
    return [(one.path.removeprefix(FOLDER), one.line) for one in findings]


JOB = """\
jobs:
  test:
    runs-on: {runs_on}
    {job}
    steps:
      - {{{steps}}}
"""
REF = 'uses: actions/checkout@v5, with: {{ref: "{}"}}'
ASK = "id: gate, run: runci gate"
THEN_ASK = f"}}\n      - {{{ASK}"


@pytest.mark.parametrize(
    ("on", "runs_on", "step", "empty"),
    [
        ("pull_request", "gpu", REF.format("${{ vars.REF }}"), True),
        ("pull_request", "gpu", REF.format("${{ secrets.REF }}"), True),
        ("pull_request", "gpu", REF.format("${{ job.workflow_sha }}"), True),
        ("pull_request", "gpu", REF.format("${{ vars.REF || vars.OTHER }}"), True),
        ("pull_request", "gpu",
         "uses: actions/checkout@v5, with: {repository: '${{ job.workflow_repository }}'}", True),
        ("pull_request", "gpu", "uses: Actions/Checkout@v5, with: {Ref: '${{ vars.R }}'}", True),
        ("pull_request", "gpu", REF.format("${{ vars.REF }} "), True),
        ("pull_request_review", "gpu", REF.format("${{ vars.REF }}"), True),
        # Where it is never empty, where GitHub's default is ours, and where nothing is at stake.
        ("pull_request", "gpu", REF.format("${{ vars.REF || 'main' }}"), False),
        ("pull_request", "gpu", REF.format("v${{ vars.REF }}"), False),
        ("pull_request", "gpu", REF.format("main"), False),
        ("pull_request", "gpu", REF.format(""), False),
        ("pull_request", "gpu", REF.format("${{ github.event.pull_request.head.sha }}"), False),
        ("pull_request", "gpu", REF.format("${{ github.head_ref }}"), False),
        ("pull_request", "gpu", REF.format("${{ github.event.inputs.ref }}"), False),
        ("pull_request", "gpu", REF.format("${{ inputs.ref }}"), False),
        ("pull_request", "gpu", REF.format("${{ inputs.n && vars.REF || '' }}"), False),
        ("pull_request", "gpu",
         REF.format("${{ github.event_name == 'pull_request' && github.sha || inputs.t }}"), False),
        ("pull_request", "gpu", REF.format("${{ needs.plan.outputs.ref }}"), False),
        ("pull_request", "gpu", REF.format("${{ vars. }}"), False),
        ("pull_request", "ubuntu-latest", REF.format("${{ vars.REF }}"), False),
        ("push", "gpu", REF.format("${{ vars.REF }}"), False),
        ("pull_request_target", "gpu", REF.format("${{ vars.REF }}"), False),
        ("pull_request", "gpu", "uses: o/other@v5, with: {ref: '${{ vars.REF }}'}", False),
        ("pull_request", "gpu", f"if: github.event_name == 'push', {REF.format('${{ vars.R }}')}",
         False),
        # Before a gate anything that is empty counts.
        ("pull_request", "ubuntu-latest", f"{REF.format('${{ vars.R }}')}{THEN_ASK}",
         True),
        ("pull_request", "ubuntu-latest", f"{REF.format('${{ inputs.r }}')}{THEN_ASK}",
         True),
        ("pull_request", "ubuntu-latest", f"{REF.format(' ${{ vars.R }}')}{THEN_ASK}",
         True),
        ("pull_request", "ubuntu-latest", f"{REF.format('main')}{THEN_ASK}", False),
        ("pull_request", "ubuntu-latest", f"{ASK}}}\n      - {{{REF.format('${{ vars.R }}')}",
         False),
    ],
)  # fmt: skip
def test_a_checkout_that_can_be_empty(on: str, runs_on: str, step: str, empty: bool) -> None:
    text = f"on: {on}\n" + JOB.format(runs_on=runs_on, job="env: {}", steps=step)
    assert bool(found("WF112", a=text)) is empty


@pytest.mark.parametrize(
    ("declared", "given", "empty"),
    [
        ("type: string", None, True),
        ("{type: string, required: false}", None, True),
        ("{type: string, default: main}", None, False),
        ("{type: string, default: ''}", None, False),  # somebody says what it is
        ("{type: string, required: true}", None, False),
        ("type: string", "main", False),
        ("type: string", "${{ github.sha }}", False),
        ("type: string", "${{ inputs.head_sha || github.sha }}", False),
        ("type: string", "", False),  # always: the default, written by the caller
    ],
)
def test_an_input_that_a_caller_leaves_out(declared: str, given: str | None, empty: bool) -> None:
    called = f"on: {{workflow_call: {{inputs: {{ref: {declared}}}}}}}\n".replace(
        "{ref: type: string}", "{ref: {type: string}}"
    ) + JOB.format(runs_on="gpu", job="env: {}", steps=REF.format("${{ inputs.ref }}"))
    caller = "on: pull_request\njobs:\n  call:\n    uses: ./.github/workflows/b.yml\n"
    if given is None:
        assert bool(found("WF112", b=called)) is empty
    else:
        caller += f'    with: {{ref: "{given}"}}\n'
    assert bool(found("WF112", a=caller, b=called)) is empty


@pytest.mark.parametrize(
    ("on", "given", "empty"),
    [
        # Where strangers start no caller, what is empty is the branch's own commit.
        ("[schedule, workflow_dispatch]", "${{ inputs.ref }}", False),
        ("push", None, False),
        ("issue_comment", None, False),
        ("pull_request_target", None, False),
        ("[push, pull_request]", None, True),
        ("pull_request_review", None, True),
        ("workflow_call", None, True),
        # An event has no inputs: what depends on them is always empty, or never.
        ("pull_request", "${{ inputs.b != 'none' && inputs.b || '' }}", False),
        ("pull_request", "${{ inputs.b || 'main' }}", False),
        ("pull_request", "${{ vars.B }}", True),
        ("[workflow_call, pull_request]", "${{ inputs.b || '' }}", False),
    ],
)
def test_a_call_is_of_its_callers_events(on: str, given: str | None, empty: bool) -> None:
    called = "on: {workflow_call: {inputs: {ref: {type: string}}}}\n"
    called += JOB.format(runs_on="gpu", job="env: {}", steps=REF.format("${{ inputs.ref }}"))
    caller = f"on: {on}\njobs:\n  call:\n    uses: ./.github/workflows/b.yml\n"
    if given is not None:
        caller += f'    with: {{ref: "{given}"}}\n'
    assert bool(found("WF112", a=caller, b=called)) is empty
    # Also through a workflow between.
    between = "on: {workflow_call: {inputs: {ref: {type: string}}}}\njobs:\n  call:\n"
    between += "    uses: ./.github/workflows/b.yml\n    with: {ref: '${{ inputs.ref }}'}\n"
    above = caller.replace("b.yml", "c.yml")
    if given is None:
        assert bool(found("WF112", a=above, b=called, c=between)) is empty


CALLED = """\
on: workflow_call
permissions: {contents: read}
jobs:
  one: {runs-on: ubuntu-latest, steps: []}
  two:
    {permissions}
    runs-on: ubuntu-latest
    steps: []
"""
CALLER = """\
on: pull_request
{workflow}
jobs:
  call:
    uses: ./.github/workflows/b.yml
    {job}
"""
READS = "permissions: {contents: read}"


@pytest.mark.parametrize(
    ("workflow", "job", "called", "line"),
    [
        (READS, "", "permissions: {actions: read}", 5),
        ("permissions: {}", READS, "permissions: {contents: write}", 6),
        ("permissions: {}", "permissions: read-all", "permissions: {contents: write}", 6),
        (READS, "permissions: {}", "", 6),
        (READS, "", "permissions: read-all", 5),
        (READS, "permissions: read-all", "permissions: write-all", 6),
        (READS, "", "", None),
        (READS, "permissions: write-all", "permissions: {actions: write}", None),
        ("permissions: read-all", "", "permissions: {actions: read, contents: none}", None),
        (READS, "", "permissions: {}", None),
        ("", "", "permissions: {actions: write}", None),  # the repository's setting decides
        ("", READS, "permissions: {actions: write}", 6),
    ],
)
def test_a_called_workflow_that_asks_for_more(
    workflow: str, job: str, called: str, line: int | None
) -> None:
    a = CALLER.replace("{workflow}", workflow).replace("{job}", job)
    b = CALLED.replace("{permissions}", called)
    assert found("WF113", a=a, b=b) == ([("a.yml", line)] if line else [])


def test_what_it_writes_for_all_its_jobs_counts_where_each_has_its_own() -> None:
    own = "on: workflow_call\npermissions: {permissions}\njobs: {x: {permissions: {}, steps: []}}\n"
    a = CALLER.replace("{workflow}", READS).replace("{job}", "")
    for whole, line in (("write-all", 5), ("{actions: read}", 5), ("{contents: read}", None)):
        b = own.replace("{permissions}", whole)
        assert found("WF113", a=a, b=b) == ([("a.yml", line)] if line else [])


def test_calls_below_calls_have_no_more() -> None:
    middle = "on: workflow_call\njobs: {m: {uses: ./.github/workflows/c.yml}}\n"
    a = CALLER.replace("{workflow}", READS).replace("{job}", "")
    c = CALLED.replace("{permissions}", "permissions: {issues: write}")
    assert found("WF113", a=a, b=middle, c=c) == [("a.yml", 5)]
    circle = middle.replace("c.yml", "b.yml")
    assert found("WF113", a=a, b=circle) == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
