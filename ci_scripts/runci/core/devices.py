"""Which devices a process sees, by the variables of each backend's stack; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runci.core.registration import Backend

# The stages that pick devices, each from what the one before it leaves; of the variables of a stage
# the first that is set counts. MPS and MLX have none: a machine has one GPU. AMD:
# https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html; Intel: Level Zero's programming
# guide; Ascend: CANN's list of variables; Moore Threads: MUSA's; a PPU takes CUDA's.
VARIABLES: Mapping[Backend, tuple[tuple[str, ...], ...]] = {
    Backend.CUDA: (("CUDA_VISIBLE_DEVICES",),),
    Backend.AMD: (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")),
    Backend.XPU: (("ZE_AFFINITY_MASK",),),
    Backend.NPU: (("ASCEND_RT_VISIBLE_DEVICES",),),
    Backend.MUSA: (("MUSA_VISIBLE_DEVICES",),),
    Backend.PPU: (("CUDA_VISIBLE_DEVICES",),),
}
EVERY = frozenset(
    name for stages in VARIABLES.values() for variables in stages for name in variables
)


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that may be used, and how a process is given some of them.

    `entries` are what `variable` has for each, `places` which of the machine's it is, as the first
    stage names it. `variable` is "" where the backend has none, `given` whether it was set.
    """

    variable: str
    entries: tuple[str, ...]
    places: tuple[str, ...]
    given: bool


def devices(backend: Backend, environment: Mapping[str, str], count: int) -> Devices:
    """Those that the environment leaves of a backend; where it says nothing, `count` by number.

    A list ends at an entry that stands twice, or names none (`-1`, or none of those that the stage
    before left), as the stacks have it: what comes after it is not used.
    """
    stages = VARIABLES.get(backend, ())
    places = tuple(map(str, range(count)))
    found = Devices(stages[-1][0] if stages else "", places, places, given=False)
    for variables in stages:
        variable = next((name for name in variables if name in environment), None)
        if variable is None:
            continue
        entries, kept = [], []
        for entry in map(str.strip, environment[variable].split(",")):
            place = _place(entry, found)
            if not entry or place is None or place in kept:
                break
            entries.append(entry)
            kept.append(place)
        found = Devices(variable, tuple(entries), tuple(kept), given=True)
    return found


def _place(entry: str, before: Devices) -> str | None:
    """Which of the machine's devices an entry names; None where it names none."""
    if not before.given:
        number = entry.isdecimal()  # else a UUID, or a part of a device as `0.1`
        return str(int(entry)) if number else None if entry.startswith("-") else entry
    if not entry.isdecimal() or int(entry) >= len(before.places):
        return None
    return before.places[int(entry)]
