"""The machines that workflows ask for, and which of their labels says what they have."""

from __future__ import annotations

import pytest

from runci import register_cpu_ci
from runci.adopt.machines import Machine, find_machines, machine_of, unknown_machines
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


def test_what_only_a_run_knows() -> None:
    for runs_on in ("'${{ vars.RUNNER }}'", "'${{ fromJSON(needs.a.outputs.on) }}'"):
        assert find_machines(documents(runs_on)) == ()
        assert unknown_machines(documents(runs_on)) == (JOB,)


def test_a_name_for_the_taxonomy() -> None:
    assert Machine(("gpu box/1",), CUDA, "gpu box/1").name == "gpu-box-1"
    assert Machine(("é",), CUDA, "é").name == "gpu"
