"""The device code of the BA projection; imported only where Triton is installed.

Chosen form: programs of two warps, each with one chain of K/16 `m16n8k16` MMAs for 16 columns of y
and eight tokens, weights on the MMA's M side and tokens on its N side. The chain's latency is the
floor, so everything else is arranged never to delay it: `kernel/benchmark/NOTES.md` holds what was
tried and measured. More tokens are more programs: the order of each sum stays.

A tile is two parts of PART elements of K. Tiles travel through a ring of STAGES in shared memory;
a part has its own slot, since the compiler puts a barrier between accesses of one allocation.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

# Triton 3.8 renamed the copy, and 3.9 left a stub under the old name that raises.
copy_to_shared = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared


@gluon.jit
def _request(
    w_ptrs: gl.tensor,
    x_ptrs: gl.tensor,
    w_slots: gl.tuple,
    x_slots: gl.tuple,
    slot: gl.constexpr,
    part: gl.tensor,
    PART: gl.constexpr,
) -> None:
    """Copy one part of the weights and of the tokens to its slot."""
    copy_to_shared(w_slots[slot], w_ptrs + part * PART)
    copy_to_shared(x_slots[slot], x_ptrs + part * PART)


@gluon.jit
def _fragments(
    w_slots: gl.tuple, x_slots: gl.tuple, slot: gl.constexpr, mma: gl.constexpr
) -> tuple[gl.tensor, gl.tensor]:
    """The MMA operands in a slot."""
    w = w_slots[slot].load(gl.DotOperandLayout(operand_index=0, parent=mma, k_width=2))
    x = x_slots[slot].permute([1, 0])
    return w, x.load(gl.DotOperandLayout(operand_index=1, parent=mma, k_width=2))


@gluon.jit
def _advance(
    acc: gl.tensor,
    w: gl.tensor,
    x: gl.tensor,
    w_slots: gl.tuple,
    x_slots: gl.tuple,
    slot: gl.constexpr,
    mma: gl.constexpr,
) -> tuple[gl.tensor, gl.tensor, gl.tensor]:
    """Multiply (w, x) and the first half of the tile at `slot`; returns its second half loaded."""
    for half in gl.static_range(2):
        w_next, x_next = _fragments(w_slots, x_slots, slot + half, mma)
        acc = mma_v2(w, x, acc)
        w = w_next
        x = x_next
    return acc, w, x


@gluon.jit
def _sum_over_k(
    w_ptrs: gl.tensor,
    x_ptrs: gl.tensor,
    K: gl.constexpr,
    PART: gl.constexpr,
    STAGES: gl.constexpr,
    mma: gl.constexpr,
) -> gl.tensor:
    """The FP32 sums (16, 8) of a program's rows of w by the tokens, over K in ascending order."""
    TILES: gl.constexpr = K // (2 * PART)
    gl.static_assert(K % (2 * PART * STAGES) == 0, "K is no multiple of 2 x PART x STAGES")
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=8, per_phase=1, max_phase=8, order=[1, 0])
    w_slots: gl.tuple = ()
    x_slots: gl.tuple = ()
    for _ in gl.static_range(2 * STAGES):
        w_slots += (gl.allocate_shared_memory(gl.bfloat16, [16, PART], shared),)
        x_slots += (gl.allocate_shared_memory(gl.bfloat16, [8, PART], shared),)
    # The first tile is requested in halves, so that the chain starts when the first half is here.
    for part in gl.static_range(2 * STAGES):
        _request(w_ptrs, x_ptrs, w_slots, x_slots, part, part, PART)
        if part == 0 or part % 2 == 1:
            async_copy.commit_group()
    acc = gl.zeros([16, 8], gl.float32, mma)
    async_copy.wait_group(STAGES)
    w, x = _fragments(w_slots, x_slots, 0, mma)
    acc = mma_v2(w, x, acc)
    async_copy.wait_group(STAGES - 1)
    w, x = _fragments(w_slots, x_slots, 1, mma)
    # (w, x) is always the second half of a tile, loaded and not yet multiplied, so that the wait
    # for the next tile and its loads run in the shadow of these MMAs.
    for tile in range(STAGES, TILES, STAGES):
        for s in gl.static_range(STAGES):
            async_copy.wait_group(STAGES - 2)
            acc, w, x = _advance(acc, w, x, w_slots, x_slots, (2 * s + 2) % (2 * STAGES), mma)
            # The barrier after the wait saw both warps done with these slots.
            for half in gl.static_range(2):
                ahead = 2 * (tile + s) + half
                _request(w_ptrs, x_ptrs, w_slots, x_slots, 2 * s + half, ahead, PART)
            async_copy.commit_group()
    for s in gl.static_range(STAGES - 1):
        async_copy.wait_group(STAGES - 2 - s)
        acc, w, x = _advance(acc, w, x, w_slots, x_slots, 2 * s + 2, mma)
    return mma_v2(w, x, acc)


@gluon.jit
def ba_gemm_kernel(
    x_ptr: gl.tensor,
    w_ptr: gl.tensor,
    y_ptr: gl.tensor,
    rows: gl.tensor,
    N: gl.constexpr,
    K: gl.constexpr,
    PART: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Program (i, j) computes columns 16i..16i+15 of y for tokens 8j..8j+7.

    x (rows, K), w (N, K), y (rows, N): contiguous BF16, 16-byte aligned, rows >= 2.
    """
    mma: gl.constexpr = gl.NVMMADistributedLayout(
        version=[2, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, 8]
    )
    # Eight BF16 elements a thread: 128-bit copies.
    copy: gl.constexpr = gl.BlockedLayout(
        [1, 8], [256 // PART, PART // 8], [gl.num_warps(), 1], [1, 0]
    )
    first = gl.program_id(0) * 16
    token = gl.program_id(1) * 8
    n = first + gl.arange(0, 16, gl.SliceLayout(1, copy))
    m = token + gl.arange(0, 8, gl.SliceLayout(1, copy))
    k = gl.arange(0, PART, gl.SliceLayout(0, copy))
    # Rows past the last are the last again: a clamp costs less than a masked copy.
    if N % 16 != 0:
        n = gl.minimum(n, N - 1)
    w_ptrs = w_ptr + n[:, None] * K + k[None, :]
    x_ptrs = x_ptr + gl.minimum(m, rows - 1)[:, None] * K + k[None, :]
    acc = _sum_over_k(w_ptrs, x_ptrs, K, PART, STAGES, mma)
    n_out = first + gl.arange(0, 16, gl.SliceLayout(1, mma))
    m_out = token + gl.arange(0, 8, gl.SliceLayout(0, mma))
    y_ptrs = y_ptr + m_out[None, :] * N + n_out[:, None]
    inside = m_out[None, :] < rows
    if N % 16 != 0:
        inside = inside & (n_out[:, None] < N)
    gl.store(y_ptrs, acc.to(gl.bfloat16), mask=inside)
