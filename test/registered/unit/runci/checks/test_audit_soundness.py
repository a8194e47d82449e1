"""What the audit proves against runs that are played: random workflows, each played many times.

The player follows GitHub's documentation job by job, with one value for everything and a gate that
never says yes. Where a job of a GPU starts in one of its runs, the audit must have found it.
"""

from __future__ import annotations

import random
import sys

import pytest

from runci import register_cpu_ci
from runci.checks.wf import check as check_audit
from runci.checks.wf.audit import read_audit
from runci.config.taxonomy import Taxonomy
from runci.read.yamlpos import load
from runci.workflows.conditions import condition
from runci.workflows.evaluate import evaluate, render
from runci.workflows.values import Value, text_of, truth

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

WORKFLOWS = 180
RUNS = 50

ATOMS = (
    "needs.{a}.result == 'success'",
    "needs.{a}.result != 'failure'",
    "needs.{a}.result == 'skipped'",
    "needs.{a}.outputs.x == 'true'",
    "needs.{a}.outputs.x != 'false'",
    "needs.{a}.outputs.allowed == 'true'",
    "needs.{a}.outputs.allowed",
    "contains(needs.*.result, 'failure')",
    "contains(needs.*.outputs.x, 'true')",
    "join(needs.*.result) == 'success'",
    "github.event_name == 'pull_request'",
    "vars.A == 'yes'",
    "vars.B",
    "success()",
    "failure()",
    "always()",
    "cancelled()",
)
OUTPUTS = (
    "true",
    "${{ needs.%s.result == 'success' }}",
    "${{ needs.%s.outputs.x }}",
    "${{ needs.%s.outputs.allowed }}",
    "${{ needs.%s.outputs.allowed || 'true' }}",
    "${{ steps.other.outputs.y }}",
)


class Maker:
    """Makes workflows: some jobs, one of them the gate, some on a GPU."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def workflow(self) -> str:
        count = self.random.randint(3, 6)
        gate = self.random.randrange(count - 1)
        jobs = [self.job(f"j{i}", [f"j{k}" for k in range(i)], i == gate) for i in range(count)]
        return "on: pull_request\njobs:\n" + "".join(jobs)

    def job(self, name: str, before: list[str], gate: bool) -> str:
        needs = self.random.sample(before, self.random.randint(0, min(len(before), 3)))
        lines = [f"{name}:"]
        if needs:
            lines.append(f"  needs: [{', '.join(needs)}]")
        if self.random.random() < 0.75 and not (gate and self.random.random() < 0.5):
            lines.append(f"  if: {self.condition(needs, 2)}")
        if self.random.random() < 0.15:
            lines.append("  continue-on-error: true")
        gpu = not gate and self.random.random() < 0.4
        lines.append(f"  runs-on: {'gpu' if gpu else 'ubuntu-latest'}")
        if gate:
            lines.append("  outputs: {allowed: '${{ steps.gate.outputs.allowed }}'}")
            lines.append("  steps: [{id: gate, run: runci gate}]")
        else:
            text = self.random.choice(OUTPUTS)
            text = text % self.random.choice(needs) if "%s" in text and needs else "true"
            lines.append(f'  outputs: {{x: "{text}"}}')
        return "".join(f"  {line}\n" for line in lines)

    def condition(self, needs: list[str], depth: int) -> str:
        chance = self.random.random()
        if depth and chance < 0.5:
            symbol = self.random.choice(("&&", "&&", "||"))
            return (
                f"({self.condition(needs, depth - 1)} {symbol} {self.condition(needs, depth - 1)})"
            )
        atom = self.random.choice(ATOMS)
        if "{a}" in atom and not needs:
            atom = "vars.A == 'yes'"
        text = atom.format(a=self.random.choice(needs)) if needs else atom
        return f"({text}) == false" if chance > 0.9 else text


class Run:
    """One run of a workflow: what each job gave, and which jobs started."""

    def __init__(self, text: str, chance: random.Random) -> None:
        self.jobs = load(text.encode(), "a.yml").mapping["jobs"].mapping
        self.random = chance
        self.done: dict[str, dict[str, Value]] = {}
        self.started: set[str] = set()
        self.cancelled = False
        self.variables: dict[str, Value] = {
            "a": chance.choice(("yes", "no")),
            "b": chance.choice(("", "x")),
        }

    def play(self) -> set[str]:
        for name in self.jobs:
            # A push may cancel the run at any time.
            self.cancelled = self.cancelled or self.random.random() < 0.05
            self.end(name)
        return self.started

    def needs(self, name: str) -> list[str]:
        node = self.jobs[name].get("needs")
        return [str(item.value) for item in node.items] if node else []

    def before(self, name: str) -> set[str]:
        found = set(self.needs(name))
        return found.union(*(self.before(job) for job in found))

    def contexts(self, name: str) -> dict[str, Value]:
        results = {str(self.done[job]["result"]) for job in self.before(name)}
        return {
            "needs": {job: self.done[job] for job in self.needs(name)},
            "github": {"event_name": "pull_request"},
            "vars": self.variables,
            "success()": results <= {"success"} and not self.cancelled,
            "failure()": "failure" in results,
            "cancelled()": self.cancelled,
        }

    def end(self, name: str) -> None:
        node, contexts = self.jobs[name], self.contexts(name)
        expression = condition(node.get("if"))
        assert expression is not None
        (value,) = evaluate(expression, contexts)
        if not truth(value):
            idle = "cancelled" if self.cancelled and self.random.random() < 0.5 else "skipped"
            self.done[name] = {"result": idle, "outputs": {}}
            return
        self.started.add(name)
        result = self.random.choice(("success", "success", "failure", "cancelled"))
        answer = "false" if result == "success" else self.random.choice(("false", ""))
        steps: dict[str, Value] = {
            "gate": {"outputs": {"allowed": answer}},
            "other": {"outputs": {"y": self.random.choice(("true", "false", ""))}},
        }
        outputs: dict[str, Value] = {}
        for key, text in node.mapping["outputs"].mapping.items():
            (found,) = render(str(text.plain()), {**contexts, "steps": steps})
            lost = result != "success" and self.random.random() < 0.3
            outputs[key] = "" if lost else text_of(found)
        if result == "failure" and node.get("continue-on-error"):
            result = "success"
        self.done[name] = {"result": result, "outputs": outputs}


def found_by_audit(text: str) -> set[str]:
    seen = read_audit({".github/workflows/a.yml": text.encode()}, Taxonomy("suites.yml", ()))
    return {finding.key for finding in check_audit(seen, frozenset({"WF101"}))}


def on_gpu(text: str) -> set[str]:
    jobs = load(text.encode(), "a.yml").mapping["jobs"].mapping
    return {name for name, node in jobs.items() if node.mapping["runs-on"].value == "gpu"}


def played(text: str, seed: int, runs: int) -> set[str]:
    chance = random.Random(seed)
    return set().union(*(Run(text, chance).play() for _ in range(runs))) & on_gpu(text)


@pytest.mark.parametrize("part", range(6))
def test_no_run_starts_what_the_audit_proves(part: int) -> None:
    reached = proven = 0
    for seed in range(part * WORKFLOWS // 6, (part + 1) * WORKFLOWS // 6):
        text = Maker(seed).workflow()
        found = found_by_audit(text)
        started = played(text, seed, RUNS)
        assert started <= found, f"seed {seed}: {started - found} starts in\n{text}"
        reached += len(started)
        proven += len(on_gpu(text) - found)
    assert reached > 20  # the runs are no proof of nothing
    assert proven > 3  # and the audit does not simply report everything


def test_most_of_what_is_found_can_happen() -> None:
    found = started = 0
    for seed in range(1000, 1050):
        text = Maker(seed).workflow()
        found += len(found_by_audit(text))
        started += len(played(text, seed, 120))
    assert started > 0.8 * found


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
