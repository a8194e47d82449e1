"""What `init` reads of a repository's workflows: which tests which job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.adopt.look import look

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("command", "targets"),
    [
        ("pytest $OPTIONS unit/", {"tests/unit"}),
        ("pytest -x ${OPTIONS} -n 4 unit/", {"tests/unit"}),
        ("pytest $FILES", {"tests/*"}),  # nothing else says what it runs
        ("pytest unit/ $FOLDER/test_x.py", {"tests/unit", "tests/*/test_x.py"}),
        ("rm -rf /mnt/pytest\npytest unit/", {"tests/unit"}),
    ],
)
def test_what_a_job_runs(command: str, targets: set[str], tmp_path: Path) -> None:
    lines = "".join(f"          {line}\n" for line in f"cd tests\n{command}".splitlines())
    workflow = tmp_path / ".github/workflows/w.yml"
    test = tmp_path / "tests/unit/test_x.py"
    for path in (workflow, test):
        path.parent.mkdir(parents=True)
    test.write_text("def test_x(): ...\n")
    workflow.write_text(
        f"on: push\njobs:\n  a:\n    runs-on: h100\n    steps:\n      - run: |\n{lines}"
    )
    assert {ran.run.target for ran in look(tmp_path).runs} == targets
