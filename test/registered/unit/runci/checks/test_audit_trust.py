"""A gate counts only where its program is ours: what the steps before it may do, on which event."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.checks.wf import check as check_audit
from runci.checks.wf.audit import read_audit
from runci.config.taxonomy import Taxonomy, Workflows

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PATH = ".github/workflows/a.yml"
TEXT = """\
on: {event}
jobs:
  gate:
    runs-on: ubuntu-latest
    {job}
    outputs: {{allowed: "${{{{ steps.gate.outputs.allowed }}}}"}}
    steps:
{steps}
  gpu: {{needs: gate, runs-on: gpu, if: needs.gate.outputs.allowed == 'true', timeout-minutes: 5}}
"""
ACTIONS = {
    ".github/actions/gate/action.yml": """\
outputs: {allowed: {value: "${{ steps.ask.outputs.allowed }}"}}
runs:
  using: composite
  steps: [{run: pip install runci, shell: bash}, {id: ask, run: runci gate, shell: bash}]
""",
    ".github/actions/install/action.yml": """\
inputs: {what: {default: runci}, token: {default: "${{ github.token }}"}}
runs:
  using: composite
  steps: [{run: 'pip install "$WHAT"', env: {WHAT: "${{ inputs.what }}"}, shell: bash}]
""",
}

THEIRS = "uses: actions/checkout@v5"
OURS = "uses: actions/checkout@v5, with: {ref: '${{ github.event.repository.default_branch }}'}"
BESIDE = "uses: actions/checkout@v5, with: {path: pr}"
ASK = "id: gate, run: runci gate"
MODULE = "id: gate, run: python -m runci gate"
ACTION = "id: gate, uses: ./.github/actions/gate"


def found(steps: tuple[str, ...], event: str = "pull_request", job: str = "env: {}") -> set[str]:
    lines = "\n".join(f"      - {{{step}}}" for step in steps)
    files = {PATH: TEXT.format(event=event, job=job, steps=lines), **ACTIONS}
    taxonomy = Taxonomy(
        "suites.yml", (), workflows=Workflows(gates=("runci gate", "python ci/gate.py"))
    )
    seen = read_audit({path: text.encode() for path, text in files.items()}, taxonomy)
    rules = {finding.rule for finding in check_audit(seen, frozenset({"WF101", "WF103"}))}
    assert rules in (set(), {"WF101", "WF103"})  # that it does not count, and why
    return rules


# Whose commit a checkout gives, by its event and what it names.
@pytest.mark.parametrize(
    ("event", "given", "ours"),
    [
        ("pull_request", "", False),
        ("pull_request_review", "", False),
        ("pull_request_target", "", True),
        ("issue_comment", "", True),
        ("workflow_run", "", True),
        ("something_new", "", False),
        ("pull_request", "ref: ''", False),
        ("pull_request", "ref: ' '", False),
        ("pull_request", "ref: '${{ vars.GATE_REF }} '", False),
        ("pull_request", "ref: main", True),
        ("pull_request", "ref: '${{ github.event.repository.default_branch }}'", True),
        ("pull_request", "ref: '${{ github.base_ref }}'", True),
        ("pull_request", "ref: '${{ github.event.pull_request.base.sha }}'", True),
        ("pull_request", "ref: '${{ github.event.pull_request.base.ref || ''main'' }}'", True),
        ("pull_request", "ref: '${{ vars.GATE_REF || ''main'' }}'", True),
        ("pull_request", "ref: '${{ vars.GATE_REF }}'", False),  # where nobody set it
        ("issue_comment", "ref: '${{ vars.GATE_REF }}'", True),
        ("pull_request", "ref: '${{ job.workflow_sha }}'", False),
        ("pull_request", "ref: '${{ github.sha }}'", False),
        ("issue_comment", "ref: '${{ github.sha }}'", True),
        ("pull_request", "ref: '${{ github.head_ref }}'", False),
        ("pull_request", "ref: '${{ github.base_ref || github.head_ref }}'", False),
        ("pull_request", "ref: 'refs/pull/${{ github.event.number }}/merge'", False),
        ("issue_comment", "ref: 'refs/pull/${{ github.event.issue.number }}/head'", False),
        ("workflow_run", "ref: '${{ github.event.workflow_run.head_sha }}'", False),
        ("pull_request_target", "ref: '${{ github.event.pull_request.head.sha }}'", False),
        ("pull_request", "ref: '${{ github.event.pull_request[''head''].ref }}'", False),
        ("pull_request", "ref: '${{ inputs.ref }}'", False),
        ("pull_request", "repository: o/tools", False),  # which may be this one
        ("pull_request", "repository: o/tools, ref: ' '", False),
        ("pull_request", "repository: o/tools, ref: main", True),
        (
            "pull_request",
            "repository: '${{ github.event.pull_request.head.repo.full_name }}'",
            False,
        ),
        ("pull_request", "repository: '${{ github.repository }}'", False),
        ("pull_request", "repository: '${{ github.repository }}', ref: main", True),
    ],
)
def test_whose_commit_is_checked_out(event: str, given: str, ours: bool) -> None:
    steps = (f"uses: actions/checkout@v5, with: {{{given}}}", ACTION)
    assert (found(steps, event) == set()) is ours


# The steps of a gate's job on a pull request: whether its answer counts.
@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ((ASK,), True),
        ((THEIRS, "run: pip install runci==1.2", ASK), True),
        ((THEIRS, "run: python -m pip install runci", ASK), False),
        ((BESIDE, "run: python -m pip install runci", ASK), True),
        ((OURS, "run: pip install .", ASK), True),
        ((OURS, ACTION), True),
        ((OURS, "run: make install", ASK), True),
        # The program itself.
        ((THEIRS, MODULE), False),
        ((OURS, MODULE), True),
        ((THEIRS, "id: gate, run: uv run runci gate"), False),
        ((THEIRS, "id: gate, run: .venv/bin/runci gate"), False),
        ((THEIRS, "id: gate, run: $GITHUB_WORKSPACE/bin/runci gate"), False),
        ((THEIRS, "id: gate, run: /opt/ci/bin/runci gate"), True),
        ((THEIRS, "id: gate, run: python ci/gate.py"), False),
        ((OURS, "id: gate, run: python ci/gate.py"), True),
        ((THEIRS, "id: gate, run: python /opt/ci/gate.py"), True),
        ((BESIDE, MODULE), True),
        ((BESIDE, MODULE + ", working-directory: pr"), False),
        ((BESIDE, MODULE + ", working-directory: './pr/x/..'"), False),
        ((BESIDE, MODULE + ", working-directory: '${{ github.head_ref }}'"), False),
        (
            ("uses: actions/checkout@v5, with: {path: runci}", MODULE),
            False,
        ),  # a package of that name
        # A checkout of ours takes the pull request's files away, unless it keeps them.
        ((THEIRS, OURS, ACTION), True),
        ((THEIRS, OURS[:-1] + ", clean: false}", ACTION), False),
        ((OURS, BESIDE, ACTION), True),
        ((OURS, "uses: actions/checkout@v5, with: {path: .github/actions}", ACTION), False),
        ((OURS, THEIRS, ACTION), False),
        ((THEIRS + ", if: github.event_name == 'push'", ACTION), True),
        ((THEIRS, ACTION.replace("./", "$/")), True),  # of the workflow's own commit, as this file
        # Installed or replaced from the checkout.
        ((THEIRS, "run: pip install .", ASK), False),
        ((THEIRS, "run: 'pip install -e .[dev]'", ASK), False),
        ((THEIRS, "run: pip install -r requirements.txt", ASK), False),
        ((THEIRS, "run: pip install --find-links wheels runci", ASK), False),
        ((THEIRS, "run: pip install ./runci", ASK), False),
        ((THEIRS, "run: pip install runci-1-py3-none-any.whl", ASK), False),
        ((THEIRS, "run: sudo apt-get install -y jq && pip install -q 'runci>=1,<2'", ASK), True),
        ((THEIRS, "run: env ./install", ASK), False),
        ((BESIDE, "run: pip install ./pr", ASK), False),
        ((BESIDE, "run: cd pr && make install", ASK), False),
        ((BESIDE, "run: make install, working-directory: pr", ASK), False),
        ((BESIDE, "run: make install", ASK), True),
        ((THEIRS, "run: sudo install bin/runci /usr/local/bin/runci", ASK), False),
        ((THEIRS, "run: cat bin/runci > /usr/local/bin/runci", ASK), False),
        ((THEIRS, "run: cat bin/runci | tee ~/.local/bin/runci", ASK), False),
        ((THEIRS, "run: npm ci", ASK), False),
        ((THEIRS, "run: 'source ci/env.sh'", ASK), False),
        ((THEIRS, "run: 'import ci', shell: python", ASK), False),
        ((THEIRS, "uses: o/retry@v1, with: {command: make install}", ASK), False),
        ((THEIRS, "uses: pre-commit/action@v3", ASK), False),
        ((OURS, "uses: pre-commit/action@v3", ASK), True),
        ((THEIRS, "uses: docker://alpine, with: {args: ./x}", ASK), False),
        ((THEIRS, "uses: actions/setup-python@v6", ASK), True),
        ((THEIRS, "uses: ./.github/actions/install", ASK), False),
        ((OURS, "uses: ./.github/actions/install", ASK), True),
        ((THEIRS, "run: 'git log -1; ls; cat VERSION >/dev/null'", ASK), True),
        ((THEIRS, "run: git log -1 > note.txt", ASK), False),  # where a link leads to
        (("run: 'cd /usr/local/bin; echo $GITHUB_HEAD_REF > runci'", ASK), False),
        ((THEIRS, "run: 'export PATH=bin:$PATH; pip install runci'", ASK), False),
        ((THEIRS, "run: pip install runci, env: {PIP_FIND_LINKS: wheels}", ASK), False),
        ((THEIRS, "run: pip install runci, env: {PIP_QUIET: '1'}", ASK), True),
        (("run: pip install runci, env: {PIP_INDEX_URL: '${{ vars.INDEX }}'}", ASK), True),
        (("run: pip install runci, env: {PIP_INDEX_URL: '${{ github.head_ref }}'}", ASK), False),
        (("uses: o/checkout-with-lfs@v1", ACTION), False),
        ((THEIRS, "run: 'jq .version package.json >> $GITHUB_OUTPUT'", ASK), True),
        # What decides which program later steps start.
        ((THEIRS, "run: 'echo $PWD/bin >> $GITHUB_PATH'", ASK), False),
        ((THEIRS, "run: 'echo BASH_ENV=./x | tee -a \"$GITHUB_ENV\"'", ASK), False),
        ((OURS, "run: 'echo $HOME/bin >> $GITHUB_PATH'", ASK), True),
        (("run: 'echo A=$GITHUB_HEAD_REF >> $GITHUB_ENV'", ASK), False),
        (
            (
                "env: {T: '${{ github.event.issue.title }}'}, run: 'echo T=$T >> $GITHUB_ENV'",
                ASK,
            ),
            False,
        ),
        (("env: {T: '${{ github.event.pull_request.title }}'}, run: echo $T", ASK), True),
        # Texts of the event.
        (("run: 'echo ${{ github.head_ref }}'", ASK), False),
        (("run: 'echo ${{ github.event.number }}'", ASK), True),
        (("run: 'echo ${{ toJSON(github) }}'", ASK), False),
        (("run: 'echo ${{ github[vars.WHAT] }}'", ASK), False),
        (("env: {T: '${{ github.actor }}'}, run: 'echo $T >x; cat x >>$GITHUB_ENV'", ASK), False),
        (("run: 'pip install runci==$V', env: {V: '${{ github.event.label.name }}'}", ASK), False),
        (("run: 'pip install runci==$V', env: {V: '${{ vars.RUNCI }}'}", ASK), True),
        (("run: 'V=$(jq -r .x $GITHUB_EVENT_PATH); pip install $V', shell: bash", ASK), False),
        (
            (OURS, "uses: ./.github/actions/install, with: {what: '${{ github.head_ref }}'}", ASK),
            False,
        ),
        # The pull request's files by another way.
        ((OURS, "run: 'git fetch origin pull/${{ github.event.number }}/head'", ASK), False),
        ((OURS, "run: git fetch origin && git checkout FETCH_HEAD", ASK), False),
        ((OURS, "run: 'gh pr checkout ${{ github.event.number }}'", ASK), False),
        ((OURS, "run: gh run download 1", ASK), False),
        ((OURS, "run: gh api repos/o/r/actions/artifacts/1/zip", ASK), False),
        ((OURS, "uses: actions/github-script@v8, with: {script: 'fetch(\"pull/1\")'}", ASK), False),
        (
            (
                "uses: actions/github-script@v8, with: "
                "{script: 'core.addPath(context.payload.label.name)'}",
                ASK,
            ),
            False,
        ),
        (("uses: actions/github-script@v8, with: {script: core.info(1)}", ASK), True),
        (("uses: actions/download-artifact@v5", ASK), False),
        (("uses: actions/cache@v5, with: {path: ~/.cache, key: x}", ASK), False),
        (("uses: actions/setup-python@v6, with: {cache: pip}", ASK), False),
        (("uses: actions/setup-python@v6, with: {python-version: 3}", ASK), True),
        # What comes after the answer changes it no more.
        ((ASK, THEIRS, "run: pip install ."), True),
        # Around the gate's step.
        ((ASK + ", env: {GITHUB_TOKEN: '${{ github.token }}'}",), True),
        ((ASK + ", env: {GITHUB_EVENT_PATH: e.json}",), False),
        ((ASK + ", env: {GITHUB_API_URL: 'http://x'}",), False),
        ((ASK + ", env: {https_proxy: 'http://x'}",), False),
        ((ASK + ", env: {SSL_CERT_FILE: ca.pem}",), False),
        ((ASK + ", env: {NODE_OPTIONS: '-r ./x'}",), False),
        ((ASK + ", env: {ACTIONS_ALLOW_UNSECURE_COMMANDS: 'true'}",), False),
    ],
)
def test_what_stands_before_the_gate(steps: tuple[str, ...], counts: bool) -> None:
    assert (found(steps) == set()) is counts


@pytest.mark.parametrize(
    ("job", "counts"),
    [
        ("container: python:3", True),
        ("container: {image: 'python:3'}", True),
        ("container: 'x:${{ vars.TAG }}'", True),
        ("container: 'x:${{ github.head_ref }}'", False),
        ("container: {image: '${{ github.event.label.name }}'}", False),
        ("env: {HTTPS_PROXY: 'http://x'}", False),
        ("env: {TITLE: '${{ github.event.pull_request.title }}'}", True),
    ],
)
def test_what_holds_for_the_whole_job(job: str, counts: bool) -> None:
    assert (found((ASK,), job=job) == set()) is counts


def test_a_finding_names_the_file_that_steers() -> None:
    steps = (THEIRS, "run: 'echo $PWD/bin >> $GITHUB_PATH'", ASK)
    lines = "\n".join(f"      - {{{step}}}" for step in steps)
    text = TEXT.format(event="pull_request", job="env: {}", steps=lines)
    seen = read_audit({PATH: text.encode()}, Taxonomy("suites.yml", ()))
    (found,) = check_audit(seen, frozenset({"WF103"}))
    assert (found.path, found.line) == (PATH, text[: text.index("run: 'echo")].count("\n") + 1)
    assert "GITHUB_PATH" in found.message


def test_only_events_of_strangers_matter() -> None:
    assert found((THEIRS, ACTION), "[push, workflow_dispatch]") == set()
    assert found((THEIRS, ACTION), "[push, pull_request]") != set()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
