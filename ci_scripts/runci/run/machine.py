"""The GPUs of this machine, asked for by backend and compared with what a runner declares."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runci.config.taxonomy import Runner
from runci.core.devices import Devices, devices
from runci.core.errors import UnfitMachine
from runci.core.labels import shown_label
from runci.core.machine import Gpu, Machine, declaration, differences, mismatch
from runci.core.registration import Backend
from runci.run import service
from runci.run.gpu import MemoryWatch, Nvml, lock_folder, visible
from runci.run.loop import Slot
from runci.text.wording import plural

_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Here:
    """What a suite may use here: `usable` are leased, and a job is told its share of them.

    `variable` tells it, by what `entries` have for each UUID; "" where the backend has no variable.
    With `query` there is somebody to ask for a GPU's memory. `not_compared` is as in Machine:
    `usable` then only stand for the GPUs.
    """

    backend: Backend
    usable: tuple[Gpu, ...]
    variable: str
    entries: Mapping[str, str]
    driver: str | None = None
    query: Nvml | None = None
    not_compared: str = ""

    def slot(self, share: Sequence[Gpu]) -> Slot:
        """Where a job runs that has leased `share`."""
        told = ",".join(self.entries[gpu.uuid] for gpu in share)
        known = () if self.not_compared else tuple(share)
        names = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in known)
        where = f" ({self.variable}={told})" if self.variable else ""
        return Slot(
            {self.variable: told} if self.variable else {},
            names or plural(len(share), f"{self.backend.value} GPUs") + where,
            Machine(known, self.driver, self.not_compared),
            MemoryWatch(self.query, list(share)) if self.query is not None else None,
        )


def find(backend: Backend, runner: Runner, config: str, count: int) -> Here:
    """The GPUs that a suite of this runner may use, `count` of them at once.

    Raises UnfitMachine where they are not the declared ones; `config` is the file that declares
    them. Of CUDA's GPUs those that are not may be there too: they are not used.
    """
    if backend is Backend.CUDA:
        query, variable = Nvml(), os.environ.get(_VARIABLE)
        seen = visible(query.gpus(), variable)
        right = tuple(gpu for gpu in seen if not differences(runner, gpu))
        if len(right) < runner.gpus:
            hidden = f" ({_VARIABLE} is {variable!r})" if variable is not None else ""
            raise _refusal(mismatch(runner, seen) + hidden, runner, config)
        entries = {gpu.uuid: gpu.uuid for gpu in right}
        return Here(backend, right, _VARIABLE, entries, query.driver(), query)
    asked = amd_gpus() if backend is Backend.AMD else None
    here = devices(backend, os.environ, len(asked.gpus) if asked else runner.gpus)
    if asked is not None:
        found = _amd(asked, here, runner, config)
        _enough(here, f"here are {len(asked.gpus)}", count)
        return found
    _enough(here, f"{config}:{runner.line}: runner {runner.name} has {runner.gpus}", count)
    # Nobody can be asked, so the machine is taken to have what is declared, or what it was given.
    usable = tuple(Gpu(n, f"{backend.value}-{place}", "") for n, place in enumerate(here.places))
    entries = dict(zip((gpu.uuid for gpu in usable), here.entries, strict=True))
    why = "amdsmi is not installed"
    why = why if backend is Backend.AMD else f"runci asks no driver for {backend.value} GPUs"
    return Here(backend, usable, here.variable, entries, not_compared=why)


def _amd(asked: Machine, here: Devices, runner: Runner, config: str) -> Here:
    """Those of AMD's GPUs that the environment leaves; each must be a declared one, and well."""
    by_place = {str(gpu.index): gpu for gpu in asked.gpus}
    if unknown := [place for place in here.places if place not in by_place]:
        raise _refusal(
            f"{here.variable} names {unknown[0]!r}, and here are {', '.join(by_place) or 'none'}; "
            "write numbers",
            runner,
            config,
        )
    seen = tuple(by_place[place] for place in here.places)
    if wrong := mismatch(runner, seen, cuda=False):
        hidden = f" ({here.variable} is {os.environ[here.variable]!r})" if here.given else ""
        raise _refusal(wrong + hidden, runner, config)
    out = service.read(lock_folder()).by_uuid()
    if sick := [out[gpu.uuid].sentence for gpu in seen if gpu.uuid in out]:
        raise UnfitMachine(
            f"{'; '.join(sick)}: `runci doctor --clear GPU` puts one back in service"
        )
    entries = dict(zip((gpu.uuid for gpu in seen), here.entries, strict=True))
    return Here(Backend.AMD, seen, here.variable, entries, asked.driver)


def _enough(here: Devices, otherwise: str, count: int) -> None:
    """Raise UnfitMachine where fewer devices are known of than are to be leased at once.

    `otherwise` says how many there are where no variable does.
    """
    if len(here.entries) >= count:
        return
    known = f"{here.variable} is {os.environ[here.variable]!r}" if here.given else otherwise
    more = f"set {here.variable} to those of this machine, or " if here.variable else ""
    raise UnfitMachine(
        f"{plural(count, 'GPUs')} are needed at once, but {known}: {more}give --jobs a lower "
        "number, or run this suite on a machine that has them"
    )


def _refusal(wrong: str, runner: Runner, config: str) -> UnfitMachine:
    return UnfitMachine(
        f"{config}:{runner.line}: runner {runner.name} is declared as {declaration(runner)}, but "
        f"here is another machine: {wrong}. No test was started: run it on a machine with the "
        f"label {shown_label(runner.label)} that has them, or correct the runner (`gpu: any` "
        "compares no name)"
    )


def amd_gpus() -> Machine | None:
    """All GPUs that amdsmi shows; None where it is not installed.

    Raises UnfitMachine where it is and cannot say. Not tried on AMD's hardware.
    """
    try:
        smi: Any = importlib.import_module("amdsmi")
    except (ImportError, OSError, AttributeError):  # the last two: without AMD's library
        return None
    try:
        smi.amdsmi_init()
        handles = smi.amdsmi_get_processor_handles()
        numbers = _hip_numbers(smi, handles)
        gpus = [_amd_gpu(smi, n, handle) for n, handle in zip(numbers, handles, strict=True)]
        driver = smi.amdsmi_get_gpu_driver_info(handles[0])["driver_version"] if handles else None
    except smi.AmdSmiException as error:
        raise UnfitMachine(
            f"no AMD GPU can be asked ({error}): run this suite on a machine that has one"
        ) from error
    return Machine(_apart(gpus), driver)


def _apart(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """GPUs that no two leases take for one: partitions of one, and cards without a serial number,
    have one UUID in amdsmi."""
    often = Counter(gpu.uuid for gpu in gpus)
    return tuple(
        replace(gpu, uuid=f"{gpu.uuid}.{gpu.index}") if often[gpu.uuid] > 1 else gpu for gpu in gpus
    )


def _amd_gpu(smi: Any, index: int, handle: Any) -> Gpu:
    memory = smi.amdsmi_get_gpu_vram_info(handle)["vram_size"]
    return Gpu(
        index,
        smi.amdsmi_get_gpu_device_uuid(handle),
        smi.amdsmi_get_gpu_asic_info(handle)["market_name"],
        memory_mb=float(memory) if isinstance(memory, int) else None,  # else «N/A»
    )


def _hip_numbers(smi: Any, handles: Sequence[Any]) -> list[int]:
    """The numbers by which HIP knows the GPUs; where amdsmi says them not of each (before ROCm 6.4,
    under WSL), their places."""
    ask = getattr(smi, "amdsmi_get_gpu_enumeration_info", None)
    numbers: list[Any] = []
    with contextlib.suppress(smi.AmdSmiException):
        numbers = [ask(handle).get("hip_id") for handle in handles] if ask is not None else []
    known = {number for number in numbers if isinstance(number, int)}
    return numbers if len(known) == len(handles) else list(range(len(handles)))
