"""The workflows of this repository: what they promise beyond what `runci audit` proves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.events import BASE, EXTRA
from runci.gate_authority import ours
from runci.gate_request import GateRequest
from runci.workflows.find import read_document
from runci.workflows.model import Document

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
FILES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github").rglob("*.yml"))
    if path.parent != ROOT / ".github"
}
WORKFLOWS = sorted(path for path in FILES if "/workflows/" in path)
BASE_TEST = ".github/workflows/pr-test.yml"
EXTRA_TEST = ".github/workflows/pr-test-extra.yml"


@pytest.mark.parametrize(("path", "labels"), [(BASE_TEST, BASE), (EXTRA_TEST, EXTRA)])
def test_the_lanes_know_the_labels_of_the_gate(path: str, labels: tuple[str, ...]) -> None:
    """A label that only the gate knows would give no check, one that only they know a green one."""
    wanted = str(list(ours(GateRequest(needed_labels=labels)))).replace("'", '"')
    assert re.findall(r"!contains\(fromJSON\('(.+?)'\)", FILES[path]) == [wanted] * 2


@pytest.mark.parametrize("path", WORKFLOWS)
def test_every_job_has_a_timeout_and_only_the_permissions_that_it_names(path: str) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    permissions = document.root.get("permissions")
    assert permissions is not None and permissions.plain() == {}
    for job in document.jobs.values():
        assert job.get("permissions") is not None
        assert job.get("uses") is not None or job.get("timeout-minutes") is not None
        assert job.get("secrets") is None


@pytest.mark.parametrize("path", sorted(FILES))
def test_actions_are_pinned_and_no_expression_reaches_a_shell(path: str) -> None:
    for uses in re.findall(r"uses: (\S+.*)", FILES[path]):
        assert re.fullmatch(r"\./\.github/\S+|actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", uses)
    for run in re.findall(r"run: (\|\n(?:        .*\n| *\n)+|.*\n)", FILES[path]):
        assert "${{" not in run
    checkouts = FILES[path].count("uses: actions/checkout@")
    assert FILES[path].count("persist-credentials: false") == checkouts


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
