"""The device code of the BA projection; imported only where Triton is installed."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def ba_gemm_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    rows,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program computes BLOCK_N outputs of every token: weights on the MMA's M side."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    # Rows past the last token read it again: a clamp costs less than a masked load.
    w_ptrs = w_ptr + n[:, None] * K + k[None, :]
    x_ptrs = x_ptr + tl.minimum(m, rows - 1)[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        acc = tl.dot(tl.load(w_ptrs + start), tl.load(x_ptrs + start), acc)
    y_ptrs = y_ptr + m[None, :] * N + n[:, None]
    tl.store(y_ptrs, acc.to(tl.bfloat16), mask=m[None, :] < rows)
