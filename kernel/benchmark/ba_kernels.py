"""Kernels that the benchmark compares with: other ways to sum, and the floors."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2


@gluon.jit
def chain_kernel(x_ptr, w_ptr, y_ptr, rows, N: gl.constexpr, K: gl.constexpr):  # noqa: ARG001
    """The kernel's 320 dependent MMAs and its stores, with no loads: the floor for its bits."""
    mma: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, 8]
    )
    # The operands come from an argument, so that the compiler cannot compute the sum.
    w = gl.full([16, 64], 0, gl.int32, gl.DotOperandLayout(operand_index=0, parent=mma, k_width=2))
    x = gl.full([64, 8], 0, gl.int32, gl.DotOperandLayout(operand_index=1, parent=mma, k_width=2))
    w = (w + rows).to(gl.float32).to(gl.bfloat16)
    x = (x + rows).to(gl.float32).to(gl.bfloat16)
    acc = gl.zeros([16, 8], gl.float32, mma)
    for _ in range(0, K, 64):
        acc = mma_v2(w, x, acc)
    n = gl.program_id(0) * 16 + gl.arange(0, 16, gl.SliceLayout(1, mma))
    m = gl.arange(0, 8, gl.SliceLayout(0, mma))
    gl.store(y_ptr + m[None, :] * N + n[:, None], acc.to(gl.bfloat16), mask=m[None, :] < rows)


@gluon.jit
def empty_kernel(x_ptr, w_ptr, y_ptr, rows):
    """Nothing: what a launch in a graph costs."""


@triton.jit
def plain_kernel(x_ptr, w_ptr, y_ptr, rows, N: tl.constexpr, K: tl.constexpr):
    """The same sum in plain Triton: its own pipeline of K tiles of 512, three stages."""
    n = tl.program_id(0) * 16 + tl.arange(0, 16)
    m = tl.arange(0, 8)
    k = tl.arange(0, 512)
    w_ptrs = w_ptr + n[:, None] * K + k[None, :]
    x_ptrs = x_ptr + tl.minimum(m, rows - 1)[None, :] * K + k[:, None]
    acc = tl.zeros((16, 8), tl.float32)
    for start in tl.range(0, K, 512, num_stages=3):
        acc = tl.dot(tl.load(w_ptrs + start), tl.load(x_ptrs + start), acc)
    y_ptrs = y_ptr + m[None, :] * N + n[:, None]
    tl.store(y_ptrs, acc.to(tl.bfloat16), mask=m[None, :] < rows)


@triton.jit
def split_k_kernel(
    x_ptr, w_ptr, sum_ptr, rows, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr
):
    """Add one K tile of SPLIT to FP32 sums with atomics, in whatever order programs finish."""
    n = tl.program_id(0) * 16 + tl.arange(0, 16)
    m = tl.arange(0, 16)
    k = tl.program_id(1) * SPLIT + tl.arange(0, SPLIT)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < rows, other=0.0)
    w = tl.load(w_ptr + n[None, :] * K + k[:, None])
    sums = sum_ptr + m[:, None] * N + n[None, :]
    tl.atomic_add(sums, tl.dot(x, w), mask=m[:, None] < rows, sem="relaxed")


@triton.jit
def row_wise_kernel(x_ptr, w_ptr, y_ptr, rows, N: tl.constexpr, K: tl.constexpr):
    """One output column a program, FP32 products reduced over K without tensor cores."""
    m = tl.arange(0, 8)
    k = tl.arange(0, 1024)
    acc = tl.zeros((8, 1024), tl.float32)
    x_ptrs = x_ptr + tl.minimum(m, rows - 1)[:, None] * K + k[None, :]
    for start in tl.static_range(0, K, 1024):
        w = tl.load(w_ptr + tl.program_id(0) * K + start + k).to(tl.float32)
        acc += tl.load(x_ptrs + start).to(tl.float32) * w[None, :]
    y = tl.sum(acc, axis=1).to(tl.bfloat16)
    tl.store(y_ptr + m * N + tl.program_id(0), y, mask=m < rows)
