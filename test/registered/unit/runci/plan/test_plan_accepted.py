"""What is accepted and therefore not planned: listed in the plan, and said by verify."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import results_of, write_results
from trees import CLEAN, IMPORT, TEST, TESTS, make_tree
from trees import runci as run

from runci import register_cpu_ci
from runci.core.errors import Exit
from runci.plan.model import from_json

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

NOWHERE = 'register_cpu_ci(est_time=5, suite="none")'
FILE = f"{TESTS}/test_y.py"


def runci(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(*arguments, cwd=cwd, XDG_CACHE_HOME=os.devnull)


def tree(root: Path, comment: str = "") -> Path:
    return make_tree(
        root, {f"{TESTS}/test_x.py": CLEAN, FILE: f"{IMPORT}{NOWHERE}{comment}\n{TEST}"}
    )


def planned(root: Path, *arguments: str, cwd: Path | None = None) -> dict:
    done = runci("plan", "--all", "--format", "json", *arguments, cwd=cwd or root)
    assert done.returncode == Exit.OK, done.stderr
    return json.loads(done.stdout)


def test_verify_says_what_is_accepted(tmp_path: Path) -> None:
    root = tree(tmp_path, "  # runci: ignore[RT201] tracker 7")
    document = planned(root, "--output", "plan.json")
    assert document["accepted"] == [
        {
            "path": FILE,
            "line": 3,
            "text": "register_cpu_ci: cpu has no suite 'none'",
            "rule": "RT201",
            "why": "tracker 7",
        }
    ]
    plan = from_json((root / "plan.json").read_bytes(), "plan.json")
    write_results(root / "results", results_of(plan))
    done = runci("verify", "plan.json", "results", cwd=root)
    assert done.returncode == Exit.OK
    assert f"accepted: 1 test: {FILE}:3 (RT201: tracker 7)" in " ".join(done.stdout.split())


@pytest.mark.parametrize("change", [{"accepted": []}, {"why": "x"}, {"line": 4}])
def test_what_is_accepted_cannot_be_edited(tmp_path: Path, change: dict) -> None:
    root = tree(tmp_path, "  # runci: ignore[RT201] tracker 7")
    document = planned(root, "--output", "plan.json")
    (document if "accepted" in change else document["accepted"][0]).update(change)
    (root / "plan.json").write_text(json.dumps(document))
    done = runci("verify", "plan.json", ".", cwd=root)
    assert (done.returncode, "digest" in done.stderr) == (Exit.USAGE, True)


@pytest.mark.parametrize("arguments", [(), ("--baseline", "runci-baseline.json")])
def test_a_plan_names_no_folder_of_its_machine(tmp_path: Path, arguments: Sequence[str]) -> None:
    plans = []
    for name in ("a", "b"):
        root = tree(tmp_path / name)
        assert runci("lint", "--select", "RT201", "--write-baseline", cwd=root).returncode == 0
        plans.append(planned(root, *arguments))
        if not arguments:
            plans.append(planned(root, "--root", "../..", cwd=root / TESTS))
    assert all(plan == plans[0] for plan in plans)
    assert plans[0]["accepted"][0]["why"] == "listed in runci-baseline.json"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
