"""Kernels with one planted fault each, for the proof at warm-up; on the CPU or on a GPU.

The product is F.linear's own but for the fault, so that only the fault can be found.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.testing import RecordingGemm

BF16 = torch.bfloat16
Fault = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Planted(RecordingGemm):
    """A kernel with one fault: `fault(x, w)` is what it computes."""

    digest = "planted"

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Write the faulty product; rows that it lacks stay as they are in y."""
        product = self.fault(x, w)
        y[: len(product)] = product
        self.rows.append(x.shape[0])
        self.streams.append(stream)


def split_k(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """K in two halves, each summed in FP32."""
    half = x.shape[1] // 2
    x, w = x.float(), w.float()
    return (x[:, :half] @ w[:, :half].t() + x[:, half:] @ w[:, half:].t()).to(BF16)


def swapped_mma(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Steps 7 and 100 of the sum change places, both operands alike."""
    order = torch.arange(x.shape[1], device=x.device)
    order[7 * 16 : 8 * 16], order[100 * 16 : 101 * 16] = (
        order[100 * 16 : 101 * 16].clone(),
        order[7 * 16 : 8 * 16].clone(),
    )
    return F.linear(x[:, order], w[:, order])


def swapped_operand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two steps' products are of the wrong columns."""
    other = x.clone()
    other[:, :16], other[:, 16:32] = x[:, 16:32], x[:, :16]
    return F.linear(other, w)


def row_short(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x[:-1], w)


def ulp_off_at_five_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = F.linear(x, w)
    if len(x) == 5:
        y.view(torch.int16)[3, 11] ^= 1
    return y


def zero_of_other_sign(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = F.linear(x, w)
    return torch.where(y == 0, -y, y)


def other_denormals(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Flushed to zero where the CPU keeps them, kept where it flushes them."""
    y, exact = F.linear(x, w), (x.double() @ w.double().t()).to(BF16)
    denormal = (exact != 0) & (exact.abs() < torch.finfo(BF16).tiny)
    return torch.where(denormal, torch.where(y == 0, exact, torch.zeros_like(y)), y)


def no_nan(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w).nan_to_num(0.0, torch.inf, -torch.inf)
