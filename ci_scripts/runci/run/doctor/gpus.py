"""The edge to the GPUs: what NVML, the CUDA driver and amdsmi say of them. Nothing is judged."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from runci.core.errors import RunciError, UnfitMachine
from runci.core.machine import Gpu
from runci.run import service
from runci.run.doctor import product
from runci.run.doctor.facts import Card, Driver, Lock, Process, Product
from runci.run.gpu import Lease, Nvml, holder, throttle_reasons, visible

LOAD = 0.5  # seconds of products: enough for a clock to rise
LIMIT = 20.0  # seconds for that process, which on a GPU without persistence loads the driver first
ANSWER = 60.0  # seconds for all of it
_POLL = 0.02
_NVCC = 2.0  # seconds for its version
_VARIABLE = "CUDA_VISIBLE_DEVICES"
_MODULE = Path("/proc/driver/nvidia/version")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """The GPUs that were looked at, and what their driver says of itself."""

    cards: tuple[Card, ...]
    driver: Driver | None = None
    unasked: str = ""


def nvidia(wanted: str | None, locks: Path) -> Asked:
    """The GPUs of NVIDIA's driver; `wanted` are indices or UUIDs with commas, else all visible.

    Each is leased while it computes. Raises RunciError for one that is not here.
    """
    driver = Driver(toolkit=_toolkit(), module=_module())
    try:
        nvml = Nvml()
        gpus = _chosen(nvml.gpus(), wanted)
    except UnfitMachine as error:
        cause = error.__cause__
        code = getattr(cause, "value", None)
        return Asked((), replace(driver, error=str(cause), code=code))
    smi = importlib.import_module("pynvml")
    cuda = _ask(smi, smi.nvmlSystemGetCudaDriverVersion)
    shown = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None
    driver = replace(driver, version=nvml.driver(), cuda=shown)
    now = _known(locks)
    cards = [_with_service(_Nvidia(smi, gpu).card(), now) for gpu in gpus]
    return Asked(tuple(_loaded(smi, cards, locks)), driver)


def within(seconds: float, ask: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """What `ask` answers in that time, else `otherwise`: a driver may hang, and nothing ends it."""
    found: list[T] = []
    failed: list[BaseException] = []

    def answer() -> None:
        try:
            found.append(ask())
        except BaseException as error:  # noqa: BLE001  it is raised again by who asked
            failed.append(error)

    asking = threading.Thread(target=answer, daemon=True)
    asking.start()
    asking.join(seconds)
    if failed:
        raise failed[0]
    return found[0] if found else otherwise()


def silent() -> Asked:
    """Of a driver that did not answer."""
    return Asked((), Driver(error=f"it did not answer within {ANSWER:g} s", module=_module()))


def amd(locks: Path) -> Asked | None:
    """The GPUs that amdsmi shows; None where it is not installed. Not verified on AMD hardware."""
    from runci.run.machine import amd_gpus

    machine = amd_gpus()
    if machine is None:
        return None
    smi = importlib.import_module("amdsmi")
    handles = smi.amdsmi_get_processor_handles()
    now = _known(locks)
    cards = tuple(
        _with_service(_amd(smi, gpu, one), now)
        for gpu, one in zip(machine.gpus, handles, strict=True)
    )
    return Asked(cards, None, f"amdsmi, not verified on AMD hardware; driver {machine.driver}")


def _chosen(gpus: Sequence[Gpu], wanted: str | None) -> list[Gpu]:
    if wanted is None:
        return visible(gpus, os.environ.get(_VARIABLE))
    found = visible(gpus, wanted)
    if len(found) != len([part for part in wanted.split(",") if part.strip()]) or not found:
        there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
        raise RunciError(f"--gpus {wanted}: not all of them are here, each once: here are {there}")
    return found


class _Nvidia:
    """What NVML says of one GPU."""

    def __init__(self, smi: Any, gpu: Gpu) -> None:
        self._smi, self._gpu = smi, gpu

    def card(self) -> Card:
        """At rest."""
        smi = self._smi
        memory = self._ask(smi.nvmlDeviceGetMemoryInfo)
        bus = self._ask(smi.nvmlDeviceGetPciInfo)
        rows = self._ask(smi.nvmlDeviceGetRemappedRows)
        pages = self._ask(smi.nvmlDeviceGetRetiredPagesPendingStatus)
        known = rows is not None or pages is not None
        persistence = self._ask(smi.nvmlDeviceGetPersistenceMode)
        return Card(
            self._gpu,
            bus=_text(bus.busId) if bus is not None else "",
            used_mb=None if memory is None else memory.used / (1 << 20),
            processes=tuple(self._processes()),
            ecc=self._ask(
                smi.nvmlDeviceGetTotalEccErrors,
                smi.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                smi.NVML_VOLATILE_ECC,
            ),
            retirement=bool((rows is not None and rows[2]) or pages) if known else None,
            remap_failed=None if rows is None else bool(rows[3]),
            persistence=None if persistence is None else bool(persistence),
            **self.glance(),
        )

    def glance(self) -> dict[str, Any]:
        """What changes under load."""
        smi = self._smi
        mask = self._ask(smi.nvmlDeviceGetCurrentClocksThrottleReasons)
        return {
            "clock": self._ask(smi.nvmlDeviceGetClockInfo, smi.NVML_CLOCK_SM),
            "clock_most": self._ask(smi.nvmlDeviceGetMaxClockInfo, smi.NVML_CLOCK_SM),
            "link": self._ask(smi.nvmlDeviceGetCurrPcieLinkWidth),
            "link_most": self._ask(smi.nvmlDeviceGetMaxPcieLinkWidth),
            "reasons": None if mask is None else throttle_reasons(mask),
        }

    def _processes(self) -> Iterator[Process]:
        smi = self._smi
        for one in (
            *(self._ask(smi.nvmlDeviceGetComputeRunningProcesses) or ()),
            *(self._ask(smi.nvmlDeviceGetMPSComputeRunningProcesses) or ()),
        ):
            yield described(int(one.pid), (one.usedGpuMemory or 0) / (1 << 20))

    def _ask(self, question: Callable[..., T], *arguments: Any) -> T | None:
        return _ask(
            self._smi,
            lambda: question(self._smi.nvmlDeviceGetHandleByUUID(self._gpu.uuid), *arguments),
        )


def _known(locks: Path) -> service.Service:
    """What is out of service; nothing where that cannot be read, which the command then says."""
    try:
        return service.read(locks)
    except RunciError:
        return service.Service()


def _with_service(card: Card, now: service.Service) -> Card:
    out = now.by_uuid().get(card.gpu.uuid)
    cleared = now.cleared.get(card.gpu.uuid, 0.0)
    return replace(card, out=out.sentence if out else "", cleared=cleared)


def _loaded(smi: Any, cards: Sequence[Card], locks: Path) -> Iterator[Card]:
    """The cards, each after its product; all at once."""
    from concurrent.futures import ThreadPoolExecutor

    if cards:
        with ThreadPoolExecutor(len(cards)) as threads:
            yield from threads.map(lambda card: _load(smi, card, locks), cards)


def _load(smi: Any, card: Card, locks: Path) -> Card:
    try:
        with Lease([card.gpu], 1, patience=0, folder=locks, sick=True):
            if card.processes:  # of nobody's lease: it may be full, or be measured
                return replace(card, product=Product(skipped="others use the GPU"))
            return _computed(smi, card)
    except UnfitMachine:
        return replace(card, locked=_lock(card.gpu, locks))


def _computed(smi: Any, card: Card) -> Card:
    """Compute in a process of its own, and look at the GPU meanwhile."""
    command = [sys.executable, "-I", product.__file__, card.gpu.uuid, str(LOAD)]
    asking, until = _Nvidia(smi, card.gpu), time.monotonic() + LIMIT
    seen = []
    with subprocess.Popen(  # noqa: S603  our own interpreter and file
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and time.monotonic() < until:
            seen.append(asking.glance())
            time.sleep(_POLL)
        if process.poll() is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
            if process.poll() is None:  # it hangs in the driver: nothing waits for its pipes
                process.returncode = -9
            return replace(card, product=Product(error=f"a product did not end within {LIMIT:g} s"))
        output, error = process.communicate()
    return replace(card, **highest(seen), product=answered(process.returncode, output, error))


def highest(seen: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The highest of each figure and all reasons; nothing for none."""
    if not seen:
        return {}
    found: dict[str, Any] = {
        name: max((one[name] for one in seen if one[name] is not None), default=None)
        for name in ("clock", "clock_most", "link", "link_most")
    }
    told = [one["reasons"] for one in seen if one["reasons"] is not None]
    found["reasons"] = tuple(dict.fromkeys(r for one in told for r in one)) if told else None
    return found


def answered(status: int, output: bytes, error: bytes) -> Product:
    """What the process of a product said; pure."""
    try:
        return Product(**json.loads(output))
    except (ValueError, TypeError):
        lines = error.decode("utf-8", "replace").strip().splitlines()
        ended = f"ended by signal {-status}" if status < 0 else f"ended with {status}"
        return Product(error=f"the product {ended}" + (f": {lines[-1][:200]}" if lines else ""))


def _lock(gpu: Gpu, locks: Path) -> Lock:
    """Who has this GPU, as far as it left a name and its process can be seen."""
    import psutil

    who = holder(locks, gpu)
    if who is None:
        return Lock("leased, or somebody waits for it")
    said = f"leased by process {who[0]} in {who[1]}"
    if psutil.pid_exists(who[0]):
        return Lock(said)
    heirs = tuple(_having_open(locks / f"{gpu.uuid}.lock"))
    return Lock(said, bool(heirs), heirs)  # without heirs it may be of another container


def _having_open(path: Path) -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for descriptor in folder.iterdir():
                with contextlib.suppress(OSError):
                    if descriptor.readlink() == path.resolve():
                        yield described(int(folder.parent.name))
                        break


def described(pid: int, memory_mb: float | None = None) -> Process:
    """A process by its owner and name."""
    import psutil

    try:
        one = psutil.Process(pid)
        return Process(pid, one.username(), one.name(), memory_mb)
    except psutil.Error:
        return Process(pid, "not visible here", "unknown", memory_mb)


def _amd(smi: Any, gpu: Gpu, handle: Any) -> Card:
    """What amdsmi says of one GPU. Not verified on AMD hardware."""

    def ask(name: str, *keys: str) -> Any:
        try:
            found: Any = getattr(smi, name)(handle)
            for key in keys:
                found = found[key]
        except (smi.AmdSmiException, AttributeError, KeyError, TypeError):
            return None
        return found if isinstance(found, int | list) else None  # else «N/A»

    pages = ask("amdsmi_get_gpu_bad_page_info")
    waiting = [one for one in pages or () if str(one.get("status")).upper().endswith("PENDING")]
    return Card(
        gpu,
        used_mb=ask("amdsmi_get_gpu_vram_usage", "vram_used"),
        ecc=ask("amdsmi_get_gpu_total_ecc_count", "uncorrectable_count"),
        retirement=None if pages is None else bool(waiting),
        link=ask("amdsmi_get_pcie_info", "pcie_metric", "pcie_width"),
        link_most=ask("amdsmi_get_pcie_info", "pcie_static", "max_pcie_width"),
        product=Product(skipped="only NVIDIA's driver is asked to compute"),
    )


def _toolkit() -> str | None:
    """The version of the CUDA toolkit that compilers would find, on the PATH or not."""
    found = shutil.which("nvcc")
    places: Iterable[str | Path | None] = (
        os.environ.get("CUDA_HOME"),
        os.environ.get("CUDA_PATH"),
        Path(found).resolve().parents[1] if found else None,
        "/usr/local/cuda",
    )
    versions = (_version_of(Path(place)) for place in places if place)
    return next(filter(None, versions), None)


def _version_of(toolkit: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((toolkit / "version.json").read_bytes())
        return str(said["cuda"]["version"])
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # one of pip or a distribution
        command = [str(toolkit / "bin" / "nvcc"), "--version"]
        done = subprocess.run(command, capture_output=True, timeout=_NVCC, check=False)  # noqa: S603
        match = re.search(rb", V(\d+(?:\.\d+)+)", done.stdout)
        return match[1].decode() if match else None
    return None


def _module() -> str | None:
    """The version of the driver's part in the kernel, where it is loaded."""
    with contextlib.suppress(OSError):
        match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", _MODULE.read_text("utf-8", "replace"))
        return match[1] if match else None
    return None


def _ask(smi: Any, question: Callable[[], T]) -> T | None:
    """The answer; None where this driver, GPU or version of the library has none."""
    try:
        return question()
    except (smi.NVMLError, AttributeError):
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
