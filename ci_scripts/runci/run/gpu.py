"""GPUs of one host: shared by locks, their memory back before the next file."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from runci.core.errors import RunciError, UnfitMachine, with_extra
from runci.core.machine import Gpu
from runci.run.turns import Turn
from runci.run.xids import KernelLog, bus_of, xids_of
from runci.text.wording import plural

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from runci.run.service import Out

TOLERANCE_MB = 256.0  # what drivers and other processes come and go with
SYSTEM_MB = 1024.0  # what a driver takes for itself, at most
PATIENCE = 30.0
FOLDER_VARIABLE = "RUNCI_LOCKS"
LOCKS = "runci-locks"  # in the temporary folder, where that variable is not set
_POLL = 0.5
# NVML's bits, https://docs.nvidia.com/deploy/nvml-api (nvmlClocksEventReasons); idle is none.
REASONS = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
# Those below which a card does not usually run; a power cap is its usual limit under load.
SLOWDOWNS = frozenset(
    {"thermal slowdown", "hardware slowdown", "hardware thermal slowdown", "power brake"}
)
# The machine's, and neither the program's nor news of a repair: memory errors that ECC could not
# correct (48, 94, 95, 140), rows that could not be remapped (64), a controller that halted (62),
# NVLink (74), off the bus (79), the GSP (119, 120), no start (143), to be reset (154).
# From NVIDIA's catalog: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143, 154})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """MiB in use, and by process where the driver says so; `fault` is what it said instead."""

    used_mb: float
    processes: Mapping[int, float] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU of a file: what was in use before its first process began and after its last had
    ended, and the driver's errors (Xid) meanwhile."""

    gpu: Gpu
    before: Usage
    after: Usage
    xids: tuple[int, ...] = ()

    @property
    def lost(self) -> str:
        """Why it cannot be used any more, by the driver's own word; else ""."""
        where = f"GPU {self.gpu.index} ({self.gpu.name})"
        fatal = [xid for xid in self.xids if xid in FATAL_XIDS]
        if fatal:
            return f"{where}: Xid {', '.join(map(str, fatal))} since the file began"
        if self.after.fault and not self.before.fault:
            return f"{where} answers no more: {self.after.fault}"
        return f"{where} does not answer: {self.after.fault}" if self.after.fault else ""


class Query(Protocol):
    """What is asked of the driver."""

    def gpus(self) -> list[Gpu]:
        """All GPUs, by index."""

    def usage(self, uuid: str) -> Usage:
        """Memory in use now."""

    def xids(self, uuids: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
        """Errors of these GPUs that came since the last call, by GPU."""


class Nvml:
    """The driver's own library. Raises RunciError where there is none."""

    def __init__(self) -> None:
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise RunciError(f"GPU suites need nvidia-ml-py: {with_extra('run')}") from error
        self._nvml = pynvml
        self._events: Any = None
        self._heard: dict[str, str] = {}  # by bus, the GPUs whose errors are listened to
        self._xids: dict[str, dict[int, None]] = {}
        self._log = KernelLog()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise UnfitMachine(
                f"no NVIDIA GPU can be asked ({error}): run this suite on a machine that has one "
                "(`runci doctor` looks at this one)"
            ) from error

    def gpus(self) -> list[Gpu]:
        """All GPUs, by index. Raises RunciError where one does not even say which it is."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
            return [self._gpu(index) for index in range(count)]
        except self._nvml.NVMLError as error:
            raise UnfitMachine(
                f"the NVIDIA driver cannot say which GPUs are here: {error}: look at the machine "
                "(`runci doctor`, `nvidia-smi`)"
            ) from error

    def driver(self) -> str | None:
        """Its version; None where it does not say."""
        return self._ask(lambda: _text(self._nvml.nvmlSystemGetDriverVersion()))

    def usage(self, uuid: str) -> Usage:
        """Memory in use now. A GPU that is gone ends no run: that is told of the file."""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        except self._nvml.NVMLError as error:
            return Usage(0.0, fault=str(error))
        found: dict[int, float] = {}
        with contextlib.suppress(self._nvml.NVMLError):
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                found[int(process.pid)] = (process.usedGpuMemory or 0) / (1 << 20)
        return Usage(memory.used / (1 << 20), found)

    def busy(self, uuid: str) -> int | None:
        """How much of the last moments it computed, in percent; None where it does not say."""
        handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        return self._ask(lambda: int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu))

    def xids(self, uuids: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
        """Errors (Xid) of these GPUs since the last call, as the driver or the kernel log tell."""
        with contextlib.suppress(self._nvml.NVMLError):
            for uuid in set(uuids) - set(self._heard.values()):
                self._listen(uuid)
        for bus, xid in xids_of(self._log.records()):
            self._note(self._heard.get(bus), xid)
        with contextlib.suppress(self._nvml.NVMLError):
            while self._events is not None:  # until it raises that no more is there
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                self._note(_text(self._nvml.nvmlDeviceGetUUID(event.device)), int(event.eventData))
        # Of several slots each asks for its own.
        return {uuid: tuple(self._xids.pop(uuid, {})) for uuid in uuids}

    def _listen(self, uuid: str) -> None:
        handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        self._heard[bus_of(_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId))] = uuid
        if self._events is None:
            self._events = self._nvml.nvmlEventSetCreate()
        kind = self._nvml.nvmlEventTypeXidCriticalError
        self._nvml.nvmlDeviceRegisterEvents(handle, kind, self._events)

    def _note(self, uuid: str | None, xid: int) -> None:
        if uuid is not None:
            self._xids.setdefault(uuid, {})[xid] = None

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        capability = self._ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
        return Gpu(
            index,
            _text(nvml.nvmlDeviceGetUUID(handle)),
            self._ask(lambda: _text(nvml.nvmlDeviceGetName(handle))) or "",
            ".".join(map(str, capability)) if capability else None,
            self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total / (1 << 20)),
        )

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except self._nvml.NVMLError:
            return None


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
        self._began = self._before
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

    def begin(self) -> None:
        """A file starts: what is in use now is none of its own, nor are errors until now."""
        self._began = {gpu.uuid: self._query.usage(gpu.uuid) for gpu in self._gpus}
        self._query.xids(list(self._began))

    def facts(self) -> tuple[GpuFacts, ...]:
        """What became of the GPUs since `begin`; all processes of the file have ended."""
        xids = self._query.xids([gpu.uuid for gpu in self._gpus])
        return tuple(
            GpuFacts(gpu, self._began[gpu.uuid], self._query.usage(gpu.uuid), xids[gpu.uuid])
            for gpu in self._gpus
        )

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


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """NVML's bit mask as names."""
    return tuple(name for bit, name in REASONS.items() if mask & bit)


def lock_folder() -> Path:
    """Where the locks of this host stand; every job on it must see the same folder."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path(tempfile.gettempdir()) / LOCKS


def visible(gpus: Sequence[Gpu], variable: str | None) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, by index or UUID, in its order; pure.

    As the driver does, the list ends at the first entry that names no GPU.
    """
    if variable is None:
        return list(gpus)
    found: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in variable.split(","))):
        match = [gpu for gpu in gpus if entry == str(gpu.index) or gpu.uuid.startswith(f"{entry}")]
        if len(match) != 1 or match[0] in found:
            break
        found += match
    return found


def holder(folder: Path, gpu: Gpu) -> tuple[int, str] | None:
    """The process that took this GPU last, and its folder, while it did not give it back."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((folder / f"{gpu.uuid}.holder").read_bytes())
        return int(said["pid"]), str(said["cwd"])
    return None


class Lease:
    """Holds `count` GPUs; a context. Raises UnfitMachine where there are too few, or too late.

    Who waits longest is served first: one who needs two is not starved by those who need one. None
    is given that is out of service, unless `sick`. `waiting` is told once which those are, and who
    holds the others. Raises KeyboardInterrupt once `stopped` says so. `longer` is the remedy in the
    message of the latter.
    """

    def __init__(
        self,
        gpus: Sequence[Gpu],
        count: int,
        *,
        patience: float,
        folder: Path | None = None,
        waiting: Callable[[str], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
        longer: str = "wait longer with --lease-timeout",
        sick: bool = False,
    ) -> None:
        self._candidates, self._count, self._patience = gpus, count, patience
        self._sick = sick
        self._folder, self._waiting = folder or lock_folder(), waiting
        self._stopped, self._longer = stopped, longer
        self._locks: list[BaseFileLock] = []
        self.gpus: list[Gpu] = []

    def __enter__(self) -> Lease:
        if len(self._candidates) < self._count:
            raise UnfitMachine(
                f"{self._count} GPUs are needed and {len(self._candidates)} are visible here "
                "(CUDA_VISIBLE_DEVICES?): run this suite on a machine that has them"
            )
        self._make_folder()
        for _, out in self._split()[1]:
            self._waiting(out.sentence)
        try:
            with Turn(self._folder, [gpu.uuid for gpu in self._candidates]) as turn:
                self._wait(turn)
        except OSError as error:
            raise RunciError(f"{self._folder}: cannot wait there: {error.strerror}") from error
        return self

    def _wait(self, turn: Turn) -> None:
        """Until it is this one's turn and enough GPUs are free: who came first is served first."""
        until = time.monotonic() + self._patience
        told = False
        while turn.ahead() or not self._take():
            if time.monotonic() >= until:
                raise UnfitMachine(
                    f"no GPU was free within {self._patience:g} s: {self._holders()}; "
                    f"{self._longer}"
                )
            if not told:
                self._waiting(f"waiting for a GPU: {self._holders()}")
                told = True
            if self._stopped():
                raise KeyboardInterrupt
            time.sleep(_POLL * (1 + random.random()))  # noqa: S311  so that two do not collide

    def __exit__(self, *_: object) -> None:
        self._release()

    def _take(self) -> bool:
        from filelock import FileLock, Timeout

        usable, out = self._split()
        if len(usable) < self._count:
            raise UnfitMachine(
                f"{plural(self._count, 'GPUs')} needed and {len(usable)} in service: "
                f"{'; '.join(one.sentence for _, one in out)}: have the machine looked at; "
                "`runci doctor` looks again, `runci doctor --clear GPU` puts one back in service"
            )
        for gpu in usable:
            lock = FileLock(self._path(gpu, "lock"), timeout=0, mode=0o666)
            try:
                lock.acquire()
            except Timeout:
                continue
            except OSError as error:
                raise RunciError(f"{lock.lock_file}: cannot lock: {error.strerror}") from error
            self._locks.append(lock)
            self.gpus.append(gpu)
            if len(self.gpus) == self._count:
                self._sign()
                return True
        self._release()
        return False

    def _split(self) -> tuple[list[Gpu], list[tuple[Gpu, Out]]]:
        """The GPUs that may be leased now, and those that are out of service."""
        from runci.run import service

        out = {} if self._sick else service.read(self._folder).by_uuid()
        usable = [gpu for gpu in self._candidates if gpu.uuid not in out]
        return usable, [(gpu, out[gpu.uuid]) for gpu in self._candidates if gpu.uuid in out]

    def _release(self) -> None:
        for gpu, lock in zip(self.gpus, self._locks, strict=True):
            with contextlib.suppress(OSError):
                self._path(gpu, "holder").unlink()
            lock.release()
        self._locks, self.gpus = [], []

    def _sign(self) -> None:
        """Write who holds the locks, for those who wait; only the locks themselves count."""
        said = json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd())})
        for gpu in self.gpus:
            with contextlib.suppress(OSError):
                self._path(gpu, "holder").write_text(said, encoding="utf-8")

    def _holders(self) -> str:
        found = [
            f"GPU {gpu.index} by process {who[0]} in {who[1]}"
            for gpu in self._candidates
            if (who := holder(self._folder, gpu)) is not None
        ]
        return "held: " + ("; ".join(found) or "by processes that left no name")

    def _path(self, gpu: Gpu, kind: str) -> Path:
        return self._folder / f"{gpu.uuid}.{kind}"

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                self._folder.chmod(0o1777)  # jobs of other users lock here too
        except OSError as error:
            raise RunciError(
                f"{self._folder}: cannot be made: {error.strerror}: set {FOLDER_VARIABLE} to a "
                "folder that all jobs of this host share"
            ) from error
