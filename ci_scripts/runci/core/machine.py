"""The GPUs that a runner declares and those that a driver shows: are they the same; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

from runci.core.decode import Count, Megabytes

Text = Annotated[str, msgspec.Meta(max_length=300)]
ANY = "any"  # `gpu: any`: the name is not compared
TENTH = 0.1

# Words of a product's name that name no product of their own: brands, memory, the module's form and
# cooling. Every other one does (NVL, PCIe, D, Ti, SUPER, Laptop, Ada, MIG, 80C of a virtual GPU):
# as in the list of names in NVIDIA's open kernel modules, src/nvidia/generated/g_nv_name_released.h
_UNSAYING = re.compile(
    r"nvidia|geforce|tesla|amd|radeon|instinct|gpu|generation|edition"
    r"|\d+gb?|hbm\d\w*|gddr\d\w*|sxm\d?|oam|ac|lc"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine; `uuid` is the same for every process and container.

    What its driver did not say is "" or None; `memory_mb` is all of its memory, in MiB.
    """

    index: Count
    uuid: Text
    name: Text
    compute_capability: Text | None = None
    memory_mb: Megabytes | None = None

    @property
    def shown(self) -> str:
        """What a person is told of it."""
        parts = [
            f"compute capability {self.compute_capability}" if self.compute_capability else "",
            f"{self.memory_mb / 1024:.0f} GiB" if self.memory_mb else "",
        ]
        more = ", ".join(filter(None, parts))
        return (self.name or "a GPU without a name") + (f" ({more})" if more else "")


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs that a file ran on. `not_compared` says why they could not be asked for, or "".

    `driver` is the driver's version.
    """

    gpus: Annotated[tuple[Gpu, ...], msgspec.Meta(max_length=1024)] = ()
    driver: Text | None = None
    not_compared: Text = ""


class Declared(Protocol):
    """What a runner in suites.yml and a suite of a plan say of a machine; None is not compared."""

    @property
    def gpus(self) -> int:
        """How many GPUs, at least."""

    @property
    def gpu(self) -> str | None:
        """The name of each."""

    @property
    def compute_capability(self) -> str | None:
        """CUDA's, as «9.0»."""

    @property
    def memory_gb(self) -> float | None:
        """Memory of each, as its maker counts it."""


def declaration(wanted: Declared) -> str:
    """What is declared, for a message."""
    parts = [
        f"compute capability {wanted.compute_capability}" if wanted.compute_capability else "",
        f"{wanted.memory_gb:g} GB" if wanted.memory_gb is not None else "",
    ]
    more = ", ".join(filter(None, parts))
    named = " of any name" if wanted.gpu == ANY else f" {wanted.gpu or ''}".rstrip()
    return f"{_number(wanted.gpus)}{named}" + (f" ({more})" if more else "")


def is_model(declared: str, name: str) -> bool:
    """Whether a driver's name for a GPU is the declared model, by whole words in their order.

    «H100» is «NVIDIA H100 80GB HBM3», not «NVIDIA H100 NVL», nor «NVIDIA H100 PCIe».
    """
    rest = _words(declared)
    for word in _words(name):
        if rest and word == rest[0]:
            rest = rest[1:]
        elif not _UNSAYING.fullmatch(word):
            return False
    return not rest


def has_memory(declared_gb: float, memory_mb: float) -> bool:
    """Whether it is the declared memory, within a tenth.

    Makers write GB for GiB, and drivers show up to 7 % less of it (ECC, what they reserve).
    """
    return abs(memory_mb / 1024 - declared_gb) <= declared_gb * TENTH


def differences(wanted: Declared, gpu: Gpu, *, cuda: bool = True) -> list[str]:
    """How a GPU differs from what is declared; what its driver did not say differs.

    Only with `cuda` has it a compute capability.
    """
    found = []
    if wanted.gpu not in (None, ANY) and not is_model(wanted.gpu or "", gpu.name):
        found.append(f"it is no {wanted.gpu}" if gpu.name else "it says no name")
    capability = wanted.compute_capability if cuda else None
    if capability is not None and capability != gpu.compute_capability:
        here = gpu.compute_capability or "unknown"
        found.append(f"its compute capability is {here}, not {capability}")
    if wanted.memory_gb is not None and not has_memory(wanted.memory_gb, gpu.memory_mb or 0):
        here = f"{gpu.memory_mb / 1024:.0f} GiB" if gpu.memory_mb else "unknown"
        found.append(f"its memory is {here}, not {wanted.memory_gb:g} GB")
    return found


def mismatch(wanted: Declared, gpus: Sequence[Gpu], *, cuda: bool = True) -> str:
    """Why these GPUs are not the declared ones, each of them; "" where they are."""
    found = [
        f"GPU {gpu.index}, {gpu.shown}: {', '.join(wrong)}"
        for gpu in gpus
        if (wrong := differences(wanted, gpu, cuda=cuda))
    ]
    if len(gpus) < wanted.gpus:
        found.insert(0, f"{_number(len(gpus))}, not {wanted.gpus}")
    return "; ".join(found)


def _number(gpus: int) -> str:
    return f"{gpus} GPU" + ("s" if gpus != 1 else "")


def _words(name: str) -> list[str]:
    return re.split(r"[\s-]+", name.strip().lower())
