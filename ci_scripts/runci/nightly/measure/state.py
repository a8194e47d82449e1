"""The edge to the machine: which GPU, how it fares at a moment, and what holds its clocks down."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from runci.config.perf import Benchmark
from runci.core.errors import RunciError
from runci.core.machine import Gpu
from runci.nightly.record import Machine, MachineState
from runci.run.gpu import Nvml, throttle_reasons, visible
from runci.text.terminal import note

_PATIENCE = 10.0  # seconds until the memory of a process that ended is back
_LEASE = 3600.0  # seconds for another job of this host to give the GPU back
_LONGER = "measure when that job has ended"
T = TypeVar("T")


class Host:
    """A machine whose GPU, if any, is not what is measured; `gpu` is then its processor."""

    def machine(self) -> Machine:
        """The processor and the host; the driver is 0."""
        model = cpu_model()
        return Machine(f"cpu: {model}", "0", host=platform.node(), cpu=model)

    def state(self) -> MachineState:
        """The load."""
        return MachineState(now(), load=_load())

    def glance(self) -> MachineState | None:
        """Nothing."""
        return None


class Card:
    """One GPU, by UUID: CUDA_VISIBLE_DEVICES numbers them differently."""

    def __init__(self, gpu: Gpu, nvml: Any) -> None:
        self.gpu, self._nvml = gpu, nvml

    def machine(self) -> Machine:
        """The GPU, its driver and the host. Raises RunciError where it no longer answers."""
        try:
            handle = self._handle()
            name = _text(self._nvml.nvmlDeviceGetName(handle))
            driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError as error:
            raise RunciError(f"{self.gpu.name} cannot be asked: {error}") from error
        capability = self._ask(self._nvml.nvmlDeviceGetCudaComputeCapability)
        shown = ".".join(map(str, capability)) if capability else None
        return Machine(name, driver, platform.node(), cpu_model(), shown)

    def state(self) -> MachineState:
        """All of it; waits a little for the memory of what has just ended."""
        until = time.monotonic() + _PATIENCE
        while True:
            others, used = self._others(), self._used()
            if not others or time.monotonic() >= until:
                break
            time.sleep(0.5)
        return self._now(others, used)

    def glance(self) -> MachineState | None:
        """As `state`, while something of ours runs: without processes and memory."""
        return self._now((), None)

    def _now(self, processes: tuple[str, ...], used: int | None) -> MachineState:
        nvml = self._nvml
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage)
        mask = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        return MachineState(
            at=now(),
            sm_clock=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            memory_clock=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            temperature=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power=None if milliwatts is None else milliwatts / 1000,
            memory_used=used,
            throttled=throttle_reasons(mask or 0),
            processes=processes,
            load=_load(),
        )

    def _used(self) -> int | None:
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.used) >> 20

    def _others(self) -> tuple[str, ...]:
        """Processes that compute there, without this one and what it started."""
        nvml = self._nvml
        running = [
            *(self._ask(nvml.nvmlDeviceGetComputeRunningProcesses) or ()),
            *(self._ask(nvml.nvmlDeviceGetMPSComputeRunningProcesses) or ()),
        ]
        ours = _own() if running else set()
        found = {int(one.pid): one.usedGpuMemory for one in running if int(one.pid) not in ours}
        return tuple(_described(pid, used) for pid, used in sorted(found.items()))

    def _ask(self, question: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return question(self._handle(), *arguments)
        except self._nvml.NVMLError:
            return None

    def _handle(self) -> Any:
        return self._nvml.nvmlDeviceGetHandleByUUID(self.gpu.uuid)


Probe: TypeAlias = Host | Card


def find_card(index: int) -> Card:
    """GPU `index` of those that CUDA_VISIBLE_DEVICES leaves.

    Raises RunciError where there is no driver, no nvidia-ml-py, or no such GPU.
    """
    import importlib

    gpus = visible(Nvml().gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not 0 <= index < len(gpus):
        names = ", ".join(f"{number}: {gpu.name}" for number, gpu in enumerate(gpus))
        raise RunciError(
            f"--device {index}: there is no such GPU here ({names or 'there is none'})"
        )
    return Card(gpus[index], importlib.import_module("pynvml"))


def leased_probe(
    benchmark: Benchmark, device: int, stack: contextlib.ExitStack
) -> tuple[Probe, dict[str, str]]:
    """The machine to ask, and the variables that keep the benchmark on its GPU, which is leased."""
    if benchmark.gpu is None:
        return Host(), {}
    from runci.run.gpu import Lease

    card = find_card(device)
    stack.enter_context(Lease([card.gpu], 1, patience=_LEASE, waiting=note, longer=_LONGER))
    return card, {"CUDA_VISIBLE_DEVICES": card.gpu.uuid}


def highest(states: Iterable[MachineState]) -> MachineState | None:
    """The highest of each figure and all reasons; the time is the first's. None for none."""
    found = list(states)
    if not found:
        return None

    def top(values: Iterable[Any]) -> Any:
        return max((value for value in values if value is not None), default=None)

    return MachineState(
        at=found[0].at,
        sm_clock=top(one.sm_clock for one in found),
        memory_clock=top(one.memory_clock for one in found),
        temperature=top(one.temperature for one in found),
        power=top(one.power for one in found),
        memory_used=top(one.memory_used for one in found),
        throttled=tuple(dict.fromkeys(name for one in found for name in one.throttled)),
        load=top(one.load for one in found),
    )


def cpu_model() -> str:
    """The processor's name, as far as the system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def now() -> str:
    """The time, UTC, as ISO 8601."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def _own() -> set[int]:
    import psutil

    this = psutil.Process()
    return {this.pid, *(child.pid for child in this.children(recursive=True))}


def _described(pid: int, used: int | None) -> str:
    """A process by its name: its command line may hold secrets, and records are public."""
    import psutil

    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        name = "unknown"
    memory = "" if used is None else f", {used >> 20:,} MiB"
    return f"{name} (pid {pid}{memory})"


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
