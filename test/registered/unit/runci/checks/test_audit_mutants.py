"""A correct set of workflows is proven; every way of breaking it is found."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from runci import register_cpu_ci
from runci.checks.registry import rules
from runci.checks.wf import check as check_audit
from runci.checks.wf.audit import read_audit
from runci.config.suites import load_taxonomy

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

GOOD = Path(__file__).parents[4] / "fixtures/audit/good"
TAXONOMY = load_taxonomy((GOOD / "suites.yml").read_bytes(), "suites.yml")
FILES = {
    path.relative_to(GOOD).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((GOOD / ".github").rglob("*.yml"))
}

TEST = ".github/workflows/pr-test.yml"
JIT = ".github/workflows/pr-test-jit-kernel.yml"
GATE = ".github/workflows/pr-gate.yml"
SLASH = ".github/workflows/slash-command.yml"
NIGHTLY = ".github/workflows/nightly.yml"
ACTION = ".github/actions/gate/action.yml"


class Mutant(NamedTuple):
    """One change to the correct set: what it is, where, the text before and after, who sees it."""

    name: str
    path: str
    old: str
    new: str
    rules: tuple[str, ...] = ("WF101",)


GO = "    if: needs.wait-for-base-a.outputs.go == 'true'\n"
ALLOWED = "    if: needs.call-gate.outputs.allowed == 'true'\n"
ASKS = "needs.call-gate.outputs.allowed == 'true' &&\n      needs.check-changes"
CALL = "    uses: ./.github/workflows/pr-test-jit-kernel.yml\n    with:\n"

MUTANTS = [
    # The condition of a job.
    Mutant("condition removed", TEST, ALLOWED, ""),
    Mutant("always() instead", TEST, ALLOWED, "    if: always()\n"),
    Mutant("or always()", TEST, ALLOWED, ALLOWED[:-1] + " || always()\n"),
    Mutant("or not cancelled", TEST, ALLOWED, ALLOWED[:-1] + " || !cancelled()\n"),
    Mutant("not denied is not allowed", TEST, ALLOWED, ALLOWED.replace("== 'true'", "!= 'false'")),
    Mutant("compared with false", TEST, ALLOWED, ALLOWED.replace("== 'true'", "== 'false'")),
    Mutant("negated", TEST, ALLOWED, "    if: needs.call-gate.outputs.allowed != 'true'\n"),
    Mutant(
        "a misspelt output equals null", TEST, ALLOWED, "    if: needs.call-gate.outputs.ok == 0\n"
    ),
    Mutant(
        "a line end behind }}",
        TEST,
        ALLOWED,
        "    if: |\n      ${{ needs.call-gate.outputs.allowed == 'true' }}\n",
    ),
    Mutant(
        "text behind }}",
        TEST,
        ALLOWED,
        "    if: ${{ needs.call-gate.outputs.allowed }} == 'true'\n",
    ),
    Mutant(
        "result instead of answer", TEST, ALLOWED, "    if: needs.call-gate.result == 'success'\n"
    ),
    Mutant(
        "skipped accepted",
        TEST,
        GO,
        "    if: always() && (needs.wait-for-base-a.outputs.go == 'true' ||"
        " needs.wait-for-base-a.result == 'skipped')\n",
    ),
    Mutant(
        "anything but failure accepted",
        TEST,
        GO,
        "    if: always() && needs.wait-for-base-a.result != 'failure'\n",
    ),
    Mutant(
        "no failure among all needs",
        TEST,
        GO,
        "    if: always() && !contains(needs.*.result, 'failure')\n",
    ),
    Mutant(
        "a label of the payload",
        TEST,
        ALLOWED,
        "    if: always() && contains(github.event.pull_request.labels.*.name, 'run-ci')\n",
        ("WF101", "WF104"),
    ),
    Mutant(
        "the payload's label as a second way",
        TEST,
        ALLOWED,
        ALLOWED[:-1] + " || (always() && github.event.label.name == 'run-ci')\n",
        ("WF101", "WF104"),
    ),
    Mutant("by author", TEST, GO, "    if: always() && github.actor == 'maintainer'\n"),
    Mutant("by branch", TEST, GO, "    if: always() && startsWith(github.head_ref, 'release/')\n"),
    Mutant(
        "by an event of strangers", TEST, GO, "    if: always() && github.event_name != 'push'\n"
    ),
    Mutant("a variable", TEST, GO, "    if: always() && vars.OPEN == 'yes'\n"),
    Mutant("env", TEST, GO, "    if: always() && env.ALLOWED == 'true'\n"),
    Mutant("unreadable", TEST, GO, "    if: always() && (\n"),
    Mutant(
        "case() with the wrong default",
        TEST,
        GO,
        "    if: always() && case(needs.call-gate.result == 'failure', false, true)\n",
    ),
    Mutant("condition removed, gate still needed two jobs before", TEST, GO, "", ()),
    # What a job waits for.
    Mutant(
        "needs and condition dropped",
        TEST,
        "    needs: [check-changes, call-gate, wait-for-base-a]\n" + GO,
        "",
    ),
    Mutant(
        "waits for another job only",
        TEST,
        "    needs: [check-changes, call-gate, wait-for-base-a]\n" + GO,
        "    needs: check-changes\n",
    ),
    # The job between the gate and the machine.
    Mutant(
        "asks the wrong thing between",
        TEST,
        "      go: ${{ needs.call-gate.outputs.allowed }}",
        "      go: ${{ needs.base-a.result == 'success' }}",
        (),
    ),
    Mutant(
        "a default between",
        TEST,
        "      go: ${{ needs.call-gate.outputs.allowed }}",
        "      go: ${{ needs.call-gate.outputs.allowed || 'true' }}",
        (),
    ),
    Mutant(
        "a default between, and always() there",
        TEST,
        "always() && !cancelled() && needs.call-gate.outputs.allowed == 'true' &&\n"
        "      (needs.base-a.result == 'success' ||"
        " contains(github.event.pull_request.title, 'fast'))\n"
        "    runs-on: ubuntu-latest\n    timeout-minutes: 5\n    outputs:\n"
        "      go: ${{ needs.call-gate.outputs.allowed }}",
        "always()\n    runs-on: ubuntu-latest\n    timeout-minutes: 5\n    outputs:\n"
        "      go: ${{ needs.call-gate.outputs.allowed || 'true' }}",
    ),
    # The gate itself.
    Mutant(
        "gate removed",
        GATE,
        "      - id: gate\n        uses: ./.github/actions/gate\n",
        "      - run: 'true'\n        id: gate\n",
    ),
    Mutant(
        "the answer is a constant",
        GATE,
        "      allowed: ${{ steps.gate.outputs.allowed }}",
        "      allowed: 'true'",
    ),
    Mutant(
        "the answer has a default",
        GATE,
        "        value: ${{ jobs.gate.outputs.allowed }}",
        "        value: ${{ jobs.gate.outputs.allowed || 'true' }}",
    ),
    Mutant(
        "an answer of the result",
        GATE,
        "        value: ${{ jobs.gate.outputs.allowed }}",
        "        value: ${{ jobs.gate.result != 'failure' }}",
    ),
    Mutant(
        "an answer from another step",
        GATE,
        "    outputs:\n      allowed: ${{ steps.gate",
        "    outputs:\n      allowed: ${{ steps.other",
    ),
    Mutant(
        "the gate's exit swallowed",
        ACTION,
        "run: runci gate --ignore-is-ok",
        "run: runci gate || echo allowed=true >> $GITHUB_OUTPUT",
    ),
    Mutant(
        "explained instead of decided",
        ACTION,
        "run: runci gate --ignore-is-ok",
        "run: runci gate --explain event.json",
    ),
    Mutant("only said", ACTION, "run: runci gate --ignore-is-ok", "run: echo runci gate"),
    Mutant(
        "a script that mentions it",
        ACTION,
        "run: runci gate --ignore-is-ok",
        "run: bash ask.sh runci gate",
    ),
    Mutant(
        "text of the event in the command",
        ACTION,
        "run: runci gate --ignore-is-ok",
        "run: runci gate ${{ inputs.more }}",
    ),
    Mutant(
        "the gate's action is the pull request's",
        GATE,
        "          ref: ${{ github.event.repository.default_branch }}\n",
        "",
        ("WF101", "WF103"),
    ),
    Mutant(
        "the gate's action is of the commit that is tested",
        GATE,
        "${{ github.event.repository.default_branch }}",
        "${{ github.event.pull_request.head.sha || github.sha }}",
        ("WF101", "WF103"),
    ),
    Mutant(
        "the pull request is checked out over the gate's action",
        GATE,
        "      - id: gate\n",
        "      - uses: actions/checkout@v5\n      - id: gate\n",
        ("WF101", "WF103"),
    ),
    Mutant(
        "a folder of the gate is the pull request's",
        ACTION,
        "    - id: decide\n",
        "    - run: gh pr checkout 1 && pip install .\n      shell: bash\n    - id: decide\n",
        ("WF101", "WF103"),
    ),
    Mutant(
        "the gate's container has a name of the event",
        GATE,
        "    runs-on: ubuntu-latest\n",
        "    runs-on: ubuntu-latest\n    container: x:${{ github.head_ref }}\n",
        ("WF101", "WF103"),
    ),
    Mutant(
        "the gate asks through a proxy",
        ACTION,
        "    - id: decide\n",
        "    - id: decide\n      env: {HTTPS_PROXY: 'http://x'}\n",
        ("WF101", "WF103"),
    ),
    Mutant(
        "the gate runs on our machine",
        GATE,
        "runs-on: ubuntu-latest",
        "runs-on: [self-hosted, cpu]",
    ),
    Mutant(
        "the gate is not there",
        TEST,
        "uses: ./.github/workflows/pr-gate.yml",
        "uses: ./.github/workflows/gate.yml",
    ),
    Mutant(
        "the gate of another repository",
        TEST,
        "uses: ./.github/workflows/pr-gate.yml",
        "uses: other/repo/.github/workflows/pr-gate.yml@main",
    ),
    # Called workflows.
    Mutant("the caller asks nothing", TEST, ASKS, "needs.check-changes", ()),
    Mutant(
        "the caller asks nothing and says yes",
        TEST,
        f"{ASKS}.outputs.kernel == 'true'\n{CALL}      allowed: ${{{{ needs",
        f"needs.check-changes.outputs.kernel == 'true'\n{CALL}      allowed: ${{{{ true || needs",
    ),
    Mutant(
        "the called workflow starts by itself",
        JIT,
        "on:\n  workflow_call:",
        "on:\n  pull_request:\n  workflow_call:",
        (),
    ),
    Mutant(
        "and has a default",
        JIT,
        "on:\n  workflow_call:\n    inputs:\n      allowed: {type: string, required: true}",
        "on:\n  pull_request:\n  workflow_call:\n    inputs:\n"
        "      allowed: {type: string, default: 'true'}",
        (),
    ),
    Mutant("neither asks", JIT, "    if: inputs.allowed == 'true'\n", "", ()),
    # Events.
    Mutant(
        "a pull request starts the nightly",
        NIGHTLY,
        "  workflow_dispatch:\n",
        "  workflow_dispatch:\n  pull_request:\n",
    ),
    Mutant(
        "another workflow starts the nightly",
        NIGHTLY,
        "  workflow_dispatch:\n",
        "  workflow_dispatch:\n  workflow_run: {workflows: [Lint]}\n",
    ),
    Mutant(
        "a review starts the nightly",
        NIGHTLY,
        "  workflow_dispatch:\n",
        "  workflow_dispatch:\n  pull_request_review:\n",
    ),
    Mutant(
        "an unknown event starts the nightly",
        NIGHTLY,
        "  workflow_dispatch:\n",
        "  workflow_dispatch:\n  image_version:\n",
    ),
    Mutant("a comment reaches a machine", SLASH, "runs-on: ubuntu-latest", "runs-on: 1-gpu-5090"),
    Mutant(
        "a comment reaches a group",
        SLASH,
        "runs-on: ubuntu-latest",
        "runs-on: {group: gpus, labels: ubuntu-latest}",
    ),
    Mutant("a label of two", SLASH, "runs-on: ubuntu-latest", "runs-on: [ubuntu-latest, gpu]"),
    Mutant(
        "a computed runner",
        SLASH,
        "runs-on: ubuntu-latest",
        "runs-on: ${{ vars.RUNNER || 'ubuntu-latest' }}",
    ),
    Mutant(
        "a runner of the matrix",
        SLASH,
        "runs-on: ubuntu-latest",
        "strategy: {matrix: {on: [ubuntu-latest, 1-gpu-5090]}}\n    runs-on: ${{ matrix.on }}",
    ),
    Mutant(
        "a comment, with pull_request_target",
        SLASH,
        "on:\n",
        "on:\n  pull_request_target:\n",
        ("WF110",),
    ),
]


def audited(changes: dict[str, str]) -> set[str]:
    files = {path: text.encode() for path, text in {**FILES, **changes}.items()}
    return {
        finding.rule
        for finding in check_audit(read_audit(files, TAXONOMY), frozenset(rules(("WF",))))
    }


def test_the_correct_set_is_proven() -> None:
    assert audited({}) == set()


def test_the_names_of_the_mutants_are_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants(mutant: Mutant) -> None:
    assert FILES[mutant.path].count(mutant.old) == 1, "the mutant changes nothing"
    changed = FILES[mutant.path].replace(mutant.old, mutant.new)
    found = audited({mutant.path: changed})
    assert found >= set(mutant.rules)
    if not mutant.rules:  # a second line of defence holds: still proven
        assert "WF101" not in found


# Mutations of every condition of a tree at once, as regular expressions; also for this
# repository's own workflows.
ANSWER = r"(needs\.[\w-]+\.outputs|inputs)\.allowed == 'true'"
OPERATORS = {
    "always()": (ANSWER, "always()"),
    "anything but no": (ANSWER, r"\1.allowed != 'false'"),
    "an answer, whichever": (ANSWER, r"\1.allowed"),
    "no instead of yes": (ANSWER, r"\1.allowed == 'false'"),
    "negated": (ANSWER, r"!(\1.allowed == 'true')"),
    "or anything": (ANSWER, r"(\1.allowed == 'true' || always())"),
    "or the payload's label": (
        ANSWER,
        r"(\1.allowed == 'true' || contains(github.event.pull_request.labels.*.name, 'run-ci'))",
    ),
    "the gate's answer is a constant": (r"\$\{\{ steps\.[\w-]+\.outputs\.allowed \}\}", "'true'"),
    "the gate's answer has a default": (
        r"(steps\.[\w-]+\.outputs\.allowed) \}\}",
        r"\1 || 'true' }}",
    ),
    "the gate answers by its end": (
        r"jobs\.([\w-]+)\.outputs\.allowed",
        r"jobs.\1.result != 'cancelled'",
    ),
    "the gate's command is gone": (r"\brunci gate\b", "echo"),
    "the gate's command explains": (r"\brunci gate\b", "runci gate --explain"),
    "the gate's command cannot fail": (r"\b(runci gate[^\n]*)", r"\1 || true"),
}

ROOT = Path(__file__).parents[5]
TREES = [tree for tree in (GOOD, ROOT) if (tree / ".github/workflows").is_dir()]


def files_of(tree: Path) -> dict[str, str]:
    return {
        path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("workflows", "actions")
        for path in sorted((tree / ".github" / folder).rglob("*.yml"))
    }


def reached(files: dict[str, str]) -> set[str]:
    """The jobs that the proof fails for."""
    seen = read_audit({path: text.encode() for path, text in files.items()}, TAXONOMY)
    return {f"{f.path}: {f.key}" for f in check_audit(seen, frozenset({"WF101"}))}


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
@pytest.mark.parametrize("operator", OPERATORS)
def test_mutations_of_a_whole_tree(operator: str, tree: Path) -> None:
    files = files_of(tree)
    assert reached(files) == set()
    pattern, text = OPERATORS[operator]
    mutated = {path: re.sub(pattern, text, old) for path, old in files.items()}
    assert mutated != files, "the mutation changes nothing"
    assert reached(mutated) != set()


def test_ones_own_files_may_be_named_the_new_way() -> None:
    # `$/` instead of `./`: GitHub's name for the repository at the commit of the workflow.
    named = {path: text.replace("uses: ./", "uses: $/") for path, text in FILES.items()}
    assert named != FILES
    assert audited(named) == audited({})
    for path, old in ((TEST, ALLOWED), (ACTION, "runci gate")):
        assert old in named[path]
        assert "WF101" in audited({**named, path: named[path].replace(old, "")})


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
