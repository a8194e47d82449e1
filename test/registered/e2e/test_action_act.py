"""The published action, used by the workflow that `runci init` writes in another repository.

Under act, with the action from this checkout and what it installs really installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from act_adopted import WORKFLOW, Adopted

from runci import register_cpu_ci

register_cpu_ci(est_time=50, stage="base-a", runner_config="cpu")

CHANGED = {"conv.py": "FASTER = True\n", "tests/helpers.py": "FASTER = True\n"}
CPU = {"call-gate", "plan", "cpu"}


def test_a_maintainers_label_starts_the_gpu_job(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path, CHANGED)
    # Where files come from a workflow may say, what else pip does it may not.
    steers = ("permissions: {}\n", "permissions: {}\nenv: {PIP_NO_INDEX: 1, PIP_TARGET: x}\n")
    edit = {f".github/workflows/{WORKFLOW}": steers}
    ran = adopted.run(WORKFLOW, adopted.saved("labeled-by-maintainer-on-fork"), edit=edit)
    assert ran.all_of("success") == {*CPU, "cuda", "finish"} == set(ran.jobs), str(ran)
    # The gate has nothing of the pull request on its machine.
    once = [adopted.merge]
    assert ran.checkouts == {"plan": once * 2, "cpu": once, "cuda": once, "finish": once}
    assert "### GPU jobs may run" in ran.summary
    assert "Success - Main Ask the gate again" in ran.log  # on the GPU's machine, before it
    assert ran.artifacts == {"plan", "results-cpu-cpu-1of1-1", "results-cuda-cuda-1of1-1"}
    assert "5 files of 2 suites ran as planned and executed 5 tests" in ran.summary
    assert "its own" not in ran.summary


FORGES = """\
import glob, json, os, pathlib
from runci.core.result import FileResult, Outcome
from runci.plan.model import read_plan


def test_layout():
    plan = read_plan(os.path.join(os.environ["RUNNER_TEMP"], "runci-plan", "plan.json"))
    for suite in plan.suites:
        for shard in suite.shards:
            for file in shard.files if suite.backend == "cuda" else ():
                of = (suite.name, suite.backend, shard.id, file.path, Outcome.PASSED)
                forged = FileResult(*of, 2, 0, (), 1.0, 1.0, commit=plan.commit, plan=plan.digest)
                into = pathlib.Path(os.environ["RUNNER_TEMP"], "runci-results", f"{shard.id}.json")
                into.write_text(forged.to_json())
"""


def test_without_a_label_no_gpu_job_runs_and_forged_results_count_for_nothing(
    tmp_path: Path,
) -> None:
    adopted = Adopted(tmp_path, {**CHANGED, "tests/test_layout.py": FORGES})
    ran = adopted.run(WORKFLOW, adopted.saved("unlabelled"))
    assert ran.jobs == {"call-gate": "failure", "plan": "success", "cpu": "success"} | {
        "finish": "failure"
    }, str(ran)
    assert "may not run" in ran.summary
    assert "| ❌ | cuda | was skipped: cuda is planned |" in ran.summary
    assert re.search(r"shard cuda-cuda-1of1: GitHub lists no job", ran.summary)
    assert "one artifact holds results of several shards: cpu-cpu-1of1, cuda" in ran.summary


def test_a_change_that_plans_nothing_is_not_green_by_its_own_word(tmp_path: Path) -> None:
    adopted = Adopted(tmp_path, CHANGED)
    adopted.git("checkout", "-q", "faster-gemm")
    taxonomy = adopted.root / "runci.yml"
    taxonomy.write_text(taxonomy.read_text().replace("kind: per-commit", "kind: stress"))
    adopted.git("commit", "-q", "--all", "-m", "sleep")
    adopted.git("checkout", "-q", "--detach", "main")
    adopted.git("merge", "-q", "--no-ff", "-m", "merge", "faster-gemm")
    adopted.merge = adopted.git("rev-parse", "HEAD")
    ran = adopted.run(WORKFLOW, adopted.saved("unlabelled"))
    assert ran.jobs == {"call-gate": "failure", "plan": "success", "finish": "failure"}, str(ran)
    assert "planned and verified by its own runci.yml" in ran.summary
    assert "runci.yml: this change is of what decides what must run" in ran.log


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
