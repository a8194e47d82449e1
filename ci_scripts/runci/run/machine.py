"""The GPUs of this machine, asked for by backend and compared with what a runner declares."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runci.config.taxonomy import Runner
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
    """What a suite may use here: `usable` are leased.

    With `query` a job gets a share of them and is told which. Else `usable` only stand for the
    GPUs, and `shown` are all that there are. `not_compared` is as in Machine.
    """

    backend: Backend
    usable: tuple[Gpu, ...]
    driver: str | None = None
    query: Nvml | None = None
    shown: tuple[Gpu, ...] = ()
    not_compared: str = ""

    def slot(self, share: Sequence[Gpu]) -> Slot:
        """Where a job runs that has leased `share`."""
        if self.query is None:
            names = ", ".join(gpu.shown for gpu in self.shown)
            machine = Machine(self.shown, self.driver, self.not_compared)
            return Slot({}, names or plural(len(share), f"{self.backend.value} GPUs"), machine)
        return Slot(
            {_VARIABLE: ",".join(gpu.uuid for gpu in share)},
            ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in share),
            Machine(tuple(share), self.driver),
            MemoryWatch(self.query, list(share)),
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
        return Here(backend, right, query.driver(), query)
    # Nobody tells such a test which GPUs are its own, so it may use all that it sees.
    usable = tuple(Gpu(index, f"{backend.value}-{index}", "") for index in range(count))
    if backend is not Backend.AMD:
        why = f"runci asks no driver for {backend.value} GPUs"
        return Here(backend, usable, not_compared=why)
    asked = amd_gpus()
    if asked is None:
        return Here(backend, usable, not_compared="amdsmi is not installed")
    if wrong := mismatch(runner, asked.gpus, cuda=False):
        raise _refusal(wrong, runner, config)
    out = service.read(lock_folder()).by_uuid()
    if sick := [out[gpu.uuid].sentence for gpu in asked.gpus if gpu.uuid in out]:
        raise UnfitMachine(
            f"{'; '.join(sick)}: `runci doctor --clear GPU` puts one back in service"
        )
    return Here(backend, usable, asked.driver, shown=asked.gpus)


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
        gpus = tuple(_amd_gpu(smi, index, handle) for index, handle in enumerate(handles))
        driver = smi.amdsmi_get_gpu_driver_info(handles[0])["driver_version"] if handles else None
    except smi.AmdSmiException as error:
        raise UnfitMachine(
            f"no AMD GPU can be asked ({error}): run this suite on a machine that has one"
        ) from error
    return Machine(gpus, driver)


def _amd_gpu(smi: Any, index: int, handle: Any) -> Gpu:
    memory = smi.amdsmi_get_gpu_vram_info(handle)["vram_size"]
    return Gpu(
        index,
        smi.amdsmi_get_gpu_device_uuid(handle),
        smi.amdsmi_get_gpu_asic_info(handle)["market_name"],
        memory_mb=float(memory) if isinstance(memory, int) else None,  # else «N/A»
    )
