"""What `init` says that it could not know, and how long its workflow is."""

from __future__ import annotations

import pytest

from runci import register_cpu_ci
from runci.adopt.machines import Machine, machine_of
from runci.adopt.propose import Facts, FileFact, Proposal, Ran, propose
from runci.adopt.pytest_files import Collected, PytestSettings
from runci.adopt.report import Asked, report
from runci.adopt.workflow_text import NO_ACTION, workflow_text
from runci.adopt.write import WORKFLOW, Change
from runci.workflows.runs import PathRun

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

H100 = machine_of(("self-hosted", "linux", "h100"), (("w.yml", "gpu"),))
A100 = machine_of(("self-hosted", "linux", "a100"), (("w.yml", "other"),))
XPU = machine_of(("self-hosted", "intel", "xpu"), (("w.yml", "xpu"),))
JOBS = frozenset({("w.yml", "gpu"), ("w.yml", "cpu"), ("w.yml", "other"), ("w.yml", "xpu")})


def found(jobs: str, *machines: Machine, tests: int = 1) -> Facts:
    """Files without a sign of a GPU, which these jobs run."""
    paths = [f"tests/a_long_name_of_a_folder/test_{number}.py" for number in range(tests)]
    files = tuple(FileFact(path) for path in paths)
    runs = tuple(
        Ran("w.yml", PathRun("w.yml", 9, "tests", job, ("test_*.py",))) for job in jobs.split()
    )
    return Facts(PytestSettings(), Collected(tuple(paths)), files, machines, runs=runs, jobs=JOBS)


def said(facts: Facts) -> str:
    made = propose(facts)
    workflow = Change(WORKFLOW, None, workflow_text(made, "main", NO_ACTION).encode())
    return report(facts, made, [workflow], Asked(NO_ACTION), 500)


@pytest.mark.parametrize(
    ("jobs", "asked"), [("cpu", False), ("gpu", False), ("cpu gpu", True), ("cpu other gpu", True)]
)
def test_what_jobs_with_and_without_a_gpu_run_is_asked(jobs: str, asked: bool) -> None:
    text = said(found(jobs, H100))
    assert ("whether these need a GPU" in text) == asked


@pytest.mark.parametrize(
    ("jobs", "machines", "unused"),
    [
        ("gpu", (H100,), ()),
        ("gpu", (H100, A100), (A100,)),
        ("gpu", (H100, XPU), (XPU,)),  # the only one of its vendor
        ("gpu xpu", (H100, XPU), ()),
    ],
)
def test_machines_for_which_no_test_was_found(
    jobs: str, machines: tuple[Machine, ...], unused: tuple[Machine, ...]
) -> None:
    lines = said(found(jobs, *machines)).splitlines()
    (asked, *_) = [*(line for line in lines if "which tests need these" in line), ""]
    assert [one for one in machines if one.runs_on in asked] == list(unused)


def of_suites(number: int) -> Proposal:
    """One suite on GitHub's machines, the others on machines of one's own."""
    machines = [machine_of((f"gfx94{at}",), (("w.yml", f"job{at}"),)) for at in range(number - 1)]
    paths = [f"tests/{at}/test_x.py" for at in range(number)]
    runs = [
        Ran("w.yml", PathRun("w.yml", 9, path, f"job{at}")) for at, path in enumerate(paths[:-1])
    ]
    jobs = frozenset(job for one in machines for job in one.jobs)
    files = tuple(FileFact(path) for path in paths)
    chosen = Collected(tuple(paths))
    facts = Facts(PytestSettings(), chosen, files, tuple(machines), runs=tuple(runs), jobs=jobs)
    return propose(facts)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_workflow_of_up_to_four_suites_has_at_most_80_lines(number: int) -> None:
    made = of_suites(number)
    assert len(made.suites) == number
    assert len(workflow_text(made, "main", NO_ACTION).splitlines()) <= 80
