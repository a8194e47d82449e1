"""Take the BA kernel where it was validated and `F.linear` everywhere else.

`sm120_ba_linear` is chosen for y[M,48] = x[M,5120] · weight[48,5120]ᵀ in BF16 with M = 2..8 on a
GPU of compute capability 12.0, outside of autograd, autocast, tracing and every other mode that
would have to see the call. `why_not` names the first guard that failed; `stats` counts calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.gemm import M_MAX, K, N
from sm120_ba.guards import (
    call_reason,
    mode_reason,
    plain_key_sets,
    storage_reason,
    tensor_reason,
    wrapping_reason,
)
from sm120_ba.reasons import Reason
from sm120_ba.runtime import Capability, CudaRuntime, Gemm, Runtime, cuda_capability

logger = logging.getLogger(__name__)

SM120: Capability = (12, 0)
_COMPILING = Reason.COMPILING  # looking up a member of an enum costs 0.1 µs in Python 3.11


@dataclass(frozen=True)
class Stats:
    """Calls since the last reset; exact under the GIL. Calls that were traced are not counted."""

    fast: int
    fallback: Mapping[Reason, int]

    @property
    def fallbacks(self) -> int:
        """Calls that went through `F.linear`, for all reasons together."""
        return sum(self.fallback.values())

    def __str__(self) -> str:
        lines = [f"{self.fast:>10}  kernel", f"{self.fallbacks:>10}  F.linear"]
        counts = sorted(self.fallback.items(), key=lambda item: -item[1])
        lines += [f"{n:>10}    {reason.name}: {reason.sentence}" for reason, n in counts]
        return "\n".join(lines)


@dataclass
class _Device:
    """What is known of one device; the loaded kernel lives as long as the dispatcher."""

    device: torch.device
    index: int
    refusal: Reason | None
    plain: frozenset[int]
    gemm: Gemm | None = None
    failed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Dispatcher:
    """Chooses between the kernel and `F.linear`; owns the warm state and the counts.

    `capability(device)` gives (major, minor), or None where the kernel cannot run; each device is
    asked once. `runtime` loads the kernel. Methods may be called from any thread.
    """

    def __init__(
        self,
        capability: Callable[[torch.device], Capability | None] = cuda_capability,
        runtime: Runtime | None = None,
    ) -> None:
        self._capability = capability
        self._runtime: Runtime = CudaRuntime() if runtime is None else runtime
        self._devices: dict[torch.device, _Device] = {}
        self.reset_stats()

    def linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`F.linear(x, weight, bias)`, through the kernel where every guard holds."""
        y = self.try_linear(x, weight, bias)
        return F.linear(x, weight, bias) if y is None else y

    def try_linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor | None:
        """The kernel's result, or None for the caller's own fallback; counts the call."""
        decision = self._decide(x, weight, bias)
        if isinstance(decision, Reason):
            # Dynamo would guard on a count and recompile at every call.
            if decision is not _COMPILING:
                self._fallback[decision] += 1
            return None
        index, gemm, y = decision
        gemm.launch(x, weight, y, self._runtime.current_stream(index))
        self._fast += 1
        return y

    def why_not(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> Reason | None:
        """The first guard that this call fails now, or None where `linear` takes the kernel.

        Where only the kernel itself is left to ask, that is compiled, loaded and launched once.
        """
        decision = self._decide(x, weight, bias)
        return decision if isinstance(decision, Reason) else None

    def warmup(self, device: torch.device | str | int | None = None) -> Reason | None:
        """Compile, load and launch the kernel on `device` so that a CUDA graph may capture it.

        Without a device or an index: the current CUDA device. Returns what keeps the kernel from
        running there, None on success. Later calls for the same device cost nothing.
        """
        entry = self._entry_to_warm(device)
        if entry is None:
            return Reason.NOT_CUDA
        if entry.refusal is not None:
            return entry.refusal
        reason = wrapping_reason()  # the first launch needs plain tensors
        if reason is not None:
            return reason
        ready = self._gemm(entry)
        return ready if isinstance(ready, Reason) else None

    def stats(self) -> Stats:
        """The counts so far; reasons that never applied are left out."""
        return Stats(self._fast, {r: n for r, n in self._fallback.items() if n})

    def reset_stats(self) -> None:
        """Start counting from zero."""
        self._fast = 0
        self._fallback = dict.fromkeys(Reason, 0)

    def _decide(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> Reason | tuple[int, Gemm, torch.Tensor]:
        """The first guard that fails, or device index, loaded kernel and the output to fill."""
        reason = call_reason(x, weight, bias)
        if reason is not None:
            return reason
        device = x.device
        entry = self._devices.get(device) or self._add(device)
        if entry.refusal is not None:
            return entry.refusal
        reason = tensor_reason(x, weight) or mode_reason() or storage_reason(x, weight, entry.plain)
        if reason is not None:
            return reason
        gemm = entry.gemm or self._gemm(entry)
        if isinstance(gemm, Reason):
            return gemm
        y = x.new_empty(x.shape[0], N)
        return Reason.OUTPUT_ALIGNMENT if y.data_ptr() & 15 else (entry.index, gemm, y)

    def _add(self, device: torch.device) -> _Device:
        """Ask a new device for its capability; threads that race agree on one entry."""
        capability = self._capability(device)
        refusal = None
        if capability is None:
            refusal = Reason.NOT_CUDA
        elif tuple(capability) != SM120:
            refusal = Reason.NOT_SM120
        index = -1 if device.index is None else device.index
        entry = _Device(device, index, refusal, plain_key_sets(device.type))
        return self._devices.setdefault(device, entry)

    def _entry_to_warm(self, device: torch.device | str | int | None) -> _Device | None:
        """The entry of a device as `warmup` takes it, None for a CUDA device where is no CUDA."""
        if device is None or isinstance(device, int):
            resolved = torch.device("cuda") if device is None else torch.device("cuda", device)
        else:
            resolved = torch.device(device)
        if resolved.type == "cuda":
            if not torch.cuda.is_available():
                return None
            if resolved.index is None:
                resolved = torch.device("cuda", torch.cuda.current_device())
        return self._devices.get(resolved) or self._add(resolved)

    def _gemm(self, entry: _Device) -> Gemm | Reason:
        """The warm kernel of a device; made now, unless that failed before or breaks a capture."""
        if entry.gemm is None and not entry.failed:
            # Compiling or loading a module would invalidate the capture.
            if self._runtime.is_capturing(entry.index):
                return Reason.COLD_CAPTURE
            with entry.lock:
                if entry.gemm is None and not entry.failed:
                    self._warm(entry)
        return Reason.UNAVAILABLE if entry.gemm is None else entry.gemm

    def _warm(self, entry: _Device) -> None:
        """Load the kernel and launch it once; on failure say so and never try again."""
        bf16 = torch.bfloat16
        try:
            gemm = self._runtime.load(entry.index)
            x = torch.zeros((M_MAX, K), dtype=bf16, device=entry.device)
            weight = torch.zeros((N, K), dtype=bf16, device=entry.device)
            y = torch.empty((M_MAX, N), dtype=bf16, device=entry.device)
            gemm.launch(x, weight, y, self._runtime.current_stream(entry.index))
        except (RuntimeError, ImportError, OSError) as error:
            entry.failed = True
            logger.warning("no BA kernel on %s, F.linear is used: %s", entry.device, error)
        else:
            entry.gemm = gemm


DEFAULT = Dispatcher()


def sm120_ba_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`F.linear(x, weight, bias)`: same values, dtype, autograd and errors, faster on SM120.

    The kernel takes x BF16 (M, 5120) with M = 2..8 and weight BF16 (48, 5120) on a GPU of compute
    capability 12.0 where every guard holds; see `why_not`.
    """
    return DEFAULT.linear(x, weight, bias)


def try_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor | None:
    """The kernel's result, or None where the caller has to use its own fallback."""
    return DEFAULT.try_linear(x, weight, bias)


def why_not(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Reason | None:
    """The first guard that `sm120_ba_linear` would fail with these arguments now, or None."""
    return DEFAULT.why_not(x, weight, bias)


def warmup(device: torch.device | str | int | None = None) -> Reason | None:
    """Make the kernel ready on `device` (default: the current one) for a CUDA graph capture."""
    return DEFAULT.warmup(device)


def stats() -> Stats:
    """Calls of the kernel and of `F.linear` by reason since the last `reset_stats`."""
    return DEFAULT.stats()


def reset_stats() -> None:
    """Start counting from zero."""
    DEFAULT.reset_stats()
