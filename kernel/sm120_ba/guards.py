"""The guards: cheap questions about one call, each answered with the first Reason that applies.

Nothing here touches CUDA. A guard that runs later may rely on the earlier ones having passed.
"""

from __future__ import annotations

import sys
from functools import cache

import torch
from torch.autograd import forward_ad

from sm120_ba.gemm import M_MAX, M_MIN, K, N
from sm120_ba.reasons import Reason

_C = torch._C
_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_BFLOAT16 = torch.bfloat16
_WEIGHT_SHAPE = (N, K)

_BATCH_INVARIANT_MODULES = ("sglang.srt.batch_invariant_ops", "batch_invariant_ops")


def batch_invariant_mode() -> bool:
    """Whether a batch-invariant mode is on; asks only the libraries that are already imported."""
    for name in _BATCH_INVARIANT_MODULES:
        module = sys.modules.get(name)
        if module is not None:
            is_enabled = getattr(module, "is_batch_invariant_mode_enabled", None)
            if is_enabled is not None and is_enabled():
                return True
    return False


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
    if torch.compiler.is_compiling() or _C._is_tracing():
        return Reason.COMPILING
    if type(x) is not _Tensor or type(weight) not in (_Parameter, _Tensor):
        return Reason.SUBCLASS
    if bias is not None:
        return Reason.BIAS
    # A function mode sees even `x.shape`, so it is asked for before any attribute.
    if _C._len_torch_function_stack():
        return Reason.FUNCTION_MODE
    return None


def tensor_reason(x: torch.Tensor, weight: torch.Tensor) -> Reason | None:
    """What prefill, single-token decoding and training fail: dtype, the shape of x, autograd."""
    if x.dtype is not _BFLOAT16 or weight.dtype is not _BFLOAT16:
        return Reason.DTYPE
    # A nested tensor raises when asked for its shape.
    if x.is_nested:
        return Reason.WRAPPED
    shape = x.shape
    if len(shape) != 2:
        return Reason.NOT_2D
    if not M_MIN <= shape[0] <= M_MAX:
        return Reason.ROWS
    if shape[1] != K:
        return Reason.COLUMNS
    if x.requires_grad or weight.requires_grad:
        return Reason.REQUIRES_GRAD
    return None


def mode_reason() -> Reason | None:
    """The state of the calling thread and of the process."""
    if _C._functorch.peek_interpreter_stack() is not None:
        return Reason.TRANSFORM
    if _C._len_torch_dispatch_stack():
        return Reason.DISPATCH_MODE
    if forward_ad._current_level >= 0:
        return Reason.FORWARD_AD
    if _C._is_any_autocast_enabled():
        return Reason.AUTOCAST
    if _C._get_deterministic_algorithms():
        return Reason.DETERMINISTIC
    if batch_invariant_mode():
        return Reason.BATCH_INVARIANT
    return None


def memory_reason(x: torch.Tensor, weight: torch.Tensor, plain: frozenset[int]) -> Reason | None:
    """How both tensors lie in memory, which costs most to ask.

    `plain` comes from plain_key_sets of their device's type.
    """
    keys = _C._dispatch_keys
    if keys(x).raw_repr() not in plain or keys(weight).raw_repr() not in plain:
        return Reason.WRAPPED
    if weight.shape != _WEIGHT_SHAPE:
        return Reason.WEIGHT_SHAPE
    # With two rows or more this means strides of exactly (5120, 1); one row was refused before.
    if not x.is_contiguous() or not weight.is_contiguous():
        return Reason.STRIDES
    x_address, weight_address = x.data_ptr(), weight.data_ptr()
    # Freed storage has the address 0.
    if not x_address or not weight_address or (x_address | weight_address) & 15:
        return Reason.ALIGNMENT
    return None
