"""Compile the project's kernels for a named GPU; needs Triton, and no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton import compile as triton_compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction

from sm120_ba.ba_kernel import ba_gemm_kernel
from sm120_ba.shapes import Shape

_ALIGNED_16 = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class KernelForm:
    """A Triton or Gluon kernel over (x, w, y, rows) and what fixes its machine code.

    `constants` by parameter name; `warps` a program; `max_registers` a thread, None for the
    compiler's choice.
    """

    kernel: Any
    constants: dict[str, int]
    warps: int
    aligned: bool = True
    max_registers: int | None = None

    def source(self) -> ASTSource:
        """BF16 pointers x, w, y, 16-byte aligned where `aligned`; `rows` is not specialized on."""
        signature = {"x_ptr": "*bf16", "w_ptr": "*bf16", "y_ptr": "*bf16", "rows": "i32"}
        signature |= dict.fromkeys(self.constants, "constexpr")
        constants = {(self.kernel.arg_names.index(k),): v for k, v in self.constants.items()}
        attributes = {(i,): _ALIGNED_16 for i in range(3)} if self.aligned else {}
        is_gluon = isinstance(self.kernel, GluonJITFunction)
        source_type = GluonASTSource if is_gluon else ASTSource
        return source_type(self.kernel, signature, constants, attributes)


def kernel_form(shape: Shape) -> KernelForm:
    """The kernel for one shape of the table; `grid` is left to the launch, which knows M."""
    constants = {"N": shape.n, "K": shape.k, "PART": shape.part, "STAGES": shape.stages}
    # Left alone, the assembler of Triton 3.6 stops at 72 registers for SM120 and spills.
    return KernelForm(ba_gemm_kernel, constants, warps=2, max_registers=96)


def compile_form(form: KernelForm, capability: int, **options: Any) -> Any:
    """Triton's compiled kernel of `form` for compute capability `capability` (80, 90, 120).

    `options` are Triton's own, such as `maxnreg`. Raises what Triton raises.
    """
    target = GPUTarget("cuda", capability, 32)
    # FP fusion cannot touch a chain of MMAs; it is said since its default differs by release.
    settings: dict[str, Any] = {"num_warps": form.warps, "enable_fp_fusion": True}
    if form.max_registers is not None:
        settings["maxnreg"] = form.max_registers
    return triton_compile(form.source(), target=target, options=settings | options)
