"""The machines that workflows ask for, and which of their labels says what they have."""

from __future__ import annotations

import pytest

from runci import register_cpu_ci
from runci.adopt.machines import (
    Machine,
    find_machines,
    known_jobs,
    machine_of,
    unknown_machines,
)
from runci.core.registration import Backend
from runci.workflows.find import read_document
from runci.workflows.model import Document

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

CUDA, AMD = Backend.CUDA, Backend.AMD


def documents(runs_on: str, more: str = "") -> dict[str, Document]:
    text = f"on: push\njobs:\n  test:\n    runs-on: {runs_on}\n{more}    steps: [run: pytest]\n"
    read = read_document(text.encode(), "a.yml")
    assert isinstance(read, Document)
    return {"a.yml": read}


@pytest.mark.parametrize(
    ("labels", "backend", "label", "gpus"),
    [
        (("self-hosted", "linux", "gpu", "sm86"), CUDA, "sm86", 1),
        (("self-hosted", "gpu"), CUDA, "gpu", 1),
        (("4-gpu-h100",), CUDA, "4-gpu-h100", 4),
        (("linux.rocm.gpu.2",), AMD, "linux.rocm.gpu.2", 1),
        (("self-hosted", "mi300x"), AMD, "mi300x", 1),
        (("self-hosted", "nvidia", "cu124", "v100"), CUDA, "v100", 1),
        (("gpu-ci", "gpu-l40s", "l40s-4gpu", "aws"), CUDA, "l40s-4gpu", 4),
        (("self-hosted", "rtx5090"), CUDA, "rtx5090", 1),
        (("self-hosted", "nvidia", "a6000"), CUDA, "a6000", 1),
        (("self-hosted", "intel", "xpu"), Backend.XPU, "xpu", 1),
        (("linux-npu-910b-2",), Backend.NPU, "linux-npu-910b-2", 1),
        (("self-hosted", "ascend"), Backend.NPU, "ascend", 1),
        (("self-hosted", "musa"), Backend.MUSA, "musa", 1),
        (("self-hosted", "linux", "cpu"), Backend.CPU, "cpu", 0),
        (("self-hosted", "big"), None, "big", 0),
        (("self-hosted",), None, "self-hosted", 0),
    ],
)
def test_what_labels_mean(
    labels: tuple[str, ...], backend: Backend | None, label: str, gpus: int
) -> None:
    found = machine_of(labels)
    assert (found.backend, found.label, found.gpus) == (backend, label, gpus)


JOB = ("a.yml", "test")


@pytest.mark.parametrize(
    ("runs_on", "matrix", "found"),
    [
        ("ubuntu-latest", "", []),
        ("[self-hosted, gpu]", "", ['["self-hosted", "gpu"]']),
        ("gpu-box", "", ['["gpu-box"]']),
        ("{group: gpus}", "", ['{group: "gpus"}']),
        ("{group: g, labels: [h100]}", "", ['{group: "g", labels: ["h100"]}']),
        ("{labels: h100}", "", ['["h100"]']),
        ("'${{ matrix.on }}'", "[ubuntu-latest, h100, mi300]", ['["h100"]', '["mi300"]']),
        ("[self-hosted, '${{ matrix.on }}']", "[h100]", ['["self-hosted", "h100"]']),
    ],
)
def test_runners_of_a_workflow(runs_on: str, matrix: str, found: list[str]) -> None:
    more = f"    strategy: {{matrix: {{on: {matrix}}}}}\n" if matrix else ""
    machines = find_machines(documents(runs_on, more))
    assert sorted(machine.runs_on for machine in machines) == found
    assert all(machine.jobs == (JOB,) for machine in machines)
    assert unknown_machines(documents(runs_on, more)) == ()


def several(**texts: str) -> dict[str, Document]:
    """Workflows by name, each with these jobs below an `on`."""
    on = "on:\n  push:\n  workflow_call:\n    inputs:\n      where: {type: string, default: h200}\n"
    found = {}
    for name, jobs in texts.items():
        read = read_document(f"{on}jobs:\n{jobs}".encode(), f".github/workflows/{name}.yml")
        assert isinstance(read, Document)
        found[read.path] = read
    return found


OUTSIDE = "  t:\n    uses: o/r/.github/workflows/x.yml@main\n    with: {WITH}\n"
INSIDE = "  t:\n    uses: ./.github/workflows/b.yml\n    with: {WITH}\n"
RUNS = "  run: {runs-on: WHERE, steps: [run: pytest]}\n"
AT_A, AT_B = (".github/workflows/a.yml", "t"), (".github/workflows/b.yml", "run")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("runner: linux.rocm.gpu.gfx942.1", ['["linux.rocm.gpu.gfx942.1"]']),
        ("runs-on: h100", ['["h100"]']),
        ("runs_on: h100", ['["h100"]']),
        ("runner-label: h100", ['["h100"]']),
        ('runner: \'["self-hosted", "h100"]\'', ['["self-hosted", "h100"]']),
        ("runner: ubuntu-latest", []),
        ("runner-image: h100", []),
        ("script: h100", []),
    ],
)
def test_a_call_says_where_it_runs(given: str, found: list[str]) -> None:
    made = several(a=OUTSIDE.replace("WITH", given))
    assert [one.runs_on for one in find_machines(made)] == found
    assert all(one.jobs == (AT_A,) for one in find_machines(made))
    assert unknown_machines(made) == ()
    says = "script" not in given and "image" not in given
    assert known_jobs(made) == (frozenset({AT_A}) if says else frozenset())


def test_a_matrix_of_a_call() -> None:
    job = OUTSIDE.replace("WITH", "runner: '${{ matrix.on }}'")
    made = several(a=f"{job}    strategy: {{matrix: {{include: [{{on: h100}}, {{on: mi300}}]}}}}\n")
    assert {one.runs_on for one in find_machines(made)} == {'["h100"]', '["mi300"]'}


@pytest.mark.parametrize(
    ("where", "given", "found"),
    [
        ("'${{ inputs.where }}'", "where: h100", ['["h100"]']),
        ("'${{ inputs.where }}'", "other: h100", ['["h200"]']),  # by its default
        ("'${{ fromJSON(inputs.where) }}'", 'where: \'["a", "h100"]\'', ['["a", "h100"]']),
        ("'${{ inputs.where }}'", "where: ubuntu-latest", []),
    ],
)
def test_a_called_workflow_of_this_repository(where: str, given: str, found: list[str]) -> None:
    made = several(a=INSIDE.replace("WITH", given), b=RUNS.replace("WHERE", where))
    assert [one.runs_on for one in find_machines(made)] == found
    assert all(one.jobs == (AT_B,) for one in find_machines(made))
    assert unknown_machines(made) == ()
    assert known_jobs(made) == {AT_B}


def test_what_a_caller_hands_on_may_be_unknown() -> None:
    given = INSIDE.replace("WITH", "where: '${{ needs.a.outputs.on }}'")
    made = several(a=given, b=RUNS.replace("WHERE", "'${{ inputs.where }}'"))
    assert (find_machines(made), unknown_machines(made)) == ((), (AT_B,))


def test_what_only_a_run_knows() -> None:
    for runs_on in ("'${{ vars.RUNNER }}'", "'${{ fromJSON(needs.a.outputs.on) }}'"):
        assert find_machines(documents(runs_on)) == ()
        assert unknown_machines(documents(runs_on)) == (JOB,)


def test_a_name_for_the_taxonomy() -> None:
    assert Machine(("gpu box/1",), CUDA, "gpu box/1").name == "gpu-box-1"
    assert Machine(("é",), CUDA, "é").name == "gpu"
