"""What the compiler makes of the BA kernel for SM120, checked without a GPU.

Every rule is also given a deliberately bad variant, and must find it: a check that cannot fail
proves nothing. The order of the sum is read by running the PTX with tags in place of numbers.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import unittest
from functools import cache
from typing import Any

import triton
import triton.language as tl

from runci import register_cpu_ci
from sm120_ba import machine_code, ptx_order
from sm120_ba.compiled import FAST, KernelForm, compile_form
from sm120_ba.gemm import M_MAX, M_MIN, K, N

register_cpu_ci(est_time=45, stage="base-a", runner_config="cpu")

SM90, SM120 = 90, 120


@triton.jit
def tile_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    rows,
    columns: tl.constexpr,
    depth: tl.constexpr,
    chains: tl.constexpr,
    kind: tl.constexpr,
):
    """The projection in plain Triton, made bad on purpose by chains and kind."""
    n = tl.program_id(0) * 16 + tl.arange(0, 16)
    m = tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.float32)
    other = tl.zeros((16, 16), tl.float32)
    for start in range(0, depth, 128 * chains):
        for chain in tl.static_range(chains):
            k = start + chain * 128 + tl.arange(0, 128)
            x = tl.load(x_ptr + m[:, None] * depth + k[None, :], mask=m[:, None] < rows, other=0.0)
            w = tl.load(w_ptr + n[None, :] * depth + k[:, None])
            if kind == 1:
                x = x.to(tl.float16)
                w = w.to(tl.float16)
            if kind == 2:
                x = x.to(tl.float32)
                w = w.to(tl.float32)
            if chain == 0:
                acc = tl.dot(x, w, acc, input_precision="ieee")
            else:
                other = tl.dot(x, w, other, input_precision="ieee")
    y_ptrs = y_ptr + m[:, None] * columns + n[None, :]
    tl.store(y_ptrs, (acc + other).to(tl.bfloat16), mask=m[:, None] < rows)


def tile_form(chains: int = 1, kind: int = 0, aligned: bool = True) -> KernelForm:
    constants = {"columns": N, "depth": K, "chains": chains, "kind": kind}
    return KernelForm(tile_kernel, constants, warps=4, grid=3, aligned=aligned)


@cache
def fast(capability: int) -> Any:
    return compile_form(FAST, capability)


def code_of(compiled: Any) -> tuple[machine_code.Instruction, ...]:
    return machine_code.disassemble(compiled.asm["cubin"])


class TestMachineCode(unittest.TestCase):
    """The kernel keeps every rule, for SM120 and for the SM90 it was measured on."""

    def test_kernel_keeps_every_rule(self):
        for capability in (SM120, SM90):
            compiled = fast(capability)
            code = code_of(compiled)
            with self.subTest(capability=capability):
                self.assertEqual(machine_code.other_matrix_instructions(code), [])
                self.assertEqual(machine_code.broken_chain(code), [])
                self.assertEqual(machine_code.local_memory(code), [])
                self.assertEqual(machine_code.too_much_shared(compiled.metadata.shared), [])
                self.assertEqual(machine_code.narrow_global_loads(code), [])

    def test_rows_are_not_specialized(self):
        signature = re.search(
            r"tt.func public @ba_gemm_kernel\((.*?)\) attributes", fast(SM120).asm["ttgir"]
        )
        arguments = signature[1].split("%")
        rows = [text for text in arguments if text.startswith("rows")]
        self.assertEqual(len(rows), 1)
        self.assertNotIn("divisibility", rows[0])
        self.assertIn(
            "divisibility = 16", next(text for text in arguments if text.startswith("x_ptr"))
        )

    def test_kernel_needs_no_workspace(self):
        for capability in (SM120, SM90):
            self.assertEqual(fast(capability).metadata.global_scratch_size, 0)


class TestBadVariantsAreFound(unittest.TestCase):
    """Each rule fails on the variant that breaks it."""

    def test_fp16_operands_are_another_matrix_instruction(self):
        complaints = machine_code.other_matrix_instructions(
            code_of(compile_form(tile_form(kind=1), SM120))
        )
        self.assertTrue(any("HMMA.16816.F32 is not" in c for c in complaints), complaints)

    def test_fp32_arithmetic_uses_no_tensor_core(self):
        code = code_of(compile_form(tile_form(kind=2), SM120))
        self.assertEqual(machine_code.other_matrix_instructions(code), [f"no {machine_code.MMA}"])
        self.assertEqual(machine_code.broken_chain(code), ["no matrix instruction"])

    def test_two_accumulators_break_the_chain(self):
        self.assertTrue(
            machine_code.broken_chain(code_of(compile_form(tile_form(chains=2), SM120)))
        )

    def test_few_registers_spill(self):
        spilled = code_of(compile_form(FAST, SM120, maxnreg=40))
        self.assertTrue(any("STL" in c for c in machine_code.local_memory(spilled)))

    def test_a_deeper_ring_needs_too_much_shared_memory(self):
        deep = dataclasses.replace(FAST, constants={**FAST.constants, "STAGES": 20})
        shared = compile_form(deep, SM120).metadata.shared
        self.assertEqual(shared, 20 * 2 * 24 * 64 * 2)
        self.assertTrue(machine_code.too_much_shared(shared))

    def test_unaligned_pointers_are_loaded_in_pieces(self):
        code = code_of(compile_form(tile_form(aligned=False), SM120))
        self.assertTrue(machine_code.narrow_global_loads(code))


class TestOrderOfTheSum(unittest.TestCase):
    """MMA j of a warp multiplies K = 16j .. 16j+15 of the program's rows, at their own places."""

    def complaints(self, ptx: str, block: int, rows: int) -> list[str]:
        compiled = fast(SM120)
        products = ptx_order.run(ptx, 32 * FAST.warps, compiled.metadata.shared, block, rows)
        return ptx_order.out_of_order(products, block, rows)

    def test_every_program_adds_in_ascending_order_for_every_row_count(self):
        for block in range(FAST.grid):
            for rows in range(M_MIN, M_MAX + 1):
                with self.subTest(block=block, rows=rows):
                    self.assertEqual(self.complaints(fast(SM120).asm["ptx"], block, rows), [])

    def test_swapped_products_are_found(self):
        ptx = fast(SM120).asm["ptx"]
        mma = re.compile(r"mma\.sync\S+ (\{[^}]*\}), (\{[^}]*\}, \{[^}]*\}), ")
        first, second = list(mma.finditer(ptx))[:2]
        swapped = (
            ptx[: first.start(2)]
            + second[2]
            + ptx[first.end(2) : second.start(2)]
            + first[2]
            + ptx[second.end(2) :]
        )
        self.assertEqual(len(self.complaints(swapped, 0, 8)), 2 * FAST.warps)

    def test_a_wait_that_is_too_short_is_found(self):
        ptx = fast(SM120).asm["ptx"]
        waits = sorted({int(n) for n in re.findall(r"cp\.async\.wait_group\s+(\d+)", ptx)})
        self.assertEqual(waits, list(range(9)))
        early = re.sub(r"(cp\.async\.wait_group\s+)6;", r"\g<1>7;", ptx)
        self.assertTrue(self.complaints(early, 0, 8))


class TestInterpreter(unittest.TestCase):
    """The frozen form in Triton's interpreter, on FP32 copies, against FP64."""

    SCRIPT = """
import torch
from sm120_ba.reference import float64_gemm, frozen_gemm
for rows in range(2, 9):
    torch.manual_seed(rows)
    x, w = torch.randn(rows, 5120).bfloat16(), torch.randn(48, 5120).bfloat16()
    exact = float64_gemm(x, w)
    error = (frozen_gemm(x.float(), w.float()).double() - exact).norm() / exact.norm()
    assert error < 1e-6, (rows, float(error))
print("rows 2 to 8 agree")
"""

    def test_frozen_form_agrees_with_float64(self):
        # Triton reads the variable when it is imported, so this needs a process of its own.
        result = subprocess.run(
            [sys.executable, "-c", self.SCRIPT],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(result.stdout.strip(), "rows 2 to 8 agree", result.stderr)


if __name__ == "__main__":
    unittest.main()
