"""Compile the project's kernels for a named GPU; needs Triton, and no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton import compile as triton_compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sm120_ba.ba_kernel import ba_gemm_kernel

ALIGNED_16 = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class KernelForm:
    """One kernel and the compile-time constants that fix it."""

    kernel: Any
    constants: dict[str, int]
    warps: int
    grid: int

    def source(self) -> ASTSource:
        """The kernel with 16-byte-aligned BF16 pointers x, w, y and an unspecialized row count."""
        signature = {"x_ptr": "*bf16", "w_ptr": "*bf16", "y_ptr": "*bf16", "rows": "i32"}
        signature |= dict.fromkeys(self.constants, "constexpr")
        constants = {(self.kernel.arg_names.index(k),): v for k, v in self.constants.items()}
        attrs = {(i,): ALIGNED_16 for i in range(3)}
        return ASTSource(self.kernel, signature, constants, attrs)


FAST = KernelForm(
    ba_gemm_kernel,
    {"N": 48, "K": 5120, "BLOCK_N": 16, "BLOCK_M": 8, "BLOCK_K": 512, "STAGES": 3},
    warps=2,
    grid=3,
)


def compile_form(form: KernelForm, capability: int) -> Any:
    """Triton's compiled kernel of `form` for compute capability `capability` (90, 120)."""
    target = GPUTarget("cuda", capability, 32)
    return triton_compile(form.source(), target=target, options={"num_warps": form.warps})
