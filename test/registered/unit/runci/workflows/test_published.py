"""Steps with the published action count as the commands that they run, and in no other way."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import FIXTURES, ROOT
from trees import runci, track

from runci import register_cpu_ci
from runci.checks.registry import rules
from runci.checks.wf import check
from runci.checks.wf.audit import read_audit
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Taxonomy, Workflows
from runci.read.yamlpos import load
from runci.workflows.find import find_suite_runs
from runci.workflows.model import steps_of, text_of_node, value_of
from runci.workflows.published import as_commands

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

ACTION = "ci-team/runci"
SHA = "1" * 40
PATH = ".github/workflows/runci.yml"


@pytest.mark.parametrize(
    ("step", "run"),
    [
        (f"uses: {ACTION}@{SHA}, with: {{command: gate}}", "runci gate --ignore-is-ok"),
        (f"uses: CI-Team/Runci@{SHA}, with: {{Command: gate}}", "runci gate --ignore-is-ok"),
        (f"uses: {ACTION}@v1, with: {{command: check}}", "runci check"),
        (
            f"uses: {ACTION}@v1, with: {{command: run, suite: a b, shard: \"${{{{ x.y }}}}\"}}",
            "runci run --plan plan.json --suite 'a b' --shard \"${{ x.y }}\" --results results",
        ),
        (
            f"uses: {ACTION}@v1, with: {{command: finish, may-skip: cpu}}",
            "runci needs --may-skip cpu --may-fail ''\n"
            "runci verify plan.json results --run-jobs github --allow-empty",
        ),
        # What is not the action, or says nothing that can be known.
        (f"uses: {ACTION}, with: {{command: check}}", "runci check"),
        (f"uses: other/runci@{SHA}, with: {{command: check}}", None),
        (f"uses: {ACTION}/sub@{SHA}, with: {{command: check}}", None),
        (f"uses: {ACTION}@{SHA}", None),
        (f"uses: {ACTION}@{SHA}, with: {{command: gates}}", None),
        (f"uses: {ACTION}@{SHA}, with: {{command: GATE}}", None),
        (f"uses: {ACTION}@{SHA}, with: {{command: \"${{{{ inputs.c }}}}\"}}", None),
        (f"uses: {ACTION}@{SHA}, with: {{command: [gate]}}", None),
        ('uses: "${{ inputs.a }}", with: {command: gate}', None),
        ("run: echo", "echo"),
    ],
)  # fmt: skip
def test_steps(step: str, run: str | None) -> None:
    root = load(f"jobs: {{a: {{steps: [{{{step}}}]}}}}\n".encode(), "a.yml")
    found = as_commands(root, ACTION).get("jobs", "a", "steps")
    assert found is not None
    read = found.items[-1].get("run")
    assert (read.value if read is not None else None) == run
    if run is None:
        assert found.items[-1:] == steps_of(root.mapping["jobs"].mapping["a"])


@pytest.mark.parametrize(
    ("given", "checkout"),
    [
        ("command: gate", None),
        ("command: run, suite: a, ref: b", None),
        ("command: check", {}),
        ('command: plan, Ref: "${{ x.y }}"', {"ref": "${{ x.y }}"}),
        ("command: finish, ref: c", {"ref": "c"}),
        ("command: '${{ x.y }}'", {}),  # which may be one of them
    ],
)
def test_what_a_step_checks_out_is_a_step(given: str, checkout: dict[str, str] | None) -> None:
    text = f"jobs: {{a: {{steps: [{{if: b, uses: {ACTION}@v1, with: {{{given}}}}}]}}}}\n"
    before = steps_of(
        as_commands(load(text.encode(), "a.yml"), ACTION).mapping["jobs"].mapping["a"]
    )
    uses = f"{ACTION}/checkout@v1"
    steps = [] if checkout is None else [{"if": "b", "uses": uses, "with": checkout}]
    assert [step.plain() for step in before[:-1]] == steps


@pytest.mark.parametrize(
    "ref", ["v1", "main", "1" * 39, "1" * 41, "1" * 64, "g" * 40, "${{ a.b }}"]
)
def test_a_gate_without_its_commit_is_no_gate(ref: str) -> None:
    step = f'uses: "{ACTION}@{ref}", with: {{command: gate}}'
    assert {"WF101", "WF103"} <= set(audit(WORKFLOW.replace(GATE, f"id: gate, {step}", 1)))


def test_an_action_of_ours_is_read_too() -> None:
    text = (
        f"runs: {{using: composite, steps: [{{uses: {ACTION}@{SHA}, with: {{command: check}}}}]}}\n"
    )
    found = as_commands(load(text.encode(), "action.yml"), ACTION).get("runs", "steps")
    assert found is not None
    assert found.items[1].plain() == {"uses": f"{ACTION}@{SHA}", "run": "runci check"}


WORKFLOW = ""
TAXONOMY = Taxonomy("", ())


@pytest.fixture(scope="module", autouse=True)
def adopted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The workflow and taxonomy that `runci init` writes for a repository with a GPU."""
    global WORKFLOW, TAXONOMY  # noqa: PLW0603
    root = tmp_path_factory.mktemp("adopted") / "kernels"
    shutil.copytree(FIXTURES / "adopt" / "kernels", root)
    track(root)
    done = runci("init", "--action", f"{ACTION}@{SHA}", cwd=root)
    assert done.returncode == 0, done.stderr
    WORKFLOW = (root / PATH).read_text(encoding="utf-8")
    TAXONOMY = load_taxonomy((root / "runci.yml").read_bytes(), "runci.yml")


GATE = f"id: gate, uses: {ACTION}@{SHA}, with: {{command: gate}}"
ALLOWED = "needs.call-gate.outputs.allowed == 'true' && "


def audit(text: str) -> list[str]:
    seen = read_audit({PATH: text.encode()}, TAXONOMY)
    return [finding.rule for finding in check(seen, frozenset(rules(["WF"])))]


def test_the_workflow_is_proven() -> None:
    assert audit(WORKFLOW) == []
    runs = find_suite_runs({PATH: WORKFLOW.encode()}, TAXONOMY.workflows).runs
    assert {(run.suite, run.job, run.resolved) for run in runs} == {
        ("cpu", "cpu", True),
        ("cuda", "cuda", True),
    }
    lines = WORKFLOW.splitlines()
    assert all(f"suite: {run.suite}," in lines[run.line - 1] for run in runs)


LABELED = {"action": "labeled", "label": {"name": "run-ci"}}
EDITED = {"action": "edited", "changes": {"title": {}}}


@pytest.mark.parametrize(
    ("outcome", "event", "into", "name"),
    [
        ("allow", {"action": "opened"}, "BRANCH", "finish"),
        ("deny", LABELED, "BRANCH", "finish"),
        ("allow", {}, "", "finish"),  # a push
        ("", {"action": "opened"}, "BRANCH", "finish"),  # the gate failed
        # Where the last job looks at nothing it is never the required check.
        ("ignore", {"action": "opened"}, "BRANCH", "nothing to test"),
        ("ignore", LABELED, "BRANCH", "nothing to test"),  # the label is called otherwise
        ("deny", {**LABELED, "label": {"name": "bug"}}, "BRANCH", "nothing to test"),
        ("deny", EDITED, "BRANCH", "nothing to test"),
        ("allow", {**EDITED, "changes": {"base": {}}}, "BRANCH", "finish"),
        # Nor where the same head is compared with another branch.
        ("allow", {"action": "opened"}, "stable", "finish (stable)"),
        ("ignore", LABELED, "stable", "nothing to test"),
    ],
)
def test_the_required_check_is_of_what_was_tested(
    outcome: str, event: dict[str, Any], into: str, name: str
) -> None:
    document = load(WORKFLOW.encode(), PATH)
    (branch,) = document.mapping["on"].mapping["push"].mapping["branches"].items
    github = {"event": event, "base_ref": into.replace("BRANCH", text_of_node(branch))}
    contexts = {"github": github, "needs": {"call-gate": {"outputs": {"outcome": outcome}}}}
    assert value_of(document.mapping["jobs"].mapping["finish"].mapping["name"], contexts) == name


def test_an_action_of_any_name_runs_suites() -> None:
    step = "{uses: o/ci@v1, with: {command: run, suite: gpu}}"
    text = f"on: push\njobs: {{a: {{runs-on: x, steps: [{step}]}}}}\n"
    for commands in (("runci run",), ("ci/run.sh",)):
        settings = Workflows(action="O/ci", commands=commands)
        (run,) = find_suite_runs({PATH: text.encode()}, settings).runs
        assert (run.suite, run.job, run.line) == ("gpu", "a", 2)
    assert not find_suite_runs({PATH: text.encode()}, Workflows()).runs


class Mutant(NamedTuple):
    """One change of the caller's workflow, and the rules that must see it."""

    name: str
    old: str
    new: str
    rules: tuple[str, ...] = ("WF101",)


CHECKOUT = "{uses: actions/checkout@v5, with: {persist-credentials: false}}"
OUTPUTS = "    outputs: {allowed"
MUTANTS = [
    Mutant("the gate's step is gone", f"{{{GATE}}}", "{id: gate, run: 'true'}"),
    Mutant("another command", GATE, GATE.replace("command: gate", "command: check")),
    Mutant("a command of the event", GATE,
           GATE.replace("command: gate", 'command: "${{ github.event.label.name }}"')),
    Mutant("another action", GATE, GATE.replace(ACTION, "other/runci")),
    Mutant("an action of the event", GATE,
           GATE.replace(f"{ACTION}@{SHA}", '"${{ github.head_ref }}"')),
    Mutant("a tag", GATE, GATE.replace(SHA, "v1"), ("WF101", "WF103")),
    Mutant("nobody asks what it said", ALLOWED, ""),
    Mutant("not denied is not allowed", "allowed == 'true'", "allowed != 'false'"),
    Mutant("it ran", ALLOWED, "needs.call-gate.result != 'failure' && "),
    Mutant("always", "if: needs.call-gate.outputs.allowed", "if: always() || x.allowed"),
    Mutant("an answer of its own", '"${{ steps.gate.outputs.allowed }}"', '"true"'),
    Mutant("of another step", "allowed: \"${{ steps.gate.", "allowed: \"${{ steps.other."),
    Mutant("may fail", GATE, f"{GATE}, continue-on-error: true", ("WF103",)),
    Mutant("may be skipped", GATE, f"{GATE}, if: github.actor != 'eve'", ("WF103",)),
    Mutant("PATH of the step", GATE, f"{GATE}, env: {{PATH: x}}", ("WF101", "WF103")),
    Mutant("PYTHONPATH of the workflow", "permissions: {}", "permissions: {}\nenv: {PYTHONPATH: x}",
           ("WF101", "WF103")),
    Mutant("another API", GATE, f"{GATE}, env: {{GITHUB_API_URL: x}}", ("WF101", "WF103")),
    Mutant("files of the event first", f"{{{GATE}}}",
           f'{CHECKOUT}, {{run: "make >> $GITHUB_PATH"}}, {{{GATE}}}', ("WF101", "WF103")),
    *(
        Mutant(f"what the action's {name} checks out first", f"{{{GATE}}}",
               f"{{uses: {ACTION}@{SHA}, with: {{{given}}}}}, {{{after}}}, {{{GATE}}}",
               ("WF101", "WF103"))
        for name, given, after in (
            ("check", "command: check", "run: pip install ."),
            ("plan", "command: plan", "uses: ./ci"),
            ("finish", 'command: finish, ref: "${{ github.sha }}"', "run: make"),
            ("unknown command", 'command: "${{ vars.C }}"', "run: make"),
            ("plan, of which tests are run", "command: plan",
             f"uses: {ACTION}@{SHA}, with: {{command: run, suite: cpu, shard: a}}"),
        )
    ),
    *(
        Mutant(f"a container with {name}", f"{OUTPUTS}", f"    container: {{image: x, {given}}}\n"
               f"{OUTPUTS}", ("WF101", "WF103"))
        for name, given in (
            ("another PATH", "env: {PATH: x}"),
            ("options of the event", 'options: "${{ github.head_ref }}"'),
            ("files of the event", 'volumes: ["${{ github.head_ref }}:/usr/bin"]'),
        )
    ),
    Mutant("text of the event first", f"{{{GATE}}}",
           f'{{run: "echo ${{{{ github.head_ref }}}} >> $GITHUB_ENV"}}, {{{GATE}}}',
           ("WF101", "WF103")),
    Mutant("the label of the payload", ALLOWED,
           "contains(github.event.pull_request.labels.*.name, 'run-ci') && ", ("WF101", "WF104")),
    Mutant("the last job looks at nothing", "command: finish", "command: check", ("WF105",)),
    Mutant("the last job looks where the gate allows",
           "{if: needs.call-gate.outputs.outcome != 'ignore'",
           "{if: needs.call-gate.outputs.allowed == 'true'", ("WF105",)),
    Mutant("the last job looks where a job ran",
           "{if: needs.call-gate.outputs.outcome != 'ignore'",
           "{if: needs.plan.outputs.suites", ("WF105",)),
    Mutant("the last job is skipped", "    if: always()\n", "", ("WF105",)),
    Mutant("the last job waits for less", "needs: [plan, call-gate, cpu, cuda]",
           "needs: [plan, call-gate, cpu]", ("WF105",)),
    Mutant("every shard runs everything", ', shard: "${{ matrix.shard }}"', "", ("WF106",)),
    Mutant("another runner", '"rtx-4090"', '"h100"', ("WF107",)),
    Mutant("no time limit", "    timeout-minutes: 75\n", "", ("WF109",)),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_are_found(mutant: Mutant) -> None:
    assert mutant.old in WORKFLOW
    found = audit(WORKFLOW.replace(mutant.old, mutant.new, 1))
    assert set(mutant.rules) <= set(found), found


def test_the_workflow_for_runner_groups_is_proven() -> None:
    """The page's example: the called one asks the gate, and its caller starts it on a yes."""
    page = (ROOT / "docs/action.md").read_text(encoding="utf-8").replace("OWNER/", "ci-team/")
    page = page.replace("@COMMIT", f"@{SHA}")
    called, caller = page.partition("## Runner groups")[2].split("```yaml\n")[1:]
    called, caller = called.partition("```")[0], caller.partition("```")[0]
    before, _, rest = WORKFLOW.partition("  cuda:\n")
    whole = f"{before}{caller}  finish:{rest.partition('  finish:')[2]}"
    assert audit(whole) == []
    assert audit(whole.replace(ALLOWED, "")) == ["WF101"]
    started = called.replace("  workflow_call:", "  pull_request:\n  workflow_call:")
    assert audit(started) == ["WF101"]  # the gate beside the work is none before it


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
