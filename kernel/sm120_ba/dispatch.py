"""Take the BA kernel where it was proved and `F.linear` everywhere else.

The kernel is chosen for y[M,N] = x[M,K] · weight[N,K]ᵀ in BF16 outside of autograd, autocast,
tracing and every other mode that would have to see the call, for those shapes and M that `warmup`
has proved on the device. `why_not` names the first guard that failed; `stats` counts calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch._jit_internal import is_scripting
from torch.compiler import is_compiling

from sm120_ba import proof_store
from sm120_ba.config import Mode
from sm120_ba.guards import (
    call_reason,
    library_state,
    linear_reason,
    mode_reason,
    plain_key_sets,
    storage_reason,
    tensor_reason,
    wrapping_reason,
)
from sm120_ba.op import compiled_linear
from sm120_ba.proof import Prover, RowProof, prove, row_of
from sm120_ba.proof_store import Store, default_folder
from sm120_ba.reasons import Reason
from sm120_ba.runtime import Capability, CudaRuntime, Gemm, Runtime, cuda_capability
from sm120_ba.shapes import ALIGNMENT, ALLOWLIST, WHOLE, Coverage, Shape

logger = logging.getLogger(__name__)

SM120: Capability = (12, 0)
OLDEST: Capability = (8, 0)
FORCEABLE = (Reason.BITS_DIFFER, Reason.NOT_FASTER)  # answers of a proof that is not void
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


@dataclass(frozen=True)
class _Ready:
    """A kernel that was launched once, the M for which it was proved, and in which state."""

    gemm: Gemm
    n: int
    k: int
    rows: frozenset[int]
    state: object


@dataclass
class _Warm:
    """What warm-up found for one shape on one device; the kernel is kept for good."""

    gemm: Gemm | None = None
    failed: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    state: object = None
    rows: dict[int, RowProof] = field(default_factory=dict)
    refused: dict[int, Reason] = field(default_factory=dict)
    forced: dict[int, Reason] = field(default_factory=dict)


@dataclass
class _Device:
    """What is known of one device; `ready` is all that a call asks."""

    device: torch.device
    index: int
    capability: Capability | None
    plain: frozenset[int]
    refusal: Reason | None
    coverage: Coverage = ALLOWLIST
    ready: dict[tuple[int, ...], _Ready] = field(default_factory=dict)
    warm: dict[Shape, _Warm] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def device_refusal(capability: Capability | None, mode: Mode) -> Reason | None:
    """Why no kernel may run on a device of this compute capability, None where one may."""
    if capability is None:
        return Reason.NOT_CUDA
    if mode is Mode.PROVED:
        return Reason.BEFORE_SM80 if tuple(capability) < OLDEST else None
    return None if tuple(capability) == SM120 else Reason.NOT_SM120


class Dispatcher:
    """Chooses between the kernel and `F.linear`; owns the warm state and the counts.

    `capability(device)` gives (major, minor), or None where the kernel cannot run; each device is
    asked once. `runtime` loads the kernel, `prover` compares it with F.linear, `store` keeps what
    came of it (default: in the user's cache). Methods may be called from any thread.
    """

    def __init__(
        self,
        capability: Callable[[torch.device], Capability | None] = cuda_capability,
        runtime: Runtime | None = None,
        prover: Prover = prove,
        store: Store | None = None,
    ) -> None:
        self._capability = capability
        self._runtime: Runtime = CudaRuntime() if runtime is None else runtime
        self._prover = prover
        self._store = store
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
        """The first guard that this call fails now, or None where `linear` takes the kernel."""
        decision = self._decide(x, weight, bias)
        return decision if isinstance(decision, Reason) else None

    def warmup(
        self,
        device: torch.device | str | int | None = None,
        *,
        shapes: Iterable[tuple[int, ...]] | None = None,
        rows: Iterable[int] | None = None,
        mode: Mode | str = Mode.ALLOWLIST,
        force: bool = False,
    ) -> Reason | None:
        """Compile, load, launch and prove the kernel on `device`, so that calls may take it.

        Call it after the weights are loaded and before CUDA graphs are captured. Without a device
        or an index: the current CUDA device. `shapes` as (N, K) and `rows` as M say what will be
        called; without them everything that `mode` allows is proved. Costs some 20 ms an M beside
        compiling, less where an earlier process left its proofs. Returns None where everything
        that was asked for is ready, else the first reason against; `proof` has the rest.

        With `force` calls take the kernel although its bits differ or it is not faster, until a
        warm-up without it: to measure what that does. No variable and no option sets it.
        """
        mode = Mode(mode)
        entry = self._entry_to_warm(device)
        if entry is None:
            return Reason.NOT_CUDA
        reason = (
            device_refusal(entry.capability, mode)
            or wrapping_reason()  # the first launch needs plain tensors
            or linear_reason()  # F.linear has to be the one that calls will be compared with
        )
        if reason is not None:
            return reason
        if self._runtime.is_capturing(entry.index):
            return Reason.COLD_CAPTURE
        coverage = WHOLE if mode is Mode.PROVED else ALLOWLIST
        wanted = list(coverage.by_size if shapes is None else shapes)
        limits = None if rows is None else set(rows)
        with entry.lock:
            if mode is Mode.PROVED:
                entry.coverage, entry.refusal = WHOLE, None
            reasons = [
                self._warm_size(entry, coverage, size, limits, mode, force) for size in wanted
            ]
        return next((reason for reason in reasons if reason is not None), None)

    def proof(self) -> dict[str, Any]:
        """What warm-up found, as JSON data: each shape on each device with its keys and its M.

        Another thread may warm up meanwhile.
        """
        found = [
            {
                "shape": str(shape),
                "keys": warm.keys,
                "rows": {
                    str(m): _as_json(row, warm, m) for m, row in sorted(dict(warm.rows).items())
                },
            }
            for entry in list(self._devices.values())
            for shape, warm in list(entry.warm.items())
        ]
        return {"schema": proof_store.SCHEMA, "proofs": found}

    def stats(self) -> Stats:
        """The counts so far; reasons that never applied are left out."""
        return Stats(self._fast, {r: n for r, n in self._fallback.items() if n})

    def reset_stats(self) -> None:
        """Start counting from zero."""
        self._fast = 0
        self._fallback = dict.fromkeys(Reason, 0)

    def refusal(self, device: torch.device) -> Reason | None:
        """What keeps every call on `device` from the kernel now; mode=proved enables more."""
        return (self._devices.get(device) or self._add(device)).refusal

    def sizes(self, device: torch.device) -> tuple[tuple[int, ...], ...]:
        """The (N, K) that calls on `device` may take the kernel for, once they are proved."""
        entry = self._devices.get(device) or self._add(device)
        return tuple(entry.coverage.by_size) if entry.refusal is None else ()

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
        coverage = entry.coverage
        reason = (
            tensor_reason(x, weight, coverage)
            or mode_reason()
            or storage_reason(x, weight, entry.plain)
        )
        if reason is not None:
            return reason
        m, k = x.shape
        ready = entry.ready.get(weight.shape)
        if ready is None or m not in ready.rows or k != ready.k:
            return _not_ready(entry, weight.shape, m, k)
        if library_state() != ready.state:
            return Reason.STATE_CHANGED
        y = x.new_empty(m, ready.n)
        return Reason.OUTPUT_ALIGNMENT if y.data_ptr() & 15 else (entry.index, ready.gemm, y)

    def _add(self, device: torch.device) -> _Device:
        """Ask a new device for its capability; threads that race agree on one entry."""
        capability = self._capability(device)
        refusal = device_refusal(capability, Mode.ALLOWLIST)
        index = -1 if device.index is None else device.index
        entry = _Device(device, index, capability, plain_key_sets(device.type), refusal)
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

    def _warm_size(
        self,
        entry: _Device,
        coverage: Coverage,
        size: tuple[int, ...],
        limits: set[int] | None,
        mode: Mode,
        force: bool,
    ) -> Reason | None:
        """Make one shape ready for the M in `limits`; the first reason against, if any."""
        shape = coverage.by_size.get(tuple(size))
        if shape is None:
            return Reason.WEIGHT_SHAPE
        rows = [m for m in shape.rows if limits is None or m in limits]
        if not rows:
            return Reason.ROWS
        warm = entry.warm.setdefault(shape, _Warm())
        if warm.failed:
            return Reason.UNAVAILABLE
        try:
            self._warm_rows(entry, shape, rows, warm)
        except (RuntimeError, ImportError, OSError) as error:
            warm.failed = True  # it would again
            entry.ready.pop((shape.n, shape.k), None)
            logger.warning("no kernel %s on %s, F.linear is used: %s", shape, entry.device, error)
            return Reason.UNAVAILABLE
        if not force:
            warm.forced = {}
        return self._decide_rows(entry, shape, rows, warm, mode, force)

    def _warm_rows(self, entry: _Device, shape: Shape, rows: list[int], warm: _Warm) -> None:
        """Launch once and prove what is not proved yet; memory is afterwards as before."""
        if warm.gemm is not None:
            keys = self._keys(entry, shape, warm.gemm)
            if warm.keys == keys and all(m in warm.rows for m in rows):
                return
        with self._runtime.undisturbed(entry.index):
            gemm = warm.gemm or self._launched(entry, shape)
            keys = self._keys(entry, shape, gemm)
            if warm.keys != keys:
                warm.keys, warm.rows, warm.state = keys, {}, library_state()
            self._prove(entry, shape, gemm, rows, warm)
        warm.gemm = gemm

    def _decide_rows(
        self,
        entry: _Device,
        shape: Shape,
        rows: list[int],
        warm: _Warm,
        mode: Mode,
        force: bool,
    ) -> Reason | None:
        """Let calls take what is proved, and say so; the first reason against, if any."""
        answers = {m: warm.rows[m].refusal(mode) for m in sorted(warm.rows)}
        if force:
            warm.forced |= {m: reason for m in rows if (reason := answers[m]) in FORCEABLE}
            answers |= dict.fromkeys(warm.forced)
            _warn_of_force(shape, entry.device, warm.forced)
        warm.refused = {m: reason for m, reason in answers.items() if reason is not None}
        if warm.gemm is not None:
            proved = frozenset(answers.keys() - warm.refused.keys())
            entry.ready[shape.n, shape.k] = _Ready(warm.gemm, shape.n, shape.k, proved, warm.state)
        logger.info("%s", summary(shape, entry.device, answers))
        return next((answers[m] for m in rows if answers[m] is not None), None)

    def _keys(self, entry: _Device, shape: Shape, gemm: Gemm) -> dict[str, str]:
        """All that a proof depends on."""
        return self._runtime.identity(entry.index) | {
            "kernel": gemm.digest,
            "shape": str(shape),
            "alignment": str(ALIGNMENT),
        }

    def _launched(self, entry: _Device, shape: Shape) -> Gemm:
        """The kernel, compiled, loaded and launched once: a first launch would break a capture."""
        gemm = self._runtime.load(entry.index, shape)
        x, w, y = (
            torch.zeros(size, dtype=torch.bfloat16, device=entry.device)
            for size in ((shape.m_max, shape.k), (shape.n, shape.k), (shape.m_max, shape.n))
        )
        gemm.launch(x, w, y, self._runtime.current_stream(entry.index))
        return gemm

    def _prove(
        self, entry: _Device, shape: Shape, gemm: Gemm, rows: list[int], warm: _Warm
    ) -> None:
        """Fill `warm` with a proof of each of `rows`, from the store where it has one."""
        store = Store(default_folder()) if self._store is None else self._store
        with store.locked(warm.keys) as path:
            kept = {} if path is None else _rows_of(proof_store.read(path, warm.keys))
            warm.rows = kept | warm.rows
            missing = [m for m in rows if m not in warm.rows]
            if not missing:
                return
            device, index = entry.device, entry.index
            warm.rows |= self._prover(self._runtime, device, index, shape, gemm, missing)
            if path is not None:
                found = {m: asdict(row) for m, row in warm.rows.items()}
                proof_store.write(path, warm.keys, found)


def _not_ready(entry: _Device, size: tuple[int, ...], m: int, k: int) -> Reason:
    """Why a call that passes all guards has no kernel: its sizes, or what warm-up said."""
    shape = entry.coverage.by_size.get(size)
    if shape is None or shape.k != k:
        return Reason.WEIGHT_SHAPE
    if m not in shape.rows:
        return Reason.ROWS
    warm = entry.warm.get(shape)
    if warm is None:
        return Reason.NOT_PROVED
    return Reason.UNAVAILABLE if warm.failed else warm.refused.get(m, Reason.NOT_PROVED)


def _rows_of(kept: proof_store.Rows) -> dict[int, RowProof]:
    """The rows of a file; none where one of them cannot be read."""
    try:
        return {m: row_of(row) for m, row in kept.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _as_json(row: RowProof, warm: _Warm, m: int) -> dict[str, Any]:
    refused, forced = warm.refused.get(m), warm.forced.get(m)
    return asdict(row) | {
        "refused": None if refused is None else refused.name,
        "forced": None if forced is None else forced.name,
    }


def _warn_of_force(shape: Shape, device: torch.device, forced: Mapping[int, Reason]) -> None:
    if forced:
        text = "sm120_ba: %s on %s: bits may differ from F.linear's: force=True for M = %s"
        logger.warning(text, shape, device, _ranges(sorted(forced)))


def summary(shape: Shape, device: torch.device, verdicts: Mapping[int, Reason | None]) -> str:
    """One line for the log: ranks of one server may differ in it, and mixed ones straggle."""
    by_answer: dict[str, list[int]] = {}
    for m, reason in verdicts.items():
        by_answer.setdefault(
            "kernel" if reason is None else f"F.linear ({reason.name})", []
        ).append(m)
    parts = [f"{answer} for M = {_ranges(rows)}" for answer, rows in by_answer.items()]
    return f"sm120_ba: {shape} on {device}: {'; '.join(parts)}"


def _ranges(numbers: Iterable[int]) -> str:
    """`2..4, 8` of ascending numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}..{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)


DEFAULT = Dispatcher()


def sm120_ba_linear(
    input: torch.Tensor,  # noqa: A002 (what F.linear calls it)
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """`F.linear(input, weight, bias)`: same values, dtype, autograd, errors, faster where proved.

    The kernel takes input BF16 (M, K) and weight BF16 (N, K) of those sizes that `warmup` has
    proved on this device, where every guard holds; see `why_not`. torch.jit.script gets F.linear.
    """
    if is_scripting():
        return F.linear(input, weight, bias)
    if is_compiling():
        return compiled_linear(input, weight, bias)
    return DEFAULT.linear(input, weight, bias)


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


def warmup(
    device: torch.device | str | int | None = None,
    *,
    shapes: Iterable[tuple[int, ...]] | None = None,
    rows: Iterable[int] | None = None,
    mode: Mode | str = Mode.ALLOWLIST,
    force: bool = False,
) -> Reason | None:
    """Make the kernel ready on `device` for these (N, K) and M; see `Dispatcher.warmup`."""
    return DEFAULT.warmup(device, shapes=shapes, rows=rows, mode=mode, force=force)


def proof() -> dict[str, Any]:
    """What `warmup` found in this process, as JSON data; see `Dispatcher.proof`."""
    return DEFAULT.proof()


def stats() -> Stats:
    """Calls of the kernel and of `F.linear` by reason since the last `reset_stats`."""
    return DEFAULT.stats()


def reset_stats() -> None:
    """Start counting from zero."""
    DEFAULT.reset_stats()
