"""From facts to suites: neighbours, machines, and who runs what no workflow does."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import yaml

from runci import register_cpu_ci
from runci.adopt.hardware import GPU, Clue
from runci.adopt.machines import Machine, machine_of
from runci.adopt.propose import NOBODY, Facts, FileFact, Proposal, Ran, propose
from runci.adopt.pytest_files import Collected, PytestSettings
from runci.adopt.taxonomy_text import runner_names, taxonomy_text
from runci.adopt.workflow_text import NO_ACTION, workflow_text
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Taxonomy
from runci.core.labels import Group, Label, serves
from runci.core.registration import Backend, Registration, output_name
from runci.core.source import at
from runci.workflows.runs import PathRun

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

CPU, CUDA, AMD = Backend.CPU, Backend.CUDA, Backend.AMD
ON_GPU = (Clue(GPU, 3, ".cuda()"),)


def facts(
    tests: dict[str, bool],
    machines: tuple[Machine, ...] = (),
    runs: tuple[Ran, ...] = (),
    others: tuple[str, ...] = (),
) -> Facts:
    """A repository with these test files, and whether each asks for a GPU."""
    read = tuple(FileFact(path, ON_GPU if gpu else ()) for path, gpu in tests.items())
    jobs = frozenset({*(job for one in machines for job in one.jobs), ("w.yml", "cpu")})
    chosen = Collected(tuple(tests))
    return Facts(PytestSettings(), chosen, read, machines, runs=runs, jobs=jobs, others=others)


@pytest.mark.parametrize(
    ("tests", "on_cpu"),
    [
        ({"t/a.py": True, "t/b.py": True, "t/c.py": False}, set()),
        ({"t/a.py": True, "t/b.py": False}, {"t/b.py"}),  # half is not most
        ({"t/a.py": True, "t/b.py": True, "t/u/c.py": False}, {"t/u/c.py"}),  # another folder
        ({"a.py": True, "b.py": True, "c.py": False}, {"c.py"}),  # the root is no subject
        ({"t/a.py": True, "t/b.py": True, "t/cpu/c.py": False}, {"t/cpu/c.py"}),
    ],
)
def test_a_file_without_a_sign_goes_with_most_of_its_folder(
    tests: dict[str, bool], on_cpu: set[str]
) -> None:
    made = propose(facts(tests))
    assert {path for path, guess in made.guesses.items() if guess.backends == (CPU,)} == on_cpu


def test_what_a_cpu_job_runs_today_stays_there() -> None:
    run = Ran("w.yml", PathRun("w.yml", 9, "t/c.py", "cpu"))
    made = propose(facts({"t/a.py": True, "t/b.py": True, "t/c.py": False}, runs=(run,)))
    assert made.guesses["t/c.py"].backends == (CPU,)


H100 = machine_of(("self-hosted", "h100"), (("w.yml", "a"),))
A100 = machine_of(("self-hosted", "a100"), (("w.yml", "b"),))
MI300 = machine_of(("self-hosted", "mi300"), (("v.yml", "a"),))
BIG = machine_of(("self-hosted", "big"), (("w.yml", "c"),))


@pytest.mark.parametrize(
    ("machines", "others", "named", "backend", "label", "run_by"),
    [
        ((H100, A100), (), (), CUDA, "h100", ""),
        ((MI300,), (), (), AMD, "mi300", ""),
        ((BIG,), (), (), CUDA, None, NOBODY),
        ((), ("Buildkite",), (), CUDA, None, "Buildkite"),
        ((H100,), ("Buildkite",), (), CUDA, "h100", ""),
        ((BIG,), (), ("self-hosted", "big"), CUDA, "big", ""),
        ((H100,), (), ("gfx942",), AMD, "gfx942", ""),
    ],
)
def test_the_machine_of_a_gpu_suite(
    machines: tuple[Machine, ...],
    others: tuple[str, ...],
    named: tuple[str, ...],
    backend: Backend,
    label: str | None,
    run_by: str,
) -> None:
    (suite,) = propose(facts({"t/a.py": True}, machines, others=others), named).suites
    found = suite.machine.label if suite.machine is not None else None
    assert (suite.backend, found, suite.run_by) == (backend, label, run_by)


@pytest.mark.parametrize(
    ("runs_on", "label"),
    [
        ((("self-hosted", "h100"), ""), "h100"),
        (((), "gpus"), Group("gpus")),
        ((("h100",), "lab"), Group("lab", ("h100",))),
        ((("linux",), "lab-h100"), Group("lab-h100")),
    ],
)
def test_the_runner_that_is_declared_serves_the_job_that_it_is_from(
    runs_on: tuple[tuple[str, ...], str], label: Label
) -> None:
    """So that the workflow that is written beside runs the suite on its own runner."""
    labels, group = runs_on
    machine = machine_of(labels, (("w.yml", "a"),), group)
    made = propose(facts({"t/test_a.py": True}, (machine,)))
    (runner,) = load_taxonomy(taxonomy_text(made, NO_ACTION).encode(), "runci.yml").runners.values()
    assert runner.label == label
    assert serves(runner.label, Group(group, labels))


def test_a_file_for_any_gpu_goes_to_nvidia_s_where_nobody_runs_it_yet() -> None:
    often = machine_of(("gfx942",), (("v.yml", "a"), ("v.yml", "b")))
    (suite,) = propose(facts({"t/a.py": True}, (often, H100))).suites
    assert (suite.backend, suite.machine) == (CUDA, H100)


@pytest.mark.parametrize(
    ("machines", "job", "backends"),
    [
        ((H100,), "a", (CUDA,)),
        ((H100, BIG), "a", (CUDA,)),
        ((machine_of(("xpu",), (("w.yml", "a"),)),), "a", (Backend.XPU,)),
        ((H100, machine_of(("gfx942",), (("w.yml", "a"),))), "a", (CUDA, AMD)),  # by a matrix
        ((H100, machine_of(("big",), (("w.yml", "a"),))), "a", (CPU,)),  # may have none
        ((H100,), "calls", (CPU,)),  # no job says where it runs
    ],
)
def test_where_a_file_without_a_sign_runs_today(
    machines: tuple[Machine, ...], job: str, backends: tuple[Backend, ...]
) -> None:
    run = Ran("w.yml", PathRun("w.yml", 9, "t/a.py", job))
    made = propose(facts({"t/a.py": False}, machines, (run,)))
    assert made.guesses["t/a.py"].backends == backends
    assert "without one runs it" not in made.guesses["t/a.py"].why


def test_machines_that_jobs_tell_apart_are_suites_with_runners_of_their_own() -> None:
    """Also two whose telling label is the same, of different numbers of GPUs."""
    small = Machine(("a", "gpu"), CUDA, "gpu", 1, (("w.yml", "a"),))
    large = Machine(("b", "gpu"), CUDA, "gpu", 4, (("w.yml", "b"),))
    runs = tuple(Ran("w.yml", PathRun("w.yml", 9, f"t/test_{job}.py", job)) for job in "ab")
    made = propose(facts({"t/test_a.py": True, "t/test_b.py": True}, (small, large), runs))
    assert [(suite.name, suite.files) for suite in made.suites] == [
        ("cuda", ("t/test_a.py",)),
        ("cuda-gpu", ("t/test_b.py",)),
    ]
    assert runner_names(made) == {(CUDA, "cuda"): "gpu", (CUDA, "cuda-gpu"): "gpu-2"}
    read = load_taxonomy(taxonomy_text(made, NO_ACTION).encode(), "runci.yml")
    assert {name: runner.gpus for name, runner in read.runners.items()} == {"gpu": 1, "gpu-2": 4}


@pytest.mark.parametrize("number", [1, 40])
def test_long_lists_have_a_line_each(number: int) -> None:
    """The same taxonomy, as few or many as the files are that no glob says together."""
    tests = {f"t{n:02}/test_a_long_name.py": True for n in range(number)}
    other = {f"t{n:02}/test_b_long_name.py": False for n in range(number)}
    seen = facts(tests | other)
    marked = tuple(
        dataclasses.replace(one, marks=(("gpu",), ())) if "_b_" in one.path else one
        for one in seen.tests
    )
    made = propose(dataclasses.replace(seen, tests=marked))
    made = dataclasses.replace(
        made,
        exclude=tuple(f"t{n:02}/test_c_long_name.py" for n in range(number)),
        suites=tuple(
            dataclasses.replace(one, globs=(), marked=(("gpu", tuple(other)),))
            for one in made.suites
        ),
    )
    text = taxonomy_text(made, NO_ACTION)
    assert max(map(len, text.splitlines())) <= 110
    read = load_taxonomy(text.encode(), "runci.yml")
    assert read.globs(next(iter(tests))).exclude[2:] == made.exclude


def registered(path: str, backend: Backend, *pair: str) -> FileFact:
    """A file with one call: of a suite, or of a stage and a runner config."""
    suite, stage, config = (pair[0], None, None) if len(pair) == 1 else (None, *pair)
    call = Registration(backend, 1.0, suite, stage, config, False, None, None, at(1))
    return FileFact(path, registers=True, calls=(call,))


def written(*tests: FileFact, machines: tuple[Machine, ...] = ()) -> tuple[Proposal, Taxonomy, Any]:
    """What is proposed for files, as the loader and GitHub read it."""
    chosen = Collected(tuple(test.path for test in tests))
    made = propose(Facts(PytestSettings(), chosen, tests, machines))
    read = load_taxonomy(taxonomy_text(made, NO_ACTION).encode(), "runci.yml")
    return made, read, yaml.safe_load(workflow_text(made, "main", NO_ACTION))


@pytest.mark.parametrize(
    "name",
    [
        "x:\n    runs-on: evil\n  y",
        "a b",
        "${{ github.token }}",
        "a, b",
        "é",
        "a\n",
        "-a",
        "\x1b[2J",
    ],
)
def test_a_suite_that_no_taxonomy_can_have_is_not_written(name: str) -> None:
    """It would be text of a test file in a workflow."""
    odd = [registered("t/test_a.py", CPU, name), registered("t/test_b.py", CPU, "s", name)]
    fine = registered("t/test_c.py", CPU, "fine")
    made, read, workflow = written(*odd, fine)
    assert [suite.name for suite in made.suites] == ["fine"]
    assert [*read.suites] == [(CPU, "fine")]
    assert [*workflow["jobs"]] == ["plan", "fine", "finish"]


@pytest.mark.parametrize(
    "name", ["null", "true", "1", "1e3", "1_000", "a.b", "plan", "finish", "GATE"]
)
def test_names_that_yaml_or_a_workflow_takes_for_something_else(name: str) -> None:
    _, read, workflow = written(registered("t/test_a.py", CPU, name), FileFact("t/test_b.py"))
    assert set(read.suites) == {(CPU, name), (CPU, "cpu")}
    jobs = {job: suite for job, (suite,) in read.workflows.jobs.items()}
    (own,) = set(workflow["jobs"]) - {"plan", "cpu", "finish"}
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_-]*", own)
    assert jobs.get(own, own) == name
    job = workflow["jobs"][own]
    assert job["steps"][-1]["with"]["suite"] == name
    assert f".{output_name(CPU, name)})" in job["if"]
    assert workflow["jobs"]["finish"]["needs"] == ["plan", "cpu", own]


def test_suites_of_one_name_on_two_backends_keep_their_machines() -> None:
    gpu = Machine(("self-hosted", "h100"), CUDA, "h100", 1, (("w.yml", "a"),))
    both = (registered("t/test_a.py", CPU, "unit"), registered("t/test_b.py", CUDA, "unit"))
    _, read, workflow = written(*both, machines=(gpu,))
    runners = {key: read.runners[str(suite.runner)].label for key, suite in read.suites.items()}
    assert runners == {(CPU, "unit"): "ubuntu-latest", (CUDA, "unit"): "h100"}
    on = {job: one["runs-on"] for job, one in workflow["jobs"].items() if "strategy" in one}
    assert on == {"unit": "ubuntu-latest", "cuda-unit": ["self-hosted", "h100"]}


def test_a_runner_that_calls_of_two_backends_name_has_a_gpu() -> None:
    gpu = Machine(("self-hosted", "h100"), CUDA, "h100", 1, (("w.yml", "a"),))
    both = (
        registered("t/test_a.py", CPU, "a", "small"),
        registered("t/test_b.py", CUDA, "b", "small"),
    )
    _, read, _ = written(*both, machines=(gpu,))
    assert (read.runners["small"].label, read.runners["small"].gpus) == ("h100", 1)


def test_a_suite_of_calls_keeps_its_name_before_others() -> None:
    _, read, _ = written(registered("t/test_a.py", CPU, "cpu"), FileFact("t/test_b.py"))
    assert {name: bool(suite.tests) for (_, name), suite in read.suites.items()} == {
        "cpu": False,
        "cpu-2": True,
    }


def test_labels_that_json_writes_otherwise_than_yaml() -> None:
    label = 'gpu-🚀\u2028"x"'
    machine = Machine(("self-hosted", label), CUDA, label, 1, (("w.yml", "a"),))
    test = FileFact("t/test_a.py", ON_GPU)
    _, read, workflow = written(test, machines=(machine,))
    assert workflow["jobs"]["cuda"]["runs-on"] == ["self-hosted", label]
    assert [runner.label for runner in read.runners.values()] == [label]
