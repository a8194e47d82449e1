"""`runci perf measure` on a GPU: the driver's library is played, everything else is real."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_repository import Repository, made_repository

from runci import register_cpu_ci
from runci.nightly.history.additions import additions_of

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    yield from made_repository(tmp_path, monkeypatch)


class Driver(ModuleType):
    """In NVML's place: one GPU, idle and cool."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.name, self.mask, self.celsius = "NVIDIA GeForce RTX 5090", 0x1, 40
        self.running: list[Any] = []
        self.lost_after: float = float("inf")
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            return lambda *arguments: self.answer(name, *arguments)
        raise AttributeError(name)

    def answer(self, name: str, *arguments: Any) -> Any:
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetUUID": "GPU-1a2b",
            "nvmlDeviceGetName": self.name,
            "nvmlSystemGetDriverVersion": b"580.159.04",
            "nvmlDeviceGetCudaComputeCapability": (12, 0),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=600 << 20, total=32607 << 20),
            "nvmlDeviceGetComputeRunningProcesses": self.running,
            "nvmlDeviceGetClockInfo": {1: 2400, 2: 14001}.get(arguments[-1] if arguments else 0),
            "nvmlDeviceGetTemperature": self.celsius,
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.mask,
        }
        self.asked += name == "nvmlDeviceGetName"
        if name not in answers or (name == "nvmlDeviceGetName" and self.asked > self.lost_after):
            raise self.NVMLError(f"{name}: not supported")
        return answers[name]


@pytest.fixture
def driver(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("runci.nightly.measure.state._PATIENCE", 0.0)
    repository.configure("gpu: RTX 5090", "max_temperature: 85")
    return made


def test_the_benchmark_runs_on_the_leased_gpu(repository: Repository, driver: Driver) -> None:
    driver.running = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=1 << 20)]  # ourselves
    assert repository.measure() == 0
    record = repository.record()
    assert record.versions["gpu"] == "GPU-1a2b"
    assert (record.machine.gpu, record.machine.driver) == (driver.name, "580.159.04")
    assert (record.machine.capability, record.series_id("a").driver_major) == ("12.0", 580)
    assert (record.before.sm_clock, record.before.memory_clock) == (2400, 14001)
    assert (record.before.temperature, record.before.memory_used) == (40, 600)
    assert record.before.power is None  # this driver does not say
    assert (record.before.throttled, record.before.processes) == ((), ())
    assert len(record.during) == len(record.order) == 5
    assert (tuple(repository.output.parent.joinpath("locks").glob("GPU-1a2b.holder"))) == ()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mask": 0x40}, "throttled before (hardware thermal slowdown)"),
        ({"celsius": 86}, "too hot before: 86 °C"),
        (
            {"running": [SimpleNamespace(pid=1, usedGpuMemory=None)]},
            f"other processes on the GPU before: {psutil.Process(1).name()} (pid 1): end them",
        ),
        ({"lost_after": 2}, "NVIDIA GeForce RTX 5090 could not be asked any more at the end"),
    ],
)
def test_a_gpu_that_is_off(
    repository: Repository, driver: Driver, changed: dict[str, Any], reason: str
) -> None:
    vars(driver).update(changed)
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable[0].startswith(reason)
    assert len(record.measurements) == 2  # raw figures are kept


def test_on_another_gpu_nothing_runs(repository: Repository, driver: Driver) -> None:
    driver.name = "NVIDIA H200"
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable[0].startswith("wrong SKU: NVIDIA H200, ")
    assert (record.order, record.measurements) == ((), ())
    assert additions_of(record, "record.json").nights[0].unusable == record.unusable


def test_there_must_be_such_a_gpu(
    repository: Repository, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.measure("--device", "1") == 2
    said = capsys.readouterr().err
    assert "--device 1: " in said and "(0: NVIDIA GeForce RTX 5090)" in said


def test_without_a_driver_a_gpu_benchmark_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    repository.configure("gpu: RTX 5090")
    assert repository.measure() == 2
    assert "GPU" in capsys.readouterr().err


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
