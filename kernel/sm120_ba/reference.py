"""What the fast kernel must equal: the frozen form, bit for bit, and FP64, within rounding.

The frozen form defines the bits: a program owns a 16 by 16 output tile and adds K tiles of 128 in
ascending order through BF16 `tl.dot` with FP32 accumulation, in four warps. It is written to be
obviously right, not fast. Importing this module imports Triton and torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def frozen_kernel(
    x_ptr: tl.tensor,
    w_ptr: tl.tensor,
    y_ptr: tl.tensor,
    rows: tl.tensor,
    N: tl.constexpr,
    K: tl.constexpr,
) -> None:
    """y (rows, N) = x (rows, K) · w (N, K)ᵀ; one program for 16 columns and 16 rows of y.

    The element types are those of the pointers: BF16 on a GPU, FP32 copies in the interpreter.
    """
    m = tl.program_id(1) * 16 + tl.arange(0, 16)
    n = tl.program_id(0) * 16 + tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.float32)
    for start in range(0, K, 128):
        k = start + tl.arange(0, 128)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < rows, other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    y_ptrs = y_ptr + m[:, None] * N + n[None, :]
    inside = (m[:, None] < rows) & (n[None, :] < N)
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=inside)


def frozen_gemm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x · wᵀ in the frozen form, through Triton's own launcher.

    x BF16 (M, K), w BF16 (N, K), K a multiple of 128, contiguous on one CUDA device; returns BF16
    (M, N). In the interpreter (TRITON_INTERPRET=1) pass FP32: it computes a BF16 dot wrongly.
    """
    (rows, k), n = x.shape, w.shape[0]
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n, 16), triton.cdiv(rows, 16))
    frozen_kernel[grid](x, w, y, rows, n, k, num_warps=4)
    return y


def float64_gemm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x · wᵀ in FP64 on the operands' device, not rounded to BF16."""
    return x.double() @ w.double().t()


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal BF16 bits everywhere, except that any NaN equals any NaN in the same place."""
    nan = expected.isnan()
    same = actual.view(torch.int16) == expected.view(torch.int16)
    return bool(((actual.isnan() == nan) & (same | nan)).all())


def ulp_distance(actual: torch.Tensor, expected: torch.Tensor) -> int:
    """The largest distance in BF16 steps between finite values in the same place (0 if none)."""
    finite = actual.isfinite() & expected.isfinite()

    def ordered(values: torch.Tensor) -> torch.Tensor:
        bits = values.view(torch.int16).int()
        # Negative floats sort backwards; -0 and +0 are the same step.
        return torch.where(bits < 0, -(bits & 0x7FFF), bits)

    distance = (ordered(actual) - ordered(expected)).abs()
    return int(distance[finite].max()) if bool(finite.any()) else 0
