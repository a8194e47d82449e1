"""The nightly's workflows keep what they promise beyond `runci audit`; each promise can break."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

from nightly_promises import FILES, NIGHTLY, WATCH, broken

from runci import register_cpu_ci

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_they_hold() -> None:
    assert broken(FILES) == set()


class Mutant(NamedTuple):
    """One change, and the promise that it breaks; `at` says which of several places, from 0."""

    promise: str
    old: str
    new: str
    path: str = NIGHTLY
    at: int = 0


AFTER_VERDICT = "${{ !cancelled() && needs.verdict.result != 'skipped' }}"
AFTER_TESTS = "    needs: [plan, call-gate, nightly-kernel-5090]\n"
GOING_ON = "      !cancelled() && needs.call-gate.outputs.allowed == 'true' &&"
ONCE_ALLOWED = "      needs.call-gate.outputs.allowed == 'true' &&"
WRITES = "      contents: write # the branch of the history\n"
TELLS = "      issues: write # one for each regression, one for missing nights\n"
DEPLOYS = "      pages: write # the site\n"
NO_ACCEPTANCE = "an acceptance measures nothing"
NOR, THEN = " && !inputs.bisect", " &&\n      "
NO_NIGHT = "a bisection measures no night"

MUTANTS = [
    Mutant("least permissions", WRITES, f"{WRITES}{TELLS}"),
    Mutant("least permissions", TELLS, f"{TELLS}      pull-requests: write\n"),
    Mutant("least permissions", "      contents: read\n", "      contents: write\n"),
    Mutant("least permissions", "      contents: read\n", "      contents: write\n", WATCH),
    Mutant("least permissions", DEPLOYS, f"{DEPLOYS}{WRITES}"),
    Mutant("one night at a time", "cancel-in-progress: false", "cancel-in-progress: true"),
    Mutant("one night at a time", "group: nightly-sm120$", "group: ${{ github.run_id }}$"),
    Mutant("one issue at a time", "group: nightly-notify", "group: nightly-sm120"),
    Mutant("one issue at a time", "group: nightly-notify", "group: nightly-watch", WATCH),
    Mutant("hours", '"37 1 * * *"', '"0 1 * * *"'),
    Mutant("hours", '"37 1 * * *"', '"37 1 * * 1"'),
    Mutant("hours", '"41 12 * * *"', '"41 8 * * *"', WATCH),
    Mutant("after the tests, on the same machine", AFTER_TESTS, "    needs: [plan, call-gate]\n"),
    Mutant("after the tests, on the same machine", "on: 1-gpu-5090", "on: 1-gpu-h100", at=1),
    Mutant("what perf.yml names", "perf measure sm120_ba_gemm", "perf measure sm120_ba"),
    Mutant("what perf.yml names", "ref: perf-history", "ref: gh-pages"),
    Mutant("goes on", GOING_ON, ONCE_ALLOWED),
    Mutant("goes on", GOING_ON, ONCE_ALLOWED, at=1),
    Mutant("goes on", AFTER_VERDICT, "${{ needs.verdict.result == 'success' }}"),
    Mutant("goes on", AFTER_VERDICT, "${{ needs.report.result == 'success' }}", at=1),
    Mutant("goes on", "${{ !cancelled() && needs.w", "${{ needs.w", WATCH),
    Mutant("stops at the gate", GOING_ON, "      !cancelled() &&", at=1),
    Mutant("stops at the gate", AFTER_VERDICT, "${{ !cancelled() }}", at=1),
    Mutant(NO_ACCEPTANCE, f" && !inputs.accept{NOR}{THEN}fromJSON", f"{THEN}fromJSON"),
    Mutant(NO_ACCEPTANCE, " && !inputs.accept &&\n      !inputs", " &&\n      !inputs"),
    Mutant(NO_ACCEPTANCE, f"if: ${{{{ !inputs.accept{NOR} }}}}\n        env", "env"),
    Mutant(NO_NIGHT, f"{NOR}{THEN}fromJSON", f"{THEN}fromJSON"),
    Mutant(NO_NIGHT, "      !inputs.bisect && needs.plan", "      needs.plan"),
    Mutant(NO_NIGHT, "${{ inputs.bisect && needs.call", "${{ !cancelled() || needs.call"),
    Mutant(NO_NIGHT, "always() && steps.bisect", "success() && steps.bisect"),
    Mutant(NO_NIGHT, "[verdict, report, pages, bisect-5090]", "[verdict, report, pages]"),
    Mutant(NO_NIGHT, " --bisect night/bisect", ""),
    Mutant(NO_ACCEPTANCE, "        if: inputs.accept\n", ""),
    Mutant("ends red", "always() && !inputs", "!cancelled() && !inputs"),
    Mutant("ends red", "measure-5090, verdict, report, notify]", "verdict, report, notify]"),
    Mutant("ends red", 'may-skip: ""', "may-skip: measure-5090"),
    Mutant("ends red", "- name: Decide\n", "- name: Decide\n        continue-on-error: true\n"),
    Mutant("text of others", '-- "$METRIC"', '"$METRIC"'),
    Mutant("text of others", '-- "$METRIC"', '"$METRIC"', at=1),
    Mutant("text of others", '--reason="$REASON"', "--reason=$REASON"),
    Mutant("text of others", '--machine="$MACHINE"', "--machine=$MACHINE"),
    Mutant("text of others", "--kind=nightly", "--suite=${{ inputs.suite }}"),
    Mutant("pages write no branch", "- id: deploy\n", "- run: git push\n      - id: deploy\n"),
    Mutant("pages write no branch", " && vars.PERF_PAGES == 'true' }}", " }}"),
    Mutant("the night on which it began", '--night="$NIGHT" --rep', "--rep"),
    Mutant("the night on which it began", '--night="$NIGHT" --plan', "--plan"),
    Mutant("one job writes the history", "perf check --", "perf check --push --", WATCH),
    Mutant("the baseline is another one", 'editable: "true"', 'editable: "false"'),
    Mutant("the baseline is another one", "          kernel: ./kernel\n", ""),
    Mutant("the baseline is another one", "          fetch-depth: 0 # ", "          # "),
    Mutant("a fork is not watched", "    if: ${{ !github.event.repository.fork }}\n", "", WATCH),
    Mutant("a fork is not watched", " && needs.watch.result != 'skipped' }}", " }}", WATCH),
    Mutant("who accepts is not typed", "github.triggering_actor ||", "inputs.by ||"),
    Mutant("the watch needs no machine", "on: ubuntu-latest", "on: 1-gpu-5090", WATCH),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.promise}-{m.new.strip()}")
def test_mutants(mutant: Mutant) -> None:
    parts = FILES[mutant.path].split(mutant.old)
    assert len(parts) > mutant.at + 1, "the mutant changes nothing"
    before, after = parts[: mutant.at + 1], parts[mutant.at + 1 :]
    text = mutant.old.join(before) + mutant.new + mutant.old.join(after)
    assert mutant.promise in broken({**FILES, mutant.path: text})


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
