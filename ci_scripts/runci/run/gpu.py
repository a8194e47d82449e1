"""GPU memory: it must be back before the next file starts, and whoever holds it is named.

NVML is asked, never CUDA: no context is made. `Query` can be replaced, so that the decisions are
tested without a GPU.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from runci.errors import RunciError

TOLERANCE_MB = 256.0  # what drivers and other processes come and go with
SYSTEM_MB = 1024.0  # what a driver takes for itself, at most
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine; `uuid` is the same for every process and container."""

    index: int
    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Usage:
    """MiB in use, and by process where the driver says so."""

    used_mb: float
    processes: Mapping[int, float] = field(default_factory=dict)


class Query(Protocol):
    """What is asked of the driver."""

    def gpus(self) -> list[Gpu]:
        """All GPUs, by index."""

    def usage(self, uuid: str) -> Usage:
        """Memory in use now."""


class Nvml:
    """The driver's own library. Raises RunciError where there is none."""

    def __init__(self) -> None:
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise RunciError("GPU suites need nvidia-ml-py: pip install 'runci[run]'") from error
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise RunciError(
                f"no NVIDIA GPU can be asked ({error}): run this suite on a machine that has one"
            ) from error

    def gpus(self) -> list[Gpu]:
        """All GPUs, by index."""
        count = self._nvml.nvmlDeviceGetCount()
        return [self._gpu(index) for index in range(count)]

    def usage(self, uuid: str) -> Usage:
        """Memory in use now."""
        handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        found: dict[int, float] = {}
        with contextlib.suppress(self._nvml.NVMLError):
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                found[int(process.pid)] = (process.usedGpuMemory or 0) / (1 << 20)
        return Usage(memory.used / (1 << 20), found)

    def _gpu(self, index: int) -> Gpu:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        return Gpu(
            index,
            _text(self._nvml.nvmlDeviceGetUUID(handle)),
            _text(self._nvml.nvmlDeviceGetName(handle)),
        )


@dataclass(frozen=True, slots=True)
class Held:
    """Why a GPU is not ready: how much more is in use than before the run, and by whom."""

    gpu: Gpu
    extra_mb: float
    processes: tuple[tuple[int, float], ...]


def held(gpu: Gpu, before: Usage, now: Usage) -> Held | None:
    """Whether memory that was free before the run is in use; pure."""
    extra = now.used_mb - before.used_mb
    new = tuple(sorted((p, mb) for p, mb in now.processes.items() if p not in before.processes))
    return Held(gpu, extra, new) if extra > TOLERANCE_MB or new else None


def taken(found: Held, names: Mapping[int, str]) -> str:
    """The sentence about a GPU that was leased and is not free."""
    return (
        f"GPU {found.gpu.index} ({found.gpu.name}) is in use outside runci's leases: "
        f"{_who(found, names)}: tests may run out of memory"
    )


def culprit(found: Held, after: str | None, names: Mapping[int, str]) -> str:
    """The sentence that names who holds the memory; `after` is the file that ran last."""
    where = f"GPU {found.gpu.index} ({found.gpu.name})"
    since = f" after {after}" if after else ""
    return (
        f"{where} still has {max(found.extra_mb, 0):,.0f} MiB more in use than before the run"
        f"{since}; held by {_who(found, names)}"
    )


def _who(found: Held, names: Mapping[int, str]) -> str:
    known = [f"{names.get(pid, f'pid {pid}')}: {mb:,.0f} MiB" for pid, mb in found.processes]
    return ", ".join(known) or "a process that the driver does not show here"


class MemoryWatch:
    """Says when the GPUs of a slot are as free as they were when it was made."""

    def __init__(self, query: Query, gpus: list[Gpu]) -> None:
        self._query, self._gpus = query, gpus
        self._before = {gpu.uuid: query.usage(gpu.uuid) for gpu in gpus}
        self._since: float | None = None

    def ready(self, now: float) -> tuple[bool, tuple[Held, ...]]:
        """Whether the next file may start, asked again and again; `now` is monotonic.

        After `PATIENCE` seconds it may all the same, and the culprits come with the answer.
        """
        found = tuple(self._held())
        self._since = now if self._since is None else self._since
        if found and now - self._since < PATIENCE:
            return False, ()
        self._since = None
        return True, found

    def in_use(self) -> list[Held]:
        """The GPUs that somebody else used already when this was made."""
        nobody = Usage(SYSTEM_MB)
        found = (held(gpu, nobody, self._before[gpu.uuid]) for gpu in self._gpus)
        return [one for one in found if one is not None]

    def _held(self) -> Iterator[Held]:
        for gpu in self._gpus:
            found = held(gpu, self._before[gpu.uuid], self._query.usage(gpu.uuid))
            if found is not None:
                yield found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
