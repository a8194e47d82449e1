"""Each rule of the audit: what it finds, where, and what it leaves alone."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.checks.registry import rules_of
from runci.checks.wf import check as check_audit
from runci.checks.wf.audit import read_audit
from runci.cli import main
from runci.config.suites import load_taxonomy
from runci.core.finding import Finding, Level
from runci.read.yamlpos import load

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

AUDIT_RULES = rules_of("WF")

FIXTURES = Path(__file__).parents[4] / "fixtures/audit"
SUITES = (FIXTURES / "good/suites.yml").read_bytes()
FOLDER = ".github/workflows/"
RULESET = ".github/ruleset.json"
LANES = """\
on: [pull_request, push]
jobs:
  first: {runs-on: ubuntu-latest, steps: [{run: x}]}
  gpu: {needs: first, if: needs.first.outputs.x == 'true', runs-on: ubuntu-latest, steps: []}
  many: {strategy: {matrix: {n: [1, 2]}}, runs-on: ubuntu-latest, steps: [{run: x}]}
  alone: {strategy: {fail-fast: false}, runs-on: ubuntu-latest, steps: [{run: x}]}
  call: {uses: ./.github/workflows/pr-gate.yml}
  after: {needs: first, runs-on: ubuntu-latest, steps: [{run: x}]}
  own: {needs: first, if: github.event.label.name == 'x', name: "the ${{ github.job }}"}
  other: {needs: [first, gpu], if: success(), runs-on: ubuntu-latest, steps: [{run: x}]}
  finish:
    name: ${{ github.event.label.name == 'docs' && 'nothing' || 'finish' }}
    needs: [first, gpu]
    if: always()
    runs-on: ubuntu-latest
    steps: [{run: runci verify plan.json results}]
"""
GATE = FOLDER + "pr-gate.yml"
GATE_TEXT = """\
on: {workflow_call: {outputs: {allowed: {value: "${{ jobs.gate.outputs.allowed }}"}}}}
jobs:
  gate:
    runs-on: ubuntu-latest
    outputs: {allowed: "${{ steps.gate.outputs.allowed }}"}
    steps: [{id: gate, run: runci gate}]
"""


def findings(
    text: str,
    others: dict[str, str] | None = None,
    settings: str = "",
    rule: str = "",
    ruleset: str = "",
) -> list[Finding]:
    files = {FOLDER + "a.yml": text, GATE: GATE_TEXT, **(others or {})}
    taxonomy = load_taxonomy(
        SUITES.replace(b"required_checks: [pr-test-finish]", settings.encode() or b"hosted: [x]"),
        "suites.yml",
    )
    export = (RULESET, load(ruleset.encode(), RULESET)) if ruleset else None
    read = {p: textwrap.dedent(t).encode() for p, t in files.items()}
    seen = read_audit(read, taxonomy, ruleset=export)
    return check_audit(seen, frozenset({rule} if rule else {one.id for one in AUDIT_RULES}))


def lines(rule: str, text: str, **more: object) -> list[int]:
    found = findings(text, rule=rule, **more)  # type: ignore[arg-type]
    return [finding.line for finding in found if finding.path == FOLDER + "a.yml"]


@pytest.mark.parametrize("rule", AUDIT_RULES, ids=lambda rule: rule.id)
def test_examples(rule) -> None:
    others = (
        {FOLDER + "pr-test.yml": AUDIT_RULES[1].bad.split("\n", 1)[1]} if rule.id == "WF102" else {}
    )
    if rule.id == "WF113":
        asks = "    permissions: {actions: read}\n    runs-on"
        others = {GATE: GATE_TEXT.replace("    runs-on", asks)}
    if rule.id == "WF111":
        assert findings(LANES, rule=rule.id, ruleset=rule.bad)
        assert findings(LANES, rule=rule.id, ruleset=rule.good) == []
        return
    assert findings(rule.bad, others, rule=rule.id)
    assert findings(rule.good, others, rule=rule.id) == []


def test_the_registry_is_complete_and_sorted() -> None:
    ids = [rule.id for rule in AUDIT_RULES]
    assert ids == sorted(set(ids))
    for rule in AUDIT_RULES:
        assert all((rule.name, rule.summary, rule.reason, rule.bad, rule.good))


def export(*contexts: str, owners: bool = True, enforcement: str = "active") -> dict[str, Any]:
    checks = [{"context": name, "integration_id": 15368} for name in contexts]
    return {
        "enforcement": enforcement,
        "rules": [
            {"type": "pull_request", "parameters": {"require_code_owner_review": owners}},
            {"type": "required_status_checks", "parameters": {"required_status_checks": checks}},
        ],
    }


PROTECTION = {
    "required_status_checks": {"contexts": ["finish"], "checks": [{"context": "finish"}]},
    "required_pull_request_reviews": {"require_code_owner_reviews": True},
}


@pytest.mark.parametrize(
    ("ruleset", "keys"),
    [
        (export("finish"), []),
        (export("finish")["rules"], []),  # as GitHub gives the rules of a branch
        (PROTECTION, []),
        ({**PROTECTION, "required_status_checks": {"contexts": ["finish"]}}, []),
        (export("finish", "first"), []),  # always runs, and alone would prove nothing
        (export("first"), ["last"]),
        (export("finish", "gpu"), ["gpu"]),
        (export("finish", "after"), ["after"]),
        (export("finish", "the own"), ["the own"]),
        (export("finish", "many"), ["many"]),
        (export("finish", "many (1)"), ["many (1)"]),
        (export("finish", "call / gate"), ["call / gate"]),
        (export("finish", "Finish"), ["Finish"]),
        (export("other"), ["last", "other"]),
        (export(), ["none"]),
        (export("finish", owners=False), ["reviews"]),
        (export("finish", enforcement="evaluate"), ["enforcement"]),
        (export("finish", enforcement="disabled"), ["enforcement"]),
        ([], ["none", "reviews"]),
        ({}, ["none", "reviews"]),
        ({"rules": []}, ["none", "reviews"]),
        ({**PROTECTION, "required_status_checks": None}, ["none"]),
        ({**PROTECTION, "required_pull_request_reviews": {}}, ["reviews"]),
        ({**PROTECTION, "required_status_checks": {"contexts": ["gpu"]}}, ["gpu", "last"]),
    ],
)
def test_what_a_merge_waits_for(ruleset: Any, keys: list[str]) -> None:
    found = findings(LANES, rule="WF111", ruleset=json.dumps(ruleset, indent=1))
    assert sorted(finding.key for finding in found) == keys


OTHER_TYPE = {"type": "workflows", "parameters": {"require_code_owner_review": True}}
OLD = {"required_pull_request_reviews": {"require_code_owner_reviews": True}}


@pytest.mark.parametrize(
    ("ruleset", "keys"),
    [
        (export("finish", "alone"), []),  # a strategy without a matrix
        ([*export("finish", owners=False)["rules"], OTHER_TYPE], ["reviews"]),
        ([{"type": "pull_request"}, {"type": "required_status_checks"}], ["none", "reviews"]),
        ([{"type": "required_status_checks", "parameters": {}}], ["none", "reviews"]),
        (export("finish", owners="no"), ["reviews"]),  # type: ignore[arg-type]
        ({**OLD, "required_status_checks": {"checks": [{"context": "finish"}]}}, []),
        ({**OLD, "required_status_checks": {"checks": [], "contexts": ["finish"]}}, []),
        ({**OLD, "required_status_checks": {"checks": [], "contexts": []}}, ["none"]),
    ],
)
def test_parts_of_an_export(ruleset: Any, keys: list[str]) -> None:
    found = findings(LANES, rule="WF111", ruleset=json.dumps(ruleset, indent=1))
    assert sorted(finding.key for finding in found) == keys


def test_the_last_job_is_that_of_its_own_workflow() -> None:
    job = "runs-on: ubuntu-latest, steps: [{run: x}]"
    same_id = (
        f"on: pull_request\njobs:\n  finish: {{name: b, {job}}}\n"
        f"  end: {{needs: finish, if: always(), {job}}}\n"
    )
    scheduled = (
        f"on: schedule\njobs:\n  a: {{{job}}}\n  night-end: {{needs: a, if: always(), {job}}}\n"
    )
    others = {FOLDER + "b.yml": same_id, FOLDER + "night.yml": scheduled}
    (found,) = findings(LANES, others, rule="WF111", ruleset=json.dumps(export("b")))
    assert found.key == "last"
    assert "night-end" not in found.remedy  # no check of a pull request
    assert "finish" in found.remedy


def test_a_required_check_stands_where_it_is_named() -> None:
    text = json.dumps(export("finish", "gpu"), indent=1)
    (finding,) = findings(LANES, rule="WF111", ruleset=text)
    assert '"gpu"' in text.splitlines()[finding.line - 1]
    assert finding.path == RULESET


def test_what_suites_yml_requires_must_be_required() -> None:
    needed = "required_checks: [finish, extra-finish]"
    found = findings(LANES, settings=needed, rule="WF111", ruleset=json.dumps(export("finish")))
    assert [finding.key for finding in found] == ["last"]
    needed = needed.replace(", extra-finish", "")
    assert not findings(LANES, settings=needed, rule="WF111", ruleset=json.dumps(export("finish")))


def test_the_export_is_the_one_that_is_named(tmp_path: Path, capsys: Any) -> None:
    workflows = tmp_path / FOLDER
    workflows.mkdir(parents=True)
    (workflows / "a.yml").write_text(LANES, encoding="utf-8")
    own, other = tmp_path / RULESET, tmp_path / "exported.json"
    other.write_text(json.dumps(export("gpu")), encoding="utf-8")
    arguments = ["audit", "--root", str(tmp_path), "--select", "WF111", "--format", "concise"]
    assert main(arguments) == 0
    own.write_text(json.dumps(export("first")), encoding="utf-8")
    assert main(arguments) == 1
    assert capsys.readouterr().out.count(".github/ruleset.json:1:") == 1
    assert main([*arguments, "--ruleset", str(other)]) == 1
    assert capsys.readouterr().out.count("exported.json:1:") == 2
    assert main([*arguments, "--ruleset", str(tmp_path / "missing.json")]) == 2
    own.write_text('{"rules": [}', encoding="utf-8")
    assert main(arguments) == 2
    assert "ruleset.json:1" in capsys.readouterr().err


# Events, runners, and ways of writing them: whether a job starts without a gate.
@pytest.mark.parametrize(
    ("event", "job", "found"),
    [
        ("pull_request", "runs-on: gpu, steps: [{run: x}]", True),
        ("[push, pull_request]", "runs-on: gpu, steps: [{run: x}]", True),
        ("{issue_comment: }", "runs-on: gpu, steps: [{run: x}]", True),
        ("workflow_run", "runs-on: gpu, steps: [{run: x}]", True),
        ("discussion", "runs-on: gpu, steps: [{run: x}]", True),
        ("something_new", "runs-on: gpu, steps: [{run: x}]", True),
        ("push", "runs-on: gpu, steps: [{run: x}]", False),
        (
            "[schedule, workflow_dispatch, repository_dispatch, merge_group]",
            "runs-on: gpu, steps: [{run: x}]",
            False,
        ),
        ("workflow_call", "runs-on: gpu, steps: [{run: x}]", False),
        ("pull_request", "runs-on: ubuntu-24.04-arm", False),
        ("pull_request", "runs-on: [Ubuntu-Latest]", False),
        ("pull_request", "runs-on: x", False),
        ("pull_request", "runs-on: ubuntu-gpu", True),
        ("pull_request", "runs-on: [self-hosted, ubuntu-latest]", True),
        ("pull_request", "runs-on: {group: a}", True),
        ("pull_request", "runs-on: '${{ vars.ON }}'", True),
        ("pull_request", 'runs-on: "${{ fromJSON(\'[\\"ubuntu-latest\\"]\') }}"', False),
        ("pull_request", "runs-on: '${{ inputs.on || ''ubuntu-latest'' }}'", False),
        ("pull_request", "steps: []", True),
        ("pull_request", "uses: o/r/.github/workflows/x.yml@v1", True),
        ("pull_request", "uses: ./.github/workflows/gone.yml", True),
        ("pull_request", "if: false, runs-on: gpu", False),
        ("pull_request", "if: '${{ false }}', runs-on: gpu", False),
        ("pull_request", "if: github.event_name == 'push', runs-on: gpu", False),
        ("pull_request", "if: GitHub.Event_Name == 'PUSH', runs-on: gpu", False),
        ("pull_request", "if: github.ref == 'refs/heads/main', runs-on: gpu", False),
        (
            "{pull_request: {types: [closed]}}",
            "if: github.ref == 'refs/heads/main', runs-on: gpu",
            True,
        ),
        (
            "{pull_request: {types: opened}}",
            "if: github.event.action == 'labeled', runs-on: gpu",
            False,
        ),
        (
            "{pull_request: {types: [labeled]}}",
            "if: github.event.action == 'labeled', runs-on: gpu",
            True,
        ),
        ("[pull_request, push]", "if: github.event_name != 'pull_request', runs-on: gpu", False),
        ("pull_request", "if: inputs.yes, runs-on: gpu", False),
        # Code of those who have write access: a branch of this repository, or what was merged.
        *(
            ("pull_request", f"if: github.event.pull_request.{asked}, runs-on: gpu", found)
            for asked, found in (
                ("head.repo.full_name == github.repository", False),
                ("head.repo.full_name == github.event.repository.full_name", False),
                ("head.repo.id == github.event.pull_request.base.repo.id", False),
                ("head.repo.id == github.repository_id", False),
                ("head.repo.full_name != github.repository", True),
                ("base.repo.full_name == github.repository", True),
                ("head.repo.full_name == github.repository || github.event.number", True),
                ("head.repo.full_name == vars.NAME", True),
                ("head.repo.owner.login == github.repository_owner", True),  # any member's
                ("head.repo.fork == false", True),  # so is what this one was forked from
                ("head.ref == 'release'", True),
                ("merged == true", False),
                ("merged", False),
                ("merged_at != null", False),
                ("merged == false", True),
            )
        ),
        (
            "{pull_request: {types: [closed]}}",
            "if: github.event.pull_request.merged == true, runs-on: gpu",
            False,
        ),
        (
            "workflow_run",
            "if: github.event.workflow_run.head_repository.full_name == github.repository, "
            "runs-on: gpu",
            False,
        ),
        ("pull_request", "if: failure(), runs-on: gpu", False),
        ("pull_request", "if: cancelled(), runs-on: gpu", True),
        ("pull_request", "if: 'false ', runs-on: gpu", False),
        ("pull_request", "if: '${{ false }} ', runs-on: gpu", True),
        ("pull_request", "if: [x], runs-on: gpu", True),
        ("pull_request", "runs-on: ubuntu-latest, strategy: {matrix: {r: [gpu]}}", False),
        (
            "pull_request",
            "runs-on: '${{ matrix.r }}', strategy: {matrix: {r: [ubuntu-latest, gpu]}}",
            True,
        ),
        (
            "pull_request",
            "runs-on: '${{ matrix.r }}', strategy: {matrix: {include: [{r: macos-15}]}}",
            False,
        ),
        (
            "pull_request",
            "runs-on: '${{ matrix.r }}', strategy: {matrix: '${{ fromJSON(vars.M) }}'}",
            True,
        ),
    ],
)
def test_wf101_events_and_runners(event: str, job: str, found: bool) -> None:
    assert bool(lines("WF101", f"on: {event}\njobs: {{a: {{{job}}}}}\n")) is found


def test_wf101_sees_through_anchors() -> None:
    assert lines("WF101", "on: pull_request\nx: &a {runs-on: gpu}\njobs: {a: *a}\n") == [2]


HEAD = """\
on: pull_request
jobs:
  gate: {uses: ./.github/workflows/pr-gate.yml}
  mid:
    needs: gate
    runs-on: ubuntu-latest
    outputs:
      ok: ${{ needs.gate.outputs.allowed }}
      good: ${{ needs.gate.result == 'success' }}
  hosted: {runs-on: ubuntu-latest, outputs: {yes: 'true', n: 1}}
"""


# Conditions of a job that needs [gate, mid, hosted]: whether it starts without the gate.
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("needs.gate.outputs.allowed == 'true'", False),
        ("NEEDS.Gate.Outputs.ALLOWED == 'TRUE'", False),
        ("needs['gate'].outputs['allowed'] == 'true'", False),
        ("always() && needs.gate.outputs.allowed == 'true'", False),
        ("always() && needs.mid.outputs.ok == 'true'", False),
        ("always() && fromJSON(needs.gate.outputs.allowed || 'false')", False),
        ("always() && contains(needs.*.outputs.allowed, 'true')", False),
        ("always() && contains(fromJSON('[\"true\"]'), needs.gate.outputs.allowed)", False),
        ("always() && format('{0}', needs.gate.outputs.allowed) == 'true'", False),
        ("always() && join(needs.*.outputs.allowed, '') == 'true'", False),
        ("always() && case(needs.gate.outputs.allowed == 'true', true, false)", False),
        (
            "always() && (needs.gate.outputs.allowed && needs.gate.outputs.allowed != 'false')",
            False,
        ),
        ("always() && !(needs.gate.outputs.allowed != 'true')", False),
        ("always() && startsWith(needs.gate.outputs.allowed, 'tr')", False),
        ("always() && needs.gate.outputs.allowed == true", False),  # NaN is not 1: never
        ("always() && needs.gate.result == 'success' && needs.mid.outputs.ok == 'true'", False),
        ("always() && needs.gate.outputs.allowed", True),  # 'false' is a text, and true
        ("always() && needs.gate.outputs.allowed != ''", True),
        ("always() && needs.gate.outputs.allowed != 'false'", True),
        ("needs.gate.result == 'success'", True),  # green, but ignored
        ("success()", True),
        ("!failure()", True),
        ("always() && needs.mid.outputs.good == 'true'", True),
        ("always() && needs.mid.outputs.good == true", False),  # 'true' is a text: never
        ("always() && needs.hosted.outputs.yes == 'true'", True),
        ("always() && needs.hosted.outputs.n == 1", True),
        ("always() && needs.gone.result == ''", True),
        ("always() && needs.gone.outputs.allowed == 'true'", False),
        ("always() && needs.*.result == 'x' || always()", True),
        (
            "!contains(needs.*.result, 'failure') && !contains(needs.*.result, 'skipped')",
            True,
        ),
        ("!cancelled() && join(needs.*.result) == 'skipped,skipped,success'", True),
        ("!cancelled() && join(needs.*.result) == 'failure,skipped,success'", True),
        ("!cancelled() && needs.gate.result == 'cancelled'", True),  # that job alone
        ("cancelled() && needs.gate.result == 'skipped'", True),
        ("always() && contains(toJSON(needs), 'true')", True),  # hosted's output
        ("always() && contains(toJSON(needs.gate), 'true')", False),  # there is but one
        ("always() && contains(toJSON(needs.mid), 'true')", True),
        ("always() && contains(join(needs.*.outputs.*), 'true')", True),
        ("needs.gate.outputs.allowed == 'true' || github.event.pull_request.head.repo.fork", True),
        ("always() && secrets.OK == 'true'", True),
        ("always() && hashFiles('x') != ''", True),
        ("true", True),
        ("${{ needs.gate.outputs.allowed == 'true' }}", False),
        ("${{ needs.gate.outputs.allowed }} == 'true'", True),
    ],
)
def test_wf101_conditions(condition: str, found: bool) -> None:
    job = (
        f"  gpu:\n    needs: [GATE, mid, hosted]\n    if: >-\n      {condition}\n    runs-on: gpu\n"
    )
    assert bool(lines("WF101", HEAD + job)) is found


def test_wf101_shows_the_assignment() -> None:
    job = (
        "  gpu:\n    needs: gate\n    runs-on: gpu\n"
        "    if: '!cancelled() && needs.gate.result == ''skipped'''\n"
    )
    late = HEAD.replace("gate: {", "gate: {if: vars.GATED, ")
    (found,) = findings(late + job, rule="WF101")
    assert found.message == (
        "job 'gpu' on gpu can start on pull_request without the gate: needs.gate.result = 'skipped'"
    )
    assert "needs.GATE.outputs.allowed == 'true'" in found.remedy
    assert found.level is Level.ERROR
    # The gate has no condition: it is skipped only in a run that is, or was, cancelled.
    (found,) = findings(HEAD + job, rule="WF101")
    assert found.message.endswith("needs.gate.result = 'skipped', an earlier attempt was cancelled")
    assert found.level is Level.NOTE  # who re-runs it has write access
    job = job.replace("!cancelled()", "cancelled()")
    (found,) = findings(HEAD + job, rule="WF101")
    assert found.message.endswith("needs.gate.result = 'skipped', the run is cancelled")
    assert found.level is Level.ERROR


def test_wf101_many_needs_are_reported_where_they_cannot_all_be_tried() -> None:
    names = [f"j{i}" for i in range(30)]
    jobs = "".join(f"  {name}: {{runs-on: ubuntu-latest}}\n" for name in names)
    gpu = f"  gpu:\n    needs: [gate, {', '.join(names)}]\n    runs-on: gpu\n    if: always() && "
    asks = "!contains(needs.*.result, 'failure') && needs.gate.outputs.allowed == 'true'\n"
    head = HEAD.replace("jobs:\n", f"jobs:\n{jobs}")
    assert findings(head + gpu + asks, rule="WF101") == []
    hides = "contains(needs.*.outputs.allowed, 'true')\n"
    (found,) = findings(head + gpu + hides, rule="WF101")
    assert "…" in found.message


def test_wf101_jobs_in_a_circle_never_start() -> None:
    jobs = "  a: {needs: b, runs-on: gpu}\n  b: {needs: a, runs-on: ubuntu-latest}\n"
    last = "  c: {needs: b, if: always(), runs-on: gpu}\n"
    assert [f.key for f in findings(f"on: pull_request\njobs:\n{jobs}{last}", rule="WF101")] == [
        "c"
    ]


# The gate's job: its command, and which step the answer is taken from.
@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("{id: gate, run: runci gate}", False),
        ("{id: GATE, run: .venv/bin/runci gate --extra}", False),
        ("{id: gate, run: python -m runci gate}", False),
        ('{id: gate, run: "set -eu\\n# ask\\nrunci gate \\\\\\n  --extra"}', False),
        ("{id: gate, run: runci gate, shell: bash}", False),
        ("{id: gate, run: runci gate, shell: 'bash -e {0}'}", False),
        ("{id: gate, run: runci gate, shell: python}", True),
        ("{id: gate, run: runci gate, shell: 'bash -n {0}'}", True),
        ("{id: gate, run: runci gate, shell: 'bash -c \"echo allowed=true\" {0}'}", True),
        ("{id: gate, run: X=1 runci gate}", True),
        ("{id: gate, run: runci gate; exit 0}", True),
        ("{id: gate, run: '! runci gate'}", True),
        ("{id: gate, run: runci gate > out}", True),
        ("{id: gate, run: 'runci gate --record $RUNNER_TEMP/$GITHUB_RUN_ID.json'}", False),
        ("{id: gate, run: runci gate --record=$FILE, env: {FILE: a.json}}", True),
        ("{id: gate, run: runci gate --record=a$GITHUB_HEAD_REF}", True),
        ("{id: gate, run: runci gate --record $GITHUB_HEAD_REF}", True),
        ("{id: gate, run: runci gate --record $GITHUB_ACTOR}", True),
        ("{id: gate, run: runci gate --record $TITLE}", True),
        ("{id: gate, run: runci gate $E, env: {E: '${{ github.head_ref }}'}}", True),
        ("{id: gate, run: runci gate $E, env: {E: --extra}}", False),
        ("{id: gate, run: runci gate $(cat args)}", True),
        ("{id: gate, run: runci --version gate}", True),
        ("{id: gate, run: runci lint gate}", True),
        ("{id: other, run: runci gate}", True),
        ("{id: gate, run: runci gate}, {id: gate, run: x}", True),
        ("{id: gate, run: x}, {id: Gate, run: runci gate}", True),
        ("{id: gate, uses: o/gate@v1}", True),
        ("{id: gate, uses: ./gone}", True),
    ],
)
def test_wf101_what_a_gate_is(step: str, found: bool) -> None:
    text = f"""\
on: pull_request
jobs:
  gate:
    runs-on: ubuntu-latest
    outputs: {{allowed: "${{{{ steps.gate.outputs.allowed }}}}"}}
    steps: [{step}]
  gpu: {{needs: gate, runs-on: gpu, if: needs.gate.outputs.allowed == 'true'}}
"""
    assert bool(findings(text, rule="WF101")) is found


def test_wf101_through_called_workflows() -> None:
    called = """\
    on:
      workflow_call:
        inputs:
          go: {type: boolean, default: false}
          shards: {type: number}
    jobs:
      gpu:
        if: always() && (inputs.go || inputs.shards > 1)
        runs-on: gpu
    """

    def found(given: str) -> bool:
        call = (
            f"  c:\n    needs: gate\n    if: always()\n    uses: ./.github/workflows/b.yml\n{given}"
        )
        return bool(findings(HEAD + call, {FOLDER + "b.yml": called}, rule="WF101"))

    assert not found("")
    assert not found("    with: {shards: 1}\n")
    assert found("    with: {shards: 2}\n")
    assert found("    with: {go: true}\n")
    assert found("    with: {GO: true}\n")
    assert not found("    with: {go: \"${{ needs.gate.outputs.allowed == 'true' }}\"}\n")
    assert found("    with: {go: \"${{ needs.gate.result != 'failure' }}\"}\n")
    assert found("    with: {go: '${{ vars.GO }}'}\n")


def test_wf101_continue_on_error_makes_a_failure_a_success() -> None:
    jobs = """\
    on: pull_request
    jobs:
      ask: {uses: o/r/.github/workflows/gate.yml@v1}
      mid:
        needs: ask
        %sruns-on: ubuntu-latest
      gpu: {needs: mid, runs-on: gpu}
    """
    settings = "gates: [o/r/.github/workflows/gate.yml@v1]"
    assert lines("WF101", jobs % "", settings=settings) == []
    tolerant = "if: always()\n        continue-on-error: true\n        "
    # success() looks at all jobs before: that `mid` hides the failure does not help.
    assert lines("WF101", jobs % tolerant, settings=settings) == []
    asks = (jobs % tolerant).replace(
        "needs: mid,", "needs: mid, if: always() && needs.mid.result == 'success',"
    )
    assert lines("WF101", asks, settings=settings) == [9]


def test_wf101_a_file_that_cannot_be_read_is_not_proven() -> None:
    (found,) = findings("on: [pull_request\n", rule="WF101")
    assert "nothing is proven" in found.message


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "\ufeff  # nothing\n\n"])
def test_an_empty_workflow_starts_nothing(text: str) -> None:
    assert findings(text) == []


# Gates of one's own, as suites.yml names them: does the job on the machine start without them?
@pytest.mark.parametrize(
    ("gates", "gate", "gpu", "found"),
    [
        ("uses o/gate@v1", "steps: [{id: gate, uses: o/gate@v1}]", "", False),
        ("uses o/gate@v1", "steps: [{id: gate, uses: o/gate@v2}]", "", True),
        ("uses o/gate@v1", "steps: [{id: other, uses: o/gate@v1}]", "", True),
        ("runci gate", "steps: [{id: gate, uses: o/gate@v1}]", "", True),
        ("uses ./ci/gate", "steps: [{id: gate, uses: ./ci/gate}]", "", False),
        (
            "uses ./ci/gate",
            "steps: [{uses: actions/checkout@v5}, {id: gate, uses: ./ci/gate}]",
            "",
            True,
        ),
        ("ci/ask.sh --all", "steps: [{id: gate, run: ci/ask.sh --all}]", "", False),
        ("python ci/ask.py", "steps: [{id: gate, run: python3 ci/ask.py}]", "", False),
        ("environment gpu", "steps: []", "environment: gpu,", False),
        ("environment gpu", "steps: []", "environment: {name: gpu, url: x},", False),
        ("environment gpu", "steps: []", "environment: other,", True),
        ("environment gpu", "steps: []", "environment: '${{ vars.E }}',", True),
        ("runci gate", "steps: []", "environment: gpu,", True),
    ],
)
def test_wf101_gates_of_ones_own(gates: str, gate: str, gpu: str, found: bool) -> None:
    answer = "outputs: {allowed: '${{ steps.gate.outputs.allowed }}'}"
    asks = "" if gpu else "if: needs.gate.outputs.allowed == 'true',"
    text = (
        f"on: pull_request\njobs:\n  gate: {{runs-on: ubuntu-latest, {answer}, {gate}}}\n"
        f"  gpu: {{needs: gate, {asks} {gpu} runs-on: gpu}}\n"
        "  next: {needs: gpu, runs-on: gpu}\n"
    )
    rows = lines("WF101", text, settings=f"gates: ['{gates}']")
    assert (rows != []) is found
    assert found or not findings(text, settings=f"gates: ['{gates}']", rule="WF103")


def test_wf102() -> None:
    final = "on: pull_request\njobs:\n  a: {}\n  b: {}\n  end: {needs: [a, b]%s}\n"
    other = {FOLDER + "b.yml": final % ""}
    assert [f.path for f in findings(final % "", other, rule="WF102")] == [FOLDER + "b.yml"]
    assert findings(final % ", name: other", other, rule="WF102") == []
    assert findings((final % "").replace("pull_request", "push"), other, rule="WF102") == []
    # Only what a merge waits for, where that is known.
    assert findings(final % "", other, "required_checks: [a]", "WF102")[0].message.startswith(
        "check 'a'"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gate: {uses: ./.github/workflows/pr-gate.yml}", 0),
        ("gate: {if: always(), uses: ./.github/workflows/pr-gate.yml}", 0),
        ("gate: {if: github.event_name != 'push', uses: ./.github/workflows/pr-gate.yml}", 1),
        ("gate: {if: '!cancelled()', uses: ./.github/workflows/pr-gate.yml}", 1),
        ("gate: {needs: lint, uses: ./.github/workflows/pr-gate.yml}", 1),
        ("gate: {runs-on: ubuntu-latest, continue-on-error: true, steps: [{run: runci gate}]}", 1),
        ("gate: {runs-on: ubuntu-latest, steps: [{run: runci gate, continue-on-error: true}]}", 1),
        ("gate: {runs-on: ubuntu-latest, steps: [{run: runci gate, if: vars.GATED}]}", 1),
        ("gate: {runs-on: ubuntu-latest, steps: [{run: 'runci gate || true'}]}", 1),
        ("gpu: {needs: [a, b], if: x, runs-on: gpu, steps: [{run: runci gate}, {run: test}]}", 0),
        ("gpu: {runs-on: gpu, steps: [{run: runci gate, if: vars.GATED}, {run: test}]}", 1),
        ("gpu: {runs-on: gpu, env: {PATH: bin}, steps: [{run: runci gate}, {run: test}]}", 1),
        ("gpu: {runs-on: gpu, env: {PATH: bin}, steps: [{run: test}]}", 0),
        ("gpu: {runs-on: gpu, env: {MY_PATH: bin}, steps: [{run: runci gate}, {run: test}]}", 0),
        ("gpu: {runs-on: gpu, steps: [{run: runci gate}, {run: test, env: {PATH: bin}}]}", 0),
        *(
            (
                f"gpu: {{runs-on: gpu, steps: [{{run: runci gate, env: {{{name}: x}}}}, "
                "{run: t}]}",
                1,
            )
            for name in ("PATH", "BASH_ENV", "LD_PRELOAD", "PYTHONPATH", "PYTHON_COLORS", "ENV")
        ),
        *(
            (
                f"gpu: {{runs-on: gpu, defaults: {{run: {{shell: '{shell}'}}}}, "
                "steps: [{run: runci gate}, {run: t}]}",
                expected,
            )
            for shell, expected in (
                ("bash", 0),
                ("bash -euo pipefail {0}", 0),
                ("bash --noprofile --norc -eo pipefail {0}", 0),
                ("bash -l {0}", 0),
                ("bash -n {0}", 1),
                ("bash -c true {0}", 1),
                ("perl {0}", 1),
                ("pwsh", 1),
            )
        ),
    ],
)
def test_wf103(text: str, expected: int) -> None:
    assert len(lines("WF103", f"on: pull_request\njobs:\n  {text}\n")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if: contains(github.event.pull_request.labels.*.name, 'x')", 1),
        ("if: GitHub.event['pull_request'].draft == false", 1),
        ("if: github.event.label.name == 'x'", 1),
        ("if: github.event.action == 'labeled'", 0),
        ('env: {A: "${{ github.event.issue.labels[0].name }}"}', 1),
        ("name: ${{ github.event.label.name }}", 0),
        ("concurrency: ${{ github.event.label.name }}", 0),
        ("env: {A: github.event.label.name}", 0),
        ("if: contains(toJSON(github.event), 'run-ci')", 1),
        ("if: contains(toJSON(github), 'run-ci')", 1),
        ("if: contains(join(github.event.*), 'run-ci')", 1),
        ("if: contains(toJSON(github.event.pull_request.*), 'run-ci')", 1),
        ("if: github.event[vars.WHAT].name == 'x'", 1),
        ("if: github.event.pull_request && github.event.label != null", 0),
        ("if: contains(toJSON(github.event.pull_request.head), 'x')", 0),
        ("env: {A: '${{ toJSON(github.event.pull_request) }}'}", 1),
        ("steps: [{env: {E: '${{ toJSON(github) }}'}, run: echo \"$E\"}]", 0),  # the log only
        ("steps: [{env: {E: '${{ toJSON(github) }}'}, run: grep -q run-ci <<<\"$E\"}]", 1),
        ("steps: [{run: \"echo '${{ toJSON(github) }}' >> $GITHUB_OUTPUT\"}]", 1),
        # Shell: the event's file.
        ("steps: [{run: jq -e .label.name $GITHUB_EVENT_PATH}]", 1),
        ("steps: [{run: 'jq .pull_request.draft \"${{ github.event_path }}\"'}]", 1),
        ("steps: [{run: 'E=$GITHUB_EVENT_PATH; jq .label.name \"$E\"'}]", 1),
        ("steps: [{run: cat $GITHUB_EVENT_PATH | jq .pull_request.labels}]", 1),
        ("steps: [{run: 'E=$(cat $GITHUB_EVENT_PATH); jq .label <<<\"$E\"'}]", 1),
        ("steps: [{run: grep run-ci $GITHUB_EVENT_PATH}]", 1),
        ("steps: [{run: '# jq .label.name $GITHUB_EVENT_PATH'}]", 0),
        ("steps: [{run: jq .number $GITHUB_EVENT_PATH}]", 0),
        ("steps: [{run: 'N=$(jq .number $GITHUB_EVENT_PATH); gh pr view $N --json labels'}]", 0),
        ("steps: [{run: 'gh pr view $(jq .number $GITHUB_EVENT_PATH) --json labels'}]", 0),
        (
            'steps: [{shell: python, run: \'json.load(open(os.environ["GITHUB_EVENT_PATH"]))'
            '["label"]\'}]',
            1,
        ),
        # actions/github-script: the payload in JavaScript.
        *(
            (f'steps: [{{uses: actions/github-script@v8, with: {{script: "{script}"}}}}]', found)
            for script, found in (
                ("return context.payload.pull_request.labels", 1),
                ("return context.payload.label.name", 1),
                ("return context.payload?.pull_request?.draft", 1),
                ("const p = context.payload.pull_request; return p.draft", 1),
                ("const { labels } = context.payload.issue", 1),
                ("const { payload } = context; return payload.label", 1),
                ("return JSON.stringify(context.payload).includes('x')", 1),
                ("console.log(JSON.stringify(context.payload))", 0),
                ("return context.payload.pull_request.number // not its labels", 0),
                ("github.rest.issues.addLabels({labels: [], ...context.repo})", 0),
                ("// context.payload.label", 0),
            )
        ),
    ],
)
def test_wf104(text: str, expected: int) -> None:
    job = f"jobs:\n  a:\n    runs-on: ubuntu-latest\n    {text}\n"
    assert len(lines("WF104", f"on: pull_request\n{job}")) == expected
    assert len(lines("WF104", f"on: workflow_call\n{job}")) == expected
    assert lines("WF104", f"on: push\n{job}") == []


def test_wf104_a_job_may_be_called_run() -> None:
    job = "run: {runs-on: ubuntu-latest, if: github.event.label.name == 'x'}"
    assert lines("WF104", f"on: pull_request\njobs:\n  {job}\n") == [3]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("steps: [{run: runci verify}]", 1),  # skipped after a failure
        ("if: always()\n    steps: [{run: runci verify}]", 0),
        ("if: '!cancelled()'\n    steps: [{run: runci verify}]", 0),
        ("if: failure()\n    steps: [{run: runci verify}]", 1),
        ("if: always()\n    steps: [{run: 'true'}]", 1),
        (
            "if: always()\n    steps: [{if: \"contains(needs.*.result, 'failure')\", run: exit 1}]",
            1,
        ),
        (
            "if: always()\n    steps: [{if: \"contains(needs.*.result, 'skipped')\", run: exit 1}]",
            0,
        ),
        ("if: always()\n    steps: [{env: {N: '${{ toJSON(needs) }}'}, run: check}]", 0),
        ("if: always()\n    continue-on-error: true\n    steps: [{run: runci verify}]", 1),
        ("if: always()\n    steps: [{run: runci verify, continue-on-error: true}]", 1),
        ("if: always()\n    steps: [{run: runci verify}, {run: x, continue-on-error: true}]", 0),
        ("if: always() && github.event.action != 'labeled'\n    steps: [{run: runci verify}]", 0),
        ("if: always() && github.event.action != 'opened'\n    steps: [{run: runci verify}]", 1),
        ("if: always() && github.event_name != 'push'\n    steps: [{run: runci verify}]", 0),
        ("if: always() && github.actor != 'x'\n    steps: [{run: runci verify}]", 1),
        ("if: always() && vars.CI\n    steps: [{run: runci verify}]", 1),
        ("if: always() && needs.a.outputs.x != 'y'\n    steps: [{run: runci verify}]", 1),
        ("if: always() && needs.a.result != 'success'\n    steps: [{run: runci verify}]", 0),
        ("if: always() && needs.a.result != 'skipped'\n    steps: [{run: runci verify}]", 1),
    ],
)
def test_wf105(end: str, expected: int) -> None:
    text = f"on: pull_request\njobs:\n  a: {{}}\n  b: {{}}\n  end:\n    needs: [a, b]\n    {end}\n"
    assert len(lines("WF105", text)) == expected


@pytest.mark.parametrize(
    ("runs", "unread"), [("runs-on: gpu", False), ("uses: o/r/.github/workflows/x.yml@v1", True)]
)
def test_wf101_says_how_a_called_workflow_that_is_not_read_is_let_pass(
    runs: str, unread: bool
) -> None:
    """Only a person knows where it runs; of a machine of one's own nobody says so."""
    text = f"on: pull_request\njobs:\n  x:\n    {runs}\n"
    (found,) = findings(text, rule="WF101")
    assert ("ignore[WF101]" in found.remedy) is unread


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("github.event_name == 'workflow_dispatch'", 0),
        ("github.event_name == 'push' && github.ref == 'refs/heads/main'", 0),
        ("always() && github.event_name == 'release'", 0),
        ("github.event_name != 'push'", 1),
        ("github.event_name == 'push' || inputs.publish", 0),
        ("failure() && needs.a.result == 'failure' && needs.b.result == 'success'", 1),
        ("always() && vars.PUBLISH", 1),
    ],
)
def test_wf105_a_job_that_no_pull_request_starts_is_no_check(condition: str, expected: int) -> None:
    """Unless somebody says that a merge waits for it: then it is always skipped, and green."""
    text = (
        "on: [pull_request, push, workflow_dispatch]\njobs:\n  a: {}\n  b: {}\n"
        f'  publish:\n    needs: [a, b]\n    if: "{condition}"\n'
        "    steps: [{run: runci verify}]\n"
    )
    assert len(lines("WF105", text)) == expected
    assert len(lines("WF105", text, settings="required_checks: [publish]")) == 1


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("run: runci needs", []),
        ("run: runci needs, continue-on-error: true", [1]),
        ("run: runci needs, continue-on-error: false", []),
        ("run: runci needs}, {run: tidy up, continue-on-error: true", []),
    ],
)
def test_wf105_looks_into_actions(step: str, expected: list[int]) -> None:
    action = ".github/actions/finish/action.yml"
    text = (
        "on: pull_request\njobs:\n  a: {}\n  b: {}\n  end:\n    needs: [a, b]\n    if: always()\n"
        "    steps: [{uses: ./.github/actions/finish, with: {needs: '${{ toJSON(needs) }}'}}]\n"
    )
    others = {action: f"runs: {{using: composite, steps: [{{{step}}}]}}\n"}
    found = findings(text, others, rule="WF105")
    assert [f.line for f in found if f.path == action] == expected
    assert len(found) == len(expected)


# One step of a last job that needs [a, b]: whether it fails for a job that was skipped.
@pytest.mark.parametrize(
    ("step", "looks"),
    [
        ("run: runci verify plan.json results", True),
        ("run: .venv/bin/runci verify plan.json results", True),
        ("run: python -m runci verify plan.json results", True),
        ("run: runci verify --help", False),
        ("run: runci verify plan.json results || true", False),
        ("run: 'runci verify plan.json results || echo failed'", False),
        ("run: 'runci verify plan.json results || { echo failed; exit 1; }'", True),
        ("run: runci verify plan.json results | tee log", False),  # `bash -e` has no pipefail
        ("run: runci verify plan.json results | tee log, shell: bash", True),
        ("run: 'if runci verify plan.json results; then echo good; fi'", False),
        ("run: '# runci verify plan.json results'", False),
        ("run: echo runci verify plan.json results", False),
        ("run: 'echo $(runci verify plan.json results)'", False),
        ('run: "set +e\\nrunci verify plan.json results\\necho done"', False),
        ("run: runci verify plan.json results, if: false", False),
        ("run: runci verify plan.json results, if: '!cancelled()'", True),
        ("run: 'runci needs --may-skip a,b'", False),
        ("run: runci needs --may-skip=a --may-fail b", False),
        ("env: {ANY: 'B, A'}, run: runci needs --may-skip \"$ANY\"", False),
        ("run: runci needs --may-skip a", True),
        ("env: {N: '${{ toJSON(needs) }}'}, run: echo \"$N\"", False),
        ("run: \"echo '${{ toJSON(needs) }}' | jq .\"", False),
        ("run: \"echo '${{ toJSON(needs) }}' | jq -e 'all(.result == \\\"success\\\")'\"", True),
        ("run: \"echo '${{ toJSON(needs) }}' | grep -v failure\"", False),
        ("run: \"echo '${{ toJSON(needs) }}' | ci/check\"", True),
        ("run: 'test ${{ needs.a.result }} != failure'", False),
        ("run: 'test ${{ needs.a.result }} = success'", True),
        ("run: 'if [ ${{ needs.a.result }} != success ]; then echo no; fi'", False),
        ("run: 'if [ ${{ needs.a.result }} != success ]; then exit 1; fi'", True),
        ("if: needs.a.result == 'skipped', run: exit 1", True),
        ("if: needs.a.result == 'success', run: runci verify plan.json results", False),
        ("if: \"!contains(needs.*.result, 'skipped')\", run: runci verify plan.json .", False),
        ("if: needs.a.outputs.x != 'y', run: runci verify plan.json results", True),
        ("if: success(), run: runci verify plan.json results", True),
        ("if: needs.a.result == 'skipped', run: exit 0", False),
        ("if: needs.a.result == 'skipped', run: echo skipped", False),
        ("uses: o/all-green@v1, with: {jobs: '${{ toJSON(needs) }}'}", True),
        ("uses: o/all-green@v1, with: {jobs: all}", False),
    ],
)
def test_wf105_what_looks_for_skipped_jobs(step: str, looks: bool) -> None:
    text = (
        "on: pull_request\njobs:\n  a: {}\n  b: {}\n  end:\n    needs: [a, b]\n    if: always()\n"
        f"    runs-on: ubuntu-latest\n    steps: [{{{step}}}]\n"
    )
    assert (lines("WF105", text) == []) is looks


def test_wf105_never_says_to_drop_the_condition_of_a_job_on_a_machine_of_ours() -> None:
    job = "{needs: [plan, gate], if: needs.gate.outputs.allowed == 'true', runs-on: %s}"
    text = f"on: pull_request\njobs:\n  plan: {{}}\n  gate: {{}}\n  last: {job}\n"
    (found,) = findings(text % "[self-hosted, gpu]", rule="WF105")
    assert "always()" in found.remedy
    assert found.remedy.startswith("Keep its condition")
    (found,) = findings(text % "ubuntu-latest", rule="WF105")
    assert found.remedy.startswith("Write `if: always()`")


OURS = "github.event.label.name == 'x' && 'not ours'"


# A job before it may be skipped: does it count as one that a merge waits for?
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("finish", True),
        ("other", False),
        ("''", False),
        (
            f"\"${{{{ {OURS} || 'finish' }}}}\"",
            True,
        ),  # what this repository's own last job is called
        (f"\"${{{{ {OURS} || 'other' }}}}\"", False),
        ("${{ vars.NAME }}", True),  # any name at all
        ("${{ github.event.label.name }}", True),
        ("fin${{ vars.NAME }}sh", True),
        ("finish (${{ matrix.shard }})", False),
        ("tests ${{ vars.NAME }}", False),
        ("${{ format('{0}', 'finish') }}", True),
        ("${{ 'fin' }}ish", True),
        ("${{ '' }}", False),
        ("${{ false && 'finish' || 'other' }}", False),
    ],
)
def test_wf105_a_required_check_whose_name_is_an_expression(name: str, found: bool) -> None:
    text = f"on: pull_request\njobs:\n  a: {{}}\n  end:\n    needs: a\n    name: {name}\n"
    assert bool(lines("WF105", text, settings="required_checks: [finish]")) is found
    # Without the list it is no final job, which waits for two at least.
    assert lines("WF105", text) == []


def test_a_job_that_no_pull_request_starts_is_none_of_its_checks() -> None:
    """Unless a ruleset requires it: then it is skipped, which is green."""
    end = "jobs:\n  a: {}\n  b: {}\n  end: {name: Mail, needs: [a, b], if: IF}\n"
    text = "on: [pull_request, push]\n" + end.replace("IF", "github.event_name == 'push'")
    other = {".github/workflows/more.yml": text}
    assert lines("WF105", text, settings="required_checks: [Mail]") == [5]
    assert findings(text, other, rule="WF102") == []
    assert findings(text, other, "required_checks: [Mail]", "WF102") != []


def test_wf105_a_job_without_a_name_is_called_by_its_id() -> None:
    text = "on: pull_request\njobs:\n  a: {{}}\n  finish: {{needs: a{}}}\n"
    for name in ("", ", name: ''", ", name: \"${{ '' }}\""):
        assert lines("WF105", text.format(name), settings="required_checks: [finish]") == [4]


def test_wf105_follows_calls_to_the_required_check() -> None:
    other = FOLDER + "b.yml"
    called = (
        "on: {workflow_call: {inputs: {what: {type: string}}}}\n"
        "jobs:\n  x: {}\n"
        "  end: {name: 'do ${{ inputs.what }}', needs: x, if: IF, steps: [{run: RUN}]}\n"
    )
    caller = (
        "on: pull_request\njobs:\n  a: {}\n"
        "  call: {IF uses: ./.github/workflows/b.yml, with: {what: it}}\n"
    )

    def where(before: str, condition: str, run: str, required: str = "call / do it") -> list[str]:
        files = {other: called.replace("IF", condition).replace("RUN", run)}
        settings = f"required_checks: ['{required}']"
        found = findings(caller.replace("IF", before), files, settings, "WF105")
        return [Path(finding.path).name for finding in found]

    assert where("", "always()", "runci verify") == []
    assert where("", "success()", "runci verify") == ["b.yml"]
    assert where("", "always()", "'true'") == ["b.yml"]
    assert where("needs: a,", "always()", "runci verify") == ["a.yml"]  # the call itself is skipped
    assert where("needs: a, if: always(),", "always()", "runci verify") == []
    assert where("needs: a,", "success()", "x", "do it") == []
    assert where("name: '${{ vars.X }}',", "success()", "x") == ["b.yml"]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("strategy: {matrix: {s: [0, 1]}}", 1),
        ("strategy: {matrix: {s: [0]}}", 0),
        ("strategy: {matrix: {s: '${{ fromJSON(vars.S) }}'}}", 1),
        ("strategy: {matrix: {r: [a, b]}}\n    runs-on: ${{ matrix.r }}", 0),
        ("strategy: {matrix: {s: [0, 1]}}\n    env: {S: \"${{ matrix['s'] }}\"}", 0),
        ("strategy: {matrix: {s: [0, 1]}}\n    env: {S: '${{ toJSON(matrix) }}'}", 0),
        ("strategy: {matrix: {s: [0, 1], size: [1, 2]}}\n    env: {S: '${{ matrix.size }}'}", 1),
    ],
)
def test_wf106(job: str, expected: int) -> None:
    text = f"on: push\njobs:\n  a:\n    {job}\n    steps:\n      - run: runci run --suite x\n"
    assert len(lines("WF106", text)) == expected


def test_wf107() -> None:
    job = (
        "on: push\njobs:\n  a:\n    runs-on: %s\n    steps:\n"
        "      - run: runci run --suite base-b-test-1-gpu-small\n"
    )
    assert findings(job % "[self-hosted, 1-GPU-5090]", rule="WF107") == []
    assert findings(job % "${{ vars.ON }}", rule="WF107") == []  # not known
    found = findings(job % "1-gpu-h100", rule="WF107")
    assert [(f.path, f.line) for f in found] == [(FOLDER + "a.yml", 6), ("suites.yml", 12)]
    both = {FOLDER + "b.yml": job % "1-gpu-5090"}
    assert [f.path for f in findings(job % "1-gpu-h100", both, rule="WF107")] == [FOLDER + "a.yml"]


@pytest.mark.parametrize(
    ("label", "runs_on", "right"),
    [
        ("[self-hosted, gpu]", "[gpu, self-hosted, linux]", True),
        ("[self-hosted, gpu]", "gpu", False),  # any machine with that label
        ("[self-hosted, gpu]", "{group: any, labels: [self-hosted, GPU]}", True),
        ("{group: G, labels: gpu}", "{group: g, labels: gpu}", True),
        ("{group: G, labels: gpu}", "{group: g}", False),
        ("{group: G, labels: gpu}", "gpu", False),
        ("{group: G}", "{group: other}", False),
        ("gpu", "{group: g}", False),
        ("gpu", "{group: '${{ vars.G }}'}", True),  # not known
        ("[self-hosted, gpu]", '${{ fromJSON(\'["self-hosted", "gpu"]\') }}', True),
        ("[self-hosted, gpu]", "${{ fromJSON('[\"self-hosted\"]') }}", False),
    ],
)
def test_wf107_compares_labels_of_every_form(label: str, runs_on: str, right: bool) -> None:
    job = (
        f"on: push\njobs:\n  a:\n    runs-on: {runs_on}\n    steps:\n"
        "      - run: runci run --suite base-b-test-1-gpu-small\n"
    )
    suites = SUITES.replace(b"label: 1-gpu-5090", f"label: {label}".encode())
    assert suites != SUITES
    seen = read_audit({FOLDER + "a.yml": job.encode()}, load_taxonomy(suites, "suites.yml"))
    assert (check_audit(seen, frozenset({"WF107"})) == []) is right


@pytest.mark.parametrize(
    ("event", "group", "expected"),
    [
        ("pull_request", "a", 1),
        ("pull_request", "a-${{ github.head_ref }}", 1),
        ("pull_request", "a-${{ github.head_ref || github.ref_name }}", 1),
        ("pull_request", "a-${{ github.actor }}", 1),
        ("pull_request", "a-${{ github.workflow }}-${{ vars.X }}", 1),
        ("pull_request", "a-${{ github.ref }}", 0),
        ("pull_request", "a-${{ github.run_id }}", 0),
        ("pull_request", "a-${{ github.event.pull_request.number || github.run_id }}", 0),
        ("pull_request", "a-${{ github.event.number }}-${{ github.event.label.name }}", 0),
        ("pull_request", "a-${{ github.event.pull_request.head.label }}", 0),
        ("pull_request", "a-${{ github.event.pull_request.head.sha }}", 1),
        ("pull_request", "a-${{ github.head_ref }}-${{ github.event.pull_request.head.sha }}", 1),
        ("pull_request", "a-${{ github.event.pull_request.head.sha || github.run_id }}", 1),
        (
            "pull_request",
            "a-${{ github.event.number }}-${{ github.event.pull_request.head.sha }}",
            0,
        ),
        ("pull_request", "a-${{ github.sha }}", 0),  # the merge commit
        ("pull_request_target", "a-${{ github.ref }}", 1),
        ("issue_comment", "a-${{ github.event.pull_request.number }}", 1),
        ("issue_comment", "a-${{ github.event.issue.number }}", 0),
        ("push", "a", 0),
    ],
)
def test_wf108(event: str, group: str, expected: int) -> None:
    for concurrency in (f"'{group}'", f"{{group: '{group}', cancel-in-progress: true}}"):
        top = f"on: {event}\nconcurrency: {concurrency}\njobs: {{a: {{}}}}\n"
        job = f"on: {event}\njobs: {{a: {{concurrency: {concurrency}}}}}\n"
        assert len(lines("WF108", top)) == len(lines("WF108", job)) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (("", ""), 1),
        (("github.event_name == 'issue_comment'", ""), 0),
        (("github.event_name == 'issue_comment'", "needs.a.outputs.ok == 'true'"), 0),
        (("github.event_name == 'issue_comment'", "success() && vars.X"), 0),
        (("github.event_name == 'issue_comment'", "always()"), 1),
        (("github.event_name == 'issue_comment'", "success() || vars.X"), 1),
        (("github.event_name == 'pull_request'", ""), 1),
        (("vars.X", "github.event_name != 'pull_request'"), 0),
        (("vars.X", "failure() && github.event_name != 'pull_request'"), 0),
    ],
)
def test_wf108_of_a_job_that_the_event_does_not_start(
    conditions: tuple[str, str], expected: int
) -> None:
    before, own = (json.dumps(one) for one in conditions)
    text = (
        "on: [pull_request, issue_comment]\njobs:\n"
        f"  a: {{if: {before}}}\n"
        f"  b: {{needs: [a], if: {own}, concurrency: 'x-${{{{ github.event.issue.number }}}}'}}\n"
    )
    assert len(lines("WF108", text)) == expected


def test_wf108_in_called_workflows() -> None:
    called = {
        FOLDER + "b.yml": "on: {workflow_call: {inputs: {key: {type: string}}}}\n"
        "concurrency: b-${{ inputs.key }}\njobs: {a: {}}\n"
    }
    call = "on: pull_request\njobs: {a: {uses: ./.github/workflows/b.yml, with: {key: '%s'}}}\n"
    assert findings(call % "${{ github.event.number }}", called, rule="WF108") == []
    assert len(findings(call % "${{ github.head_ref }}", called, rule="WF108")) == 1


def test_wf109() -> None:
    job = (
        "on: push\njobs:\n  a:\n    runs-on: %s\n    %s\n    steps:\n"
        "      - uses: actions/checkout@v5\n        with: {persist-credentials: %s}\n"
    )
    assert lines("WF109", job % ("gpu", "timeout-minutes: 5", "false")) == []
    assert lines("WF109", job % ("gpu", "timeout-minutes: 5", "'false'")) == []
    assert lines("WF109", job % ("ubuntu-latest", "env: {}", "true")) == []
    assert lines("WF109", job % ("gpu", "env: {}", "true")) == [3, 7]
    assert lines("WF109", job % ("'${{ matrix.x }}'", "env: {}", "false")) == [3]
    either = "${{ vars.X == 'l' && 'ubuntu-22.04' || vars.X == 'w' && '%s' }}"
    assert lines("WF109", job % (either % "windows-2022", "env: {}", "true")) == []
    assert lines("WF109", job % (either % "gpu", "env: {}", "false")) == [3]
    assert lines("WF109", job % ("${{ vars.X == 'l' && false }}", "env: {}", "false")) == [3]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("run: 'git clone https://x:${{ github.token }}@github.com/a/b'", True),
        ("run: 'git clone https://$TOKEN@github.com/a/b'", True),
        ("run: 'git remote set-url origin https://x:${T}@github.com/a/b'", True),
        ("run: 'git submodule add https://${T}@github.com/a/b'", True),
        ("run: 'URL=https://x:$T@github.com/a/b; git clone \"$URL\"'", True),
        (
            "run: 'git config --global url.https://$T@github.com/.insteadOf https://github.com/'",
            True,
        ),
        ("run: 'git config http.extraheader \"AUTHORIZATION: basic $T\"'", True),
        ("run: 'git clone https://github.com/${{ github.repository }}'", False),
        ("run: 'git clone git@github.com:a/$B'", False),
        ("run: '# git clone https://x:$T@github.com/a/b'", False),
        ("run: git config user.name x", False),
        ("uses: actions/checkout@v5", True),
        ("uses: actions/checkout@v5, with: {persist-credentials: '${{ false }}'}", False),
        ("uses: actions/checkout@v5, with: {persist-credentials: '${{ vars.KEEP }}'}", True),
        ("uses: ./.github/actions/get", True),
    ],
)
def test_wf109_tokens_that_stay(step: str, found: bool) -> None:
    job = f"runs-on: gpu, timeout-minutes: 5, steps: [{{{step}}}]"
    action = "runs: {using: composite, steps: [{run: 'git clone https://$T@github.com/a/b'}]}\n"
    others = {".github/actions/get/action.yml": action}
    text = f"on: push\njobs:\n  a: {{{job}}}\n"
    assert bool(findings(text, others, rule="WF109")) is found


@pytest.mark.parametrize(
    ("minutes", "found"),
    [
        ("0", True),
        ("-5", True),
        ("100000", True),
        ("'1441'", True),
        ("${{ 0 }}", True),
        ("soon", True),
        ("1", False),
        ("'30'", False),
        ("1440", False),
        ("0.5", False),
        ("${{ inputs.minutes }}", False),
        ("${{ matrix.long && 600 || 60 }}", False),
    ],
)
def test_wf109_time_limits(minutes: str, found: bool) -> None:
    text = f"on: push\njobs:\n  a:\n    runs-on: gpu\n    timeout-minutes: {minutes}\n"
    assert lines("WF109", text) == [5] * found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("pull_request_target", [1]),
        ("[push, pull_request_target]", [1]),
        ("\n  push:\n  pull_request_target:", [3]),
        ("pull_request", []),
    ],
)
def test_wf110(events: str, expected: list[int]) -> None:
    assert lines("WF110", f"on: {events}\njobs: {{a: {{}}}}\n") == expected


def write(root: Path, text: str) -> None:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "a.yml").write_text(text, encoding="utf-8")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "on: pull_request\njobs:\n  gpu:\n    runs-on: gpu\n    timeout-minutes: 5\n")
    assert main(["audit", "--root", str(tmp_path), "--format", "concise"]) == 1
    assert f"{FOLDER}a.yml:4:5: WF101 job 'gpu' on gpu can start" in capsys.readouterr().out
    assert main(["audit", "--root", str(tmp_path), "--ignore", "WF101"]) == 0
    assert main(["audit", "--root", str(tmp_path), "--select", "WF11"]) == 0
    assert main(["audit", "--root", str(tmp_path), "--select", "WF9"]) == 2


@pytest.mark.parametrize("name", ["b.yaml", "b.YML", "b.Yaml", ".b.yml"])
def test_no_workflow_is_left_out_for_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write(tmp_path, "on: push\njobs: {}\n")
    job = "on: pull_request\njobs: {gpu: {runs-on: gpu, timeout-minutes: 5}}\n"
    (tmp_path / FOLDER / name).write_text(job, encoding="utf-8")
    assert main(["audit", "--root", str(tmp_path), "--format", "concise"]) == 1
    assert f"{FOLDER}{name}:2:14: WF101" in capsys.readouterr().out


def test_suppressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = (
        "on: pull_request\njobs:\n  gpu:\n    timeout-minutes: 5\n"
        "    runs-on: gpu # runci: ignore[WF101]%s\n"
    )
    write(tmp_path, job % " a sandbox without network")
    assert main(["audit", "--root", str(tmp_path)]) == 0
    (tmp_path / FOLDER / "a.yml").write_text(job % "", encoding="utf-8")
    assert main(["audit", "--root", str(tmp_path), "--format", "concise"]) == 1
    assert "RT901" in capsys.readouterr().out


def test_nothing_to_check_is_no_success(tmp_path: Path) -> None:
    assert main(["audit", "--root", str(tmp_path)]) == 3


def test_the_rules_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "wf101"]) == 0
    assert "runner-without-gate" in capsys.readouterr().out


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
