"""Whether, and for what, the BA kernel is enabled: off unless the environment asks for it.

`initialize` decides, anew at every call; `current` gives the latest answer. Importing this module
and deciding with the flag off need neither torch nor a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

FLAG = "SGLANG_ENABLE_SM120_BA_GEMM"

_TRUE = frozenset({"1", "true", "yes", "y"})
_FALSE = frozenset({"0", "false", "no", "n"})


class Mode(Enum):
    """The two opt-ins: what a call must fulfil beside all guards and the proof of its bits."""

    ALLOWLIST = "1"  # SM120 and the one shape of the proposal
    PROVED = "proved"  # SM80 or newer, any shape of the table, where a proof of time holds too


class Bf16GemmBackend(Enum):
    """SGLang's choices for unquantized BF16 projections; only AUTO leaves the choice open."""

    AUTO = "auto"
    TORCH = "torch"
    CUTEDSL = "cutedsl"
    GEMV = "gemv"


@dataclass(frozen=True)
class Enablement:
    """One decision: whether layers may try the kernel, the reason in words, and in which mode."""

    enabled: bool
    reason: str
    mode: Mode = Mode.ALLOWLIST


NOT_INITIALIZED = Enablement(False, "initialize() was not called")

_current = NOT_INITIALIZED


def current() -> Enablement:
    """The latest decision of `initialize`; off before the first."""
    return _current


def reset() -> None:
    """Forget the decision: off until the next `initialize`."""
    global _current  # noqa: PLW0603 (the one place that holds the decision)
    _current = NOT_INITIALIZED


def disable(reason: str) -> Enablement:
    """Decide that no layer may try the kernel, for `reason`."""
    global _current  # noqa: PLW0603
    _current = Enablement(False, reason)
    return _current


def requested_mode(environ: Mapping[str, str] | None = None) -> Mode | None:
    """Read SGLANG_ENABLE_SM120_BA_GEMM, in any case of letters; None is off, as is unset.

    1/true/yes/y is ALLOWLIST, `proved` is PROVED, 0/false/no/n is off. Raises ValueError, naming
    the variable, for any other value, the empty one too.
    """
    value = (os.environ if environ is None else environ).get(FLAG)
    if value is None or value.lower() in _FALSE:
        return None
    if value.lower() in _TRUE:
        return Mode.ALLOWLIST
    if value.lower() == Mode.PROVED.value:
        return Mode.PROVED
    raise ValueError(f"{FLAG}={value!r} is not one of 1/true/yes/y, proved, 0/false/no/n")


def flag_is_on(environ: Mapping[str, str] | None = None) -> bool:
    """Whether either mode is asked for. Raises ValueError as `requested_mode`."""
    return requested_mode(environ) is not None


def initialize(
    *,
    backend: Bf16GemmBackend | str = Bf16GemmBackend.AUTO,
    deterministic: bool = False,
    batch_invariant: bool | None = None,
    environ: Mapping[str, str] | None = None,
    capability: Callable[[], tuple[int, int] | None] | None = None,
) -> Enablement:
    """Decide from the environment and the server's options, and replace the earlier decision.

    `backend` is what the user chose for BF16 projections, `deterministic` whether inference must
    be deterministic; `batch_invariant` None asks the libraries that are imported. `capability`
    returns (major, minor) of the GPU, None without an NVIDIA one (default: the current device's).
    Raises ValueError for a bad flag or backend, after which the kernel is off.
    """
    global _current  # noqa: PLW0603
    # A call that raises must not leave the earlier answer in force.
    _current = NOT_INITIALIZED
    chosen = Bf16GemmBackend(backend)
    _current = _decide(
        requested_mode(environ), chosen, deterministic, batch_invariant, capability or _capability
    )
    return _current


def _decide(
    mode: Mode | None,
    backend: Bf16GemmBackend,
    deterministic: bool,
    batch_invariant: bool | None,
    capability: Callable[[], tuple[int, int] | None],
) -> Enablement:
    if mode is None:
        return Enablement(False, f"{FLAG} is off")
    if backend is not Bf16GemmBackend.AUTO:
        return Enablement(False, f"the BF16 GEMM backend {backend.value!r} was chosen explicitly")
    if deterministic:
        return Enablement(False, "deterministic inference is on")
    if _batch_invariant() if batch_invariant is None else batch_invariant:
        return Enablement(False, "batch-invariant mode is on")
    found = capability()
    if found is None:
        return Enablement(False, "there is no NVIDIA CUDA device")
    major, minor = found
    if mode is Mode.PROVED:
        if found < (8, 0):
            return Enablement(False, f"the GPU has compute capability {major}.{minor}, below 8.0")
        return Enablement(True, f"{FLAG} is 'proved' and the GPU has {major}.{minor}", mode)
    if found != (12, 0):
        return Enablement(False, f"the GPU has compute capability {major}.{minor}, not 12.0")
    return Enablement(True, f"{FLAG} is on and the GPU has compute capability 12.0")


def _batch_invariant() -> bool:
    from sm120_ba.guards import batch_invariant_mode

    return batch_invariant_mode()


def _capability() -> tuple[int, int] | None:
    """The current CUDA device's compute capability, None without a usable one."""
    import torch

    from sm120_ba.runtime import cuda_capability

    if not torch.cuda.is_available():
        return None
    return cuda_capability(torch.device("cuda", torch.cuda.current_device()))
