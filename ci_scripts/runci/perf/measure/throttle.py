"""What holds a GPU's clocks down, and several moments seen as one; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runci.perf.record import MachineState

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


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """NVML's bit mask as names."""
    return tuple(name for bit, name in REASONS.items() if mask & bit)


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
