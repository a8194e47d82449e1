"""The guards: cheap questions about one call, each answered with the first Reason that applies.

Nothing here touches CUDA. A guard that runs later may rely on the earlier ones having passed.
"""

from __future__ import annotations

import sys
from functools import cache

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from sm120_ba.carriers import only_carries
from sm120_ba.reasons import Reason
from sm120_ba.shapes import M_MIN, Coverage

_C = torch._C
_is_tracing = _C._is_tracing
_is_deterministic = _C._get_deterministic_algorithms
_is_autocast = _C._is_any_autocast_enabled
_function_modes = _C._len_torch_function_stack
_dispatch_modes = _C._len_torch_dispatch_stack
_transform = _C._functorch.peek_interpreter_stack
_dispatch_keys = _C._dispatch_keys
_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_BFLOAT16 = torch.bfloat16
_reductions = _C._get_cublas_allow_bf16_reduced_precision_reduction
_tunable_op = getattr(_C, "_cuda_tunableop_is_enabled", bool)  # not in a build without CUDA

_BATCH_INVARIANT_MODULES = ("sglang.srt.batch_invariant_ops", "batch_invariant_ops")


def batch_invariant_mode() -> bool:
    """Whether a batch-invariant mode is on; asks only the libraries that are already imported."""
    for name in _BATCH_INVARIANT_MODULES:
        if name in sys.modules:
            is_enabled = getattr(sys.modules.get(name), "is_batch_invariant_mode_enabled", None)
            if is_enabled is not None and is_enabled():
                return True
    return False


def library_state() -> tuple[tuple[bool, bool], bool]:
    """What may change the bits of `F.linear` while the process runs, as far as asking is cheap.

    Whether reductions may be of BF16 (and split K), and whether TunableOp is on. The preferred BLAS
    library and the environment are no part of it: a proof's keys have them.
    """
    return _reductions(), _tunable_op()


@cache
def plain_key_sets(device_type: str) -> frozenset[int]:
    """The dispatch key sets of an ordinary dense tensor there, made in inference mode or not.

    Whatever else a tensor may be (conjugated, negated, batched, functional, named, sparse, ...)
    shows as another key: what is not known to be plain is not plain.
    """
    if device_type == "meta":
        return frozenset()
    name = {"cpu": "CPU", "cuda": "CUDA"}.get(device_type)
    if name is None:
        return frozenset()
    keys = {key: _C.DispatchKeySet(getattr(_C.DispatchKey, key)) for key in _key_names(name)}
    inference = keys[name] | keys[f"Autocast{name}"]
    normal = inference | keys["ADInplaceOrView"] | keys[f"Autograd{name}"]
    return frozenset({inference.raw_repr(), normal.raw_repr()})


def _key_names(backend: str) -> tuple[str, str, str, str]:
    return backend, f"Autocast{backend}", f"Autograd{backend}", "ADInplaceOrView"


def call_reason(x: object, weight: object, bias: object) -> Reason | None:
    """What can be said before any attribute of x or weight is read."""
    if is_compiling() or _is_tracing():
        return Reason.COMPILING
    kind: type = type(weight)
    if type(x) is not _Tensor or (
        kind is not _Parameter and kind is not _Tensor and not only_carries(kind)
    ):
        return Reason.SUBCLASS
    if bias is not None:
        return Reason.BIAS
    # A function mode sees even `x.shape`, so it is asked for before any attribute.
    if _function_modes():
        return Reason.FUNCTION_MODE
    return None


def tensor_reason(x: torch.Tensor, weight: torch.Tensor, coverage: Coverage) -> Reason | None:
    """What prefill, single-token decoding and training fail, then the cheap faults in memory."""
    if x.dtype is not _BFLOAT16 or weight.dtype is not _BFLOAT16:
        return Reason.DTYPE
    # A nested tensor raises when asked for its shape.
    if x.is_nested:
        return Reason.WRAPPED
    shape = x.shape
    if len(shape) != 2:
        return Reason.NOT_2D
    if not M_MIN <= shape[0] <= coverage.m_max:
        return Reason.ROWS
    if shape[1] not in coverage.widths:
        return Reason.COLUMNS
    if x.requires_grad or weight.requires_grad:
        return Reason.REQUIRES_GRAD
    return _memory_reason(x, weight)


def _memory_reason(x: torch.Tensor, weight: torch.Tensor) -> Reason | None:
    """Gaps and odd addresses; what refuses to answer (sparse, vmapped) is refused later."""
    try:
        # For two rows or more this means strides of exactly (K, 1); one row was refused before.
        if not x.is_contiguous() or not weight.is_contiguous():
            strided = x.layout is weight.layout is torch.strided
            return Reason.STRIDES if strided else None
        addresses = x.data_ptr() | weight.data_ptr()
    except RuntimeError:
        return None
    return Reason.ALIGNMENT if addresses & 15 else None


def mode_reason() -> Reason | None:
    """The state of the process and of the calling thread."""
    if _is_deterministic():
        return Reason.DETERMINISTIC
    if _is_autocast():
        return Reason.AUTOCAST
    reason = wrapping_reason()
    if reason is not None:
        return reason
    if forward_ad._current_level >= 0:
        return Reason.FORWARD_AD
    if batch_invariant_mode():
        return Reason.BATCH_INVARIANT
    return None


def linear_reason() -> Reason | None:
    """The modes in which `F.linear` itself is another one, or raises."""
    if _is_deterministic():
        return Reason.DETERMINISTIC
    return Reason.BATCH_INVARIANT if batch_invariant_mode() else None


def wrapping_reason() -> Reason | None:
    """The modes in which even new tensors are not plain ones."""
    if _transform() is not None:
        return Reason.TRANSFORM
    if _dispatch_modes():
        return Reason.DISPATCH_MODE
    return None


def storage_reason(x: torch.Tensor, weight: torch.Tensor, plain: frozenset[int]) -> Reason | None:
    """Whether both are plain tensors of one device that hold data, which costs most to ask.

    `plain` comes from plain_key_sets of the type of x's device.
    """
    if weight.device != x.device:
        return Reason.OTHER_DEVICE
    if _dispatch_keys(x).raw_repr() not in plain or _dispatch_keys(weight).raw_repr() not in plain:
        return Reason.WRAPPED
    # Freed storage has the address 0.
    if not x.data_ptr() or not weight.data_ptr():
        return Reason.NO_DATA
    return None
