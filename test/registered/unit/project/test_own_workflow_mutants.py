"""The workflows of this repository are proven; every way of breaking them is found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from runci import register_cpu_ci
from runci.checks.registry import rules
from runci.checks.wf import check as check_audit
from runci.checks.wf.audit import read_audit
from runci.config.suites import load_taxonomy
from runci.read.yamlpos import load

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
TAXONOMY = load_taxonomy((ROOT / "test/suites.yml").read_bytes(), "test/suites.yml")
FILES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github").rglob("*.yml"))
    if path.parent != ROOT / ".github"
}
BASE_TEST = ".github/workflows/pr-test.yml"
EXTRA_TEST = ".github/workflows/pr-test-extra.yml"
KERNEL = ".github/workflows/pr-test-jit-kernel.yml"
GATE = ".github/workflows/pr-gate.yml"
SLASH = ".github/workflows/slash-command.yml"
STATES = ".github/workflows/pr-states.yml"
NIGHTLY = ".github/workflows/nightly-sm120.yml"
WATCH = ".github/workflows/nightly-watch.yml"
FINISH = ".github/actions/finish/action.yml"
RULESET = ".github/ruleset.json"
FILES[RULESET] = (ROOT / RULESET).read_text(encoding="utf-8")


class Mutant(NamedTuple):
    """One change to one file: what it is, where, which text becomes which, and who must see it.

    The text may stand several times; `at` says which of them is changed, from 0. `started`: a pull
    request starts the workflow, too, so that nothing but the gate keeps a stranger out.
    """

    name: str
    path: str
    old: str
    new: str
    rules: tuple[str, ...] = ("WF101",)
    at: int = 0
    started: bool = False


ALLOWED = "needs.call-gate.outputs.allowed == 'true' &&"
ASKED = f"!cancelled() && {ALLOWED}"
RUNS = "    needs: [check-changes, call-gate, lint, base-a]\n"
CALL = "    uses: ./.github/workflows/pr-gate.yml # zizmor: ignore[self-repository]\n"
DECIDE = "run: runci gate --ignore-is-ok $EXTRA\n"
ALWAYS = "    if: always()\n"
NIGHT = ALLOWED.removesuffix(" &&")
ASK = "      - name: Ask the gate again, now that the machine is here\n"

MUTANTS = [
    # What the GPU jobs ask.
    Mutant("base-b asks nothing", BASE_TEST, ALLOWED, ""),
    Mutant("the kernel's caller asks nothing", BASE_TEST, ALLOWED, "", at=1),
    Mutant("always()", BASE_TEST, ASKED, "always() ||"),
    Mutant("always(), too", EXTRA_TEST, ASKED, f"always() || {ALLOWED}"),
    Mutant("not denied is not allowed", BASE_TEST, ALLOWED, ALLOWED.replace("== 't", "!= 't")),
    Mutant(
        "anything but 'false'",
        BASE_TEST,
        ALLOWED,
        "needs.call-gate.outputs.allowed != 'false' &&",
    ),
    Mutant(
        "not ignored is not allowed",
        BASE_TEST,
        ALLOWED,
        "needs.call-gate.outputs.outcome != 'ignore' &&",
    ),
    Mutant(
        "skipped is accepted",
        BASE_TEST,
        ALLOWED,
        "(needs.call-gate.outputs.allowed == 'true' || needs.call-gate.result == 'skipped') &&",
    ),
    Mutant(
        "everything but a failure is accepted",
        BASE_TEST,
        ALLOWED,
        "needs.call-gate.result != 'failure' &&",
    ),
    Mutant(
        "the bypass lifts the gate, too",
        BASE_TEST,
        f"{ALLOWED}\n      needs.check-changes.result == 'success' &&\n      (needs",
        "(needs.call-gate.outputs.allowed == 'true' || needs.call-gate.outputs.outcome == '' ||"
        " needs",
    ),
    Mutant(
        "the label of the payload",
        BASE_TEST,
        ALLOWED,
        "contains(github.event.pull_request.labels.*.name, 'run-ci') &&",
        ("WF101", "WF104"),
    ),
    Mutant(
        "the label of the payload, too",
        EXTRA_TEST,
        ALLOWED,
        "(needs.call-gate.outputs.allowed == 'true' ||"
        " github.event.label.name == 'run-ci-extra') &&",
        ("WF104",),
    ),
    Mutant(
        "the draft state of the payload",
        BASE_TEST,
        ALLOWED,
        f"{ALLOWED} github.event.pull_request.draft == false &&",
        ("WF104",),
    ),
    Mutant(
        "waits for other jobs only",
        BASE_TEST,
        f"{RUNS}    if: >-\n      {ASKED}\n",
        "    needs: [check-changes, lint, base-a]\n    if: >-\n      !cancelled() &&\n",
    ),
    Mutant(
        "waits for nothing",
        EXTRA_TEST,
        f"{RUNS}    if: >-\n      {ASKED}\n      needs.check-changes.result == 'success' &&\n",
        "    if: >-\n      needs.check-changes.result != 'failure' ||\n",
    ),
    Mutant("by author", BASE_TEST, ALLOWED, "github.actor == 'maintainer' &&"),
    Mutant("by event", BASE_TEST, ALLOWED, "github.event_name == 'pull_request' &&"),
    # The gate.
    Mutant("the gate is a comment", GATE, DECIDE, "run: echo runci gate $EXTRA\n"),
    Mutant("the gate may fail", GATE, DECIDE, DECIDE.replace("\n", " || true\n"), ("WF103",)),
    Mutant(
        "the gate answers for itself",
        GATE,
        DECIDE,
        'run: echo "allowed=true" >> "$GITHUB_OUTPUT"\n',
    ),
    Mutant("the gate only explains", GATE, DECIDE, "run: runci gate --explain event.json $EXTRA\n"),
    Mutant("an option that explains", GATE, DECIDE, "run: runci gate --expl=event.json $EXTRA\n"),
    Mutant("a variable that explains", GATE, "'--extra' ||", "'--explain event.json' ||"),
    Mutant("a variable of somebody", GATE, "'--extra' ||", "vars.EXTRA ||"),
    Mutant("a variable that is not there", GATE, "          EXTRA:", "          OTHER:"),
    Mutant(
        "a default for the answer",
        GATE,
        "value: ${{ jobs.gate.outputs.allowed }}",
        "value: ${{ jobs.gate.outputs.allowed || 'true' }}",
    ),
    Mutant(
        "the result for the answer",
        GATE,
        "value: ${{ jobs.gate.outputs.allowed }}",
        "value: ${{ jobs.gate.result == 'success' }}",
        ("WF101",),
    ),
    Mutant(
        "another step's answer",
        GATE,
        "allowed: ${{ steps.gate.outputs.allowed }}",
        "allowed: ${{ steps.gates.outputs.allowed || 'true' }}",
    ),
    Mutant(
        "the gate is tolerated",
        GATE,
        "    timeout-minutes: 10\n",
        "    timeout-minutes: 10\n    continue-on-error: true\n",
        ("WF103",),
    ),
    Mutant(
        "the gate is skipped by a path",
        BASE_TEST,
        CALL,
        "    if: contains(github.event.head_commit.message, 'kernel')\n" + CALL,
        ("WF103",),
    ),
    Mutant("the gate waits", BASE_TEST, CALL, "    needs: check-changes\n" + CALL, ("WF103",)),
    Mutant("the gate on our machine", GATE, "runs-on: ubuntu-latest", "runs-on: 1-gpu-5090"),
    Mutant(
        "the gate of somebody else",
        BASE_TEST,
        CALL,
        "    uses: other/repository/.github/workflows/pr-gate.yml@main\n",
    ),
    # Ways around.
    Mutant(
        "the kernel's tests start by themselves",
        KERNEL,
        "on:\n  workflow_call:",
        "on:\n  pull_request:\n  workflow_call:",
    ),
    Mutant("a comment reaches a GPU", SLASH, "runs-on: ubuntu-latest", "runs-on: 1-gpu-5090"),
    Mutant("a state reaches a GPU", STATES, "runs-on: ubuntu-latest", "runs-on: [gpu]"),
    Mutant(
        "a runner that is computed",
        BASE_TEST,
        "runs-on: ubuntu-latest",
        "runs-on: ${{ vars.CPU_RUNNER }}",
    ),
    Mutant(
        "pull_request_target",
        BASE_TEST,
        "on:\n  pull_request:\n",
        "on:\n  pull_request_target:\n",
        ("WF110",),
    ),
    # What must run, and what must be seen.
    Mutant("the end is skipped by a failure", BASE_TEST, ALWAYS, "", ("WF105",)),
    Mutant(
        "the end is skipped by a label",
        BASE_TEST,
        ALWAYS,
        "    if: always() && github.event.action != 'labeled'\n",
        ("WF105",),
    ),
    Mutant(
        "the end is skipped by the gate",
        EXTRA_TEST,
        ALWAYS,
        "    if: always() && needs.call-gate.outputs.outcome != 'deny'\n",
        ("WF105",),
    ),
    Mutant(
        "the end tolerates what it finds",
        FINISH,
        "    - name: Every job did its part\n",
        "    - name: Every job did its part\n      continue-on-error: true\n",
        ("WF105",),
    ),
    Mutant(
        "the end tolerates what is missing",
        FINISH,
        "    - name: Every planned test ran\n",
        "    - name: Every planned test ran\n      continue-on-error: true\n",
        ("WF105",),
    ),
    Mutant(
        "the end does not look",
        EXTRA_TEST,
        "        uses: ./.github/actions/finish # zizmor: ignore[self-repository]\n        with:\n",
        "        run: echo 'runci verify plan.json results'\n        env:\n",
        ("WF105",),
    ),
    Mutant(
        "two ends of one name",
        EXTRA_TEST,
        "  pr-test-extra-finish:\n    name: >-\n",
        "  pr-test-extra-finish:\n    name: lint / lint\n    x-name: >-\n",
        ("WF102",),
    ),
    Mutant(
        "every job of the matrix runs everything",
        KERNEL,
        "          shard: ${{ matrix.shard }}\n",
        "          shard: all\n",
        ("WF106",),
    ),
    Mutant("on another runner", KERNEL, "runs-on: 1-gpu-5090", "runs-on: 1-gpu-h100", ("WF107",)),
    Mutant(
        "concurrency by branch",
        BASE_TEST,
        "github.event.pull_request.number || github.run_id",
        "github.head_ref || github.run_id",
        ("WF108",),
    ),
    Mutant(
        "concurrency for all",
        EXTRA_TEST,
        "github.event.pull_request.number || github.run_id",
        "github.base_ref",
        ("WF108",),
    ),
    Mutant(
        "a shell that skips the gate",
        GATE,
        "    timeout-minutes: 10\n",
        "    timeout-minutes: 10\n    defaults: {run: {shell: 'bash -n {0}'}}\n",
        ("WF103",),
    ),
    Mutant(
        "another runci first in PATH",
        GATE,
        "permissions: {}\n",
        "permissions: {}\nenv: {PATH: bin}\n",
        ("WF103",),
    ),
    Mutant(
        "the last job may fail",
        BASE_TEST,
        ALWAYS,
        f"{ALWAYS}    continue-on-error: true\n",
        ("WF105",),
    ),
    Mutant("no timeout on a GPU", KERNEL, "    timeout-minutes: 45\n", "", ("WF109",)),
    Mutant(
        "a token stays on a GPU's disk",
        KERNEL,
        "          persist-credentials: false\n",
        "",
        ("WF109",),
        at=1,
    ),
    # The nightly, which a pull request must not reach the GPU through even if it could start it.
    Mutant("the nightly's tests ask nothing", NIGHTLY, ALLOWED, "", started=True),
    Mutant(
        "measuring asks nothing",
        NIGHTLY,
        f"!cancelled() && {NIGHT} &&",
        "!cancelled() &&",
        started=True,
    ),
    Mutant(
        "measuring, always",
        NIGHTLY,
        f"!cancelled() && {NIGHT} &&",
        f"always() || {NIGHT} &&",
        started=True,
    ),
    Mutant(
        "measuring waits for no gate",
        NIGHTLY,
        "    needs: [plan, call-gate, nightly-kernel-5090]\n    if: >-\n"
        f"      !cancelled() && {NIGHT} &&",
        "    needs: [plan, nightly-kernel-5090]\n    if: >-\n      !cancelled() &&",
        started=True,
    ),
    Mutant(
        "measuring after any gate",
        NIGHTLY,
        f"!cancelled() && {NIGHT} &&",
        "!cancelled() && needs.call-gate.result != 'skipped' &&",
        started=True,
    ),
    Mutant("by schedule or by anybody", NIGHTLY, NIGHT, "!inputs.accept", started=True),
    Mutant(
        "the nightly is planned on our machine",
        NIGHTLY,
        "runs-on: ubuntu-latest",
        "runs-on: 1-gpu-5090",
        started=True,
    ),
    Mutant(
        "the page is drawn on our machine",
        NIGHTLY,
        "runs-on: ubuntu-latest",
        "runs-on: 1-gpu-5090",
        at=2,
        started=True,
    ),
    Mutant(
        "the nightly's gate waits",
        NIGHTLY,
        CALL,
        f"    needs: plan\n{CALL}",
        ("WF103",),
        started=True,
    ),
    Mutant(
        "the gate is asked in vain",
        NIGHTLY,
        "run: runci gate\n",
        "run: runci gate || true\n",
        ("WF103",),
    ),
    Mutant(
        "the gate of the measuring may fail",
        NIGHTLY,
        ASK,
        f"{ASK}        continue-on-error: true\n",
        ("WF103",),
        at=1,
    ),
    Mutant(
        "the gate is asked by hand only",
        NIGHTLY,
        ASK,
        f"{ASK}        if: github.event_name == 'workflow_dispatch'\n",
        ("WF103",),
    ),
    Mutant(
        "the nightly elsewhere", NIGHTLY, "runs-on: 1-gpu-5090", "runs-on: 1-gpu-h100", ("WF107",)
    ),
    Mutant(
        "each shard of the night is all of it",
        NIGHTLY,
        "          shard: ${{ matrix.shard }}\n",
        "          shard: all\n",
        ("WF106",),
    ),
    Mutant("a night without end", NIGHTLY, "    timeout-minutes: 150\n", "", ("WF109",)),
    Mutant("measuring without end", NIGHTLY, "    timeout-minutes: 150\n", "", ("WF109",), at=1),
    Mutant(
        "a token stays beside the history",
        NIGHTLY,
        "          path: .perf-history\n          persist-credentials: false\n",
        "          path: .perf-history\n",
        ("WF109",),
    ),
    Mutant(
        "the watch on our machine, for everybody",
        WATCH,
        "runs-on: ubuntu-latest",
        "runs-on: 1-gpu-5090",
        started=True,
    ),
    Mutant(
        "the GPU's gate by a variable that nobody need have set",
        KERNEL,
        "ref: ${{ github.event.repository.default_branch }}",
        "ref: ${{ vars.GATE }}",
        ("WF103", "WF112"),
    ),
    Mutant(
        "the kernel's caller has less than its jobs ask for",
        BASE_TEST,
        "      issues: read # gate: labels and comments\n",
        "",
        ("WF113",),
    ),
    Mutant("no check is required", RULESET, '"required_status_checks",', '"creation",', ("WF111",)),
    Mutant(
        "a GPU's job is required, whose skip is green",
        RULESET,
        '"pr-test-finish"',
        '"base-b-test-1-gpu-small"',
        ("WF111",),
    ),
]


def audited(changes: dict[str, str]) -> set[str]:
    files = {path: text.encode() for path, text in {**FILES, **changes}.items()}
    ruleset = RULESET, load(files.pop(RULESET), RULESET)
    audit = read_audit(files, TAXONOMY, (), ruleset)
    return {finding.rule for finding in check_audit(audit, frozenset(rules(("WF",))))}


def started(text: str) -> str:
    """The workflow as it would be if pull requests started it, too."""
    assert text.count("\non:\n  schedule:\n") == 1
    return text.replace("\non:\n", "\non:\n  pull_request:\n")


def changed(mutant: Mutant) -> str:
    text = FILES[mutant.path]
    parts = (started(text) if mutant.started else text).split(mutant.old)
    assert len(parts) > mutant.at + 1, "the mutant changes nothing"
    before, after = parts[: mutant.at + 1], parts[mutant.at + 1 :]
    return mutant.old.join(before) + mutant.new + mutant.old.join(after)


def test_they_are_proven() -> None:
    assert audited({}) == set()


@pytest.mark.parametrize("path", [NIGHTLY, WATCH])
def test_no_pull_request_could_use_the_gpu_of_the_night(path: str) -> None:
    found = audited({path: started(FILES[path])})
    assert not found & {rule for m in MUTANTS if m.started for rule in m.rules}


def test_the_names_of_the_mutants_are_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants(mutant: Mutant) -> None:
    assert audited({mutant.path: changed(mutant)}) >= set(mutant.rules)


def test_every_rule_has_a_mutant() -> None:
    about_workflows = {rule for rule in rules(("WF",)) if rule.startswith("WF")}
    assert {rule for mutant in MUTANTS for rule in mutant.rules} == about_workflows


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
