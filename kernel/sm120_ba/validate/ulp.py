"""How far two floating-point tensors are apart, in steps from one value to the next."""

from __future__ import annotations

import torch

_BITS = {2: torch.int16, 4: torch.int32}


def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Steps between the elements of two tensors of one shape and dtype (16 or 32 bits), as int64.

    0 where the bits are equal. Values are counted in their order: -0 is one below +0, and infinity
    one beyond the largest number. Two NaN are 0 apart whatever their payloads, a NaN and a number
    more than any two numbers (65,535 in 16 bits). Waits for no device. Raises ValueError.
    """
    if a.shape != b.shape or a.dtype != b.dtype or a.element_size() not in _BITS:
        raise ValueError(
            f"{a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)} cannot be compared; both "
            "need one shape and one floating-point dtype of 16 or 32 bits"
        )
    steps = (_ordered(a) - _ordered(b)).abs()
    a_nan, b_nan = a.isnan(), b.isnan()
    steps = torch.where(a_nan ^ b_nan, (1 << 8 * a.element_size()) - 1, steps)
    return torch.where(a_nan & b_nan, 0, steps)


def one_step_off(values: torch.Tensor) -> torch.Tensor:
    """A copy whose first element is another value, one step away (a NaN becomes 0)."""
    changed = values.clone(memory_format=torch.contiguous_format)
    bits = changed.view(-1)[:1].view(_BITS[values.element_size()])
    bits.copy_(torch.where(changed.view(-1)[:1].isnan(), 0, bits ^ 1))
    return changed


def _ordered(values: torch.Tensor) -> torch.Tensor:
    bits = values.view(_BITS[values.element_size()]).long()
    lowest = -(1 << 8 * values.element_size() - 1)
    return torch.where(bits < 0, lowest - 1 - bits, bits)
