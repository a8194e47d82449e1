"""The projection in compiled code: `torch.ops.sm120_ba.linear(x, weight)`, one node of the graph.

A compiled graph serves every M, so the guards have to run when it does: inside an operator. Its
reference is `F.linear` in eager mode, not what Inductor would choose. Eager code never comes here,
where a call costs more.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.carriers import only_carries

_LIBRARY = torch.library.Library("sm120_ba", "DEF")
_LIBRARY.define("linear(Tensor x, Tensor weight) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_transform = torch._C._functorch.peek_interpreter_stack
_OP: Any = torch.ops.sm120_ba.linear.default


def compiled_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`F.linear(x, weight, bias)` for torch.compile to trace: the operator where it may help."""
    if not _may_help(x, weight, bias):
        return F.linear(x, weight, bias)
    y: torch.Tensor = _OP(x.reshape(-1, x.shape[-1]), weight)
    return y.view(*x.shape[:-1], weight.shape[0])


def _may_help(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """What is the same for every call of the graph; the number of rows is not."""
    if bias is not None or type(x) is not torch.Tensor:
        return False
    kind: type = type(weight)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter and not _only_carries(kind):
        return False
    # An exported program has to run where this package is not.
    if (
        x.dtype is not torch.bfloat16
        or weight.dtype is not x.dtype
        or torch.compiler.is_exporting()
    ):
        return False
    if weight.dim() != 2 or x.dim() < 2 or x.shape[-1] != weight.shape[1]:
        return False
    return tuple(weight.shape) in _sizes(x.device)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _only_carries(kind: type) -> bool:
    return only_carries(kind)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _sizes(device: torch.device) -> tuple[tuple[int, ...], ...]:
    """The (N, K) enabled on that device, none in a torch.func transform."""
    from sm120_ba.dispatch import DEFAULT

    return DEFAULT.sizes(device) if _transform() is None else ()


def _eager(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What runs when the graph does: every guard, and `F.linear` where one fails."""
    from sm120_ba.dispatch import DEFAULT

    # A weight that only carries attributes is asked for them six times.
    with torch._C.DisableTorchFunctionSubclass():
        return DEFAULT.linear(x, weight)


def _autograd(keys: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gradients are those of `F.linear`, which then runs in the operator's place."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return F.linear(x, weight)
    with torch._C._AutoDispatchBelowAutograd():
        y: torch.Tensor = _OP.redispatch(keys & torch._C._after_autograd_keyset, x, weight)
        return y


# The kernel does not run under autocast: there the operator is F.linear.
_LIBRARY.impl("linear", _eager, "CompositeExplicitAutograd")
_LIBRARY.impl("linear", _autograd, "Autograd", with_keyset=True)
for _key in ("AutocastCPU", "AutocastCUDA"):
    _LIBRARY.impl("linear", F.linear, _key)
torch.library.register_fake("sm120_ba::linear", F.linear, lib=_LIBRARY)
