"""What the compiler makes of the BA kernel for SM120, checked without a GPU.

Every rule is also given a deliberately bad variant, and must find it: a check that cannot fail
proves nothing. The order of the sum is read by running the PTX with tags in place of numbers.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import os
import re
import subprocess
import sys
import unittest
from functools import cache
from typing import Any
from unittest import mock

import triton
import triton.language as tl
from triton.compiler.errors import CompilationError

from runci import register_cpu_ci
from sm120_ba import cuda_driver, machine_code, ptx_order
from sm120_ba.compiled import KernelForm, compile_form, kernel_form
from sm120_ba.gemm import GemmUnavailable, K, N, load
from sm120_ba.ptx_order import Launch
from sm120_ba.shapes import BY_SIZE, SM120_SHAPE, Shape

register_cpu_ci(est_time=25, stage="base-a", runner_config="cpu")

SM80, SM90, SM120 = 80, 90, 120
FAST = kernel_form(SM120_SHAPE)
REST = dataclasses.replace(FAST, constants={**FAST.constants, "K": 2560})
# One shape for each K, and the one whose columns are no whole number of programs.
FORMS = [BY_SIZE[size] for size in ((24, 5120), (64, 2048), (128, 3072), (64, 4096), (48, 2560))]


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
    return KernelForm(tile_kernel, constants, warps=4, aligned=aligned)


@cache
def fast(capability: int, shape: Shape = SM120_SHAPE) -> Any:
    return compile_form(kernel_form(shape), capability)


def code_of(compiled: Any) -> tuple[machine_code.Instruction, ...]:
    return machine_code.disassemble(compiled.asm["cubin"])


class TestMachineCode(unittest.TestCase):
    """The kernel keeps every rule, for SM120, for the SM90 it was measured on, and for SM80."""

    def test_kernel_keeps_every_rule(self):
        wanted = [(SM120, SM120_SHAPE), (SM90, SM120_SHAPE), (SM80, SM120_SHAPE)]
        for capability, shape in wanted + [(SM120, shape) for shape in FORMS]:
            compiled = fast(capability, shape)
            code = code_of(compiled)
            with self.subTest(capability=capability, shape=str(shape)):
                self.assertEqual(machine_code.other_matrix_instructions(code), [])
                self.assertEqual(machine_code.broken_chain(code), [])
                self.assertEqual(machine_code.local_memory(code), [])
                self.assertEqual(machine_code.too_much_shared(compiled.metadata.shared), [])
                self.assertEqual(machine_code.narrow_global_loads(code), [])
                taken = machine_code.resources(compiled.asm["cubin"])
                self.assertEqual(taken.stack, 0)
                self.assertLessEqual(taken.registers, 96)

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

    def test_a_sum_that_does_not_start_from_zero(self):
        code = code_of(fast(SM120))
        first = next(i for i, instruction in enumerate(code) if "MMA" in instruction.opcode)
        *operands, _zero = code[first].operands
        bad = dataclasses.replace(code[first], operands=(*operands, operands[0]))
        complaints = machine_code.broken_chain((*code[:first], bad, *code[first + 1 :]))
        self.assertEqual(complaints, [f"the chain starts from {operands[0]}, not from zero"])

    def test_few_registers_spill(self):
        compiled = compile_form(FAST, SM120, maxnreg=40)
        self.assertTrue(any("STL" in c for c in machine_code.local_memory(code_of(compiled))))
        self.assertGreater(machine_code.resources(compiled.asm["cubin"]).stack, 0)

    def test_a_deeper_ring_needs_too_much_shared_memory(self):
        deep = dataclasses.replace(FAST, constants={**FAST.constants, "STAGES": 20})
        shared = compile_form(deep, SM120).metadata.shared
        self.assertEqual(shared, 20 * 2 * 24 * 64 * 2)
        self.assertTrue(machine_code.too_much_shared(shared))

    def test_unaligned_pointers_are_loaded_in_pieces(self):
        code = code_of(compile_form(tile_form(aligned=False), SM120))
        self.assertTrue(machine_code.narrow_global_loads(code))


class TestOrderOfTheSum(unittest.TestCase):
    """MMA j of a warp multiplies K = 16j .. 16j+15 of the program's rows, at their own places.

    Each sum is then stored where it belongs, and nothing else is.
    """

    def complaints(
        self, ptx: str, block: int, rows: int, tokens: int = 0, shape: Shape = SM120_SHAPE
    ) -> list[str]:
        shared = fast(SM120, shape).metadata.shared
        launch = Launch(shape, (block, tokens), rows)
        ran = ptx_order.run(ptx, 32 * FAST.warps, shared, launch)
        return ptx_order.out_of_order(ran.products, launch) + ptx_order.wrong_stores(
            ran.stores, launch
        )

    def test_every_program_adds_in_ascending_order_for_every_row_count(self):
        for block in range(SM120_SHAPE.grid(2)[0]):
            for rows in SM120_SHAPE.rows:
                with self.subTest(block=block, rows=rows):
                    self.assertEqual(self.complaints(fast(SM120).asm["ptx"], block, rows), [])

    def test_the_last_programs_of_the_other_shapes_do_too(self):
        for shape in FORMS:
            ptx = fast(SM120, shape).asm["ptx"]
            for rows in {2, min(8, shape.m_max), min(9, shape.m_max), shape.m_max}:
                columns, tokens = (count - 1 for count in shape.grid(rows))
                with self.subTest(shape=str(shape), rows=rows):
                    self.assertEqual(self.complaints(ptx, columns, rows, tokens, shape), [])

    def test_columns_and_tokens_of_a_second_program_are_not_the_first_s(self):
        shape = BY_SIZE[24, 5120]
        ptx = fast(SM120, shape).asm["ptx"]
        for moved in ("%ctaid.x", "%ctaid.y"):
            once = ptx.replace(moved, "0")
            self.assertNotEqual(once, ptx)
            self.assertTrue(self.complaints(once, 1, 17, 1, shape))

    def test_weights_past_the_last_row_are_found(self):
        shape, whole = BY_SIZE[24, 5120], BY_SIZE[48, 5120]
        # Without the clamp and the mask of N = 24: the same code for a weight of whole programs.
        complaints = self.complaints(fast(SM120, whole).asm["ptx"], 1, 8, 0, shape)
        self.assertIn("does not multiply", complaints[0])

    def test_a_loop_over_k_with_a_rest_does_not_compile(self):
        with self.assertRaises(CompilationError):
            compile_form(REST, SM120)

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

    def test_wrong_stores_are_found(self):
        ptx = fast(SM120).asm["ptx"]
        store = re.compile(r"@%p\d+ (st\.global\.b16 \[ %rd\d+ \+ )0( \], \{ %rs\d+ \};)")
        self.assertEqual(len(store.findall(ptx)), 4)
        self.assertEqual(len(self.complaints(store.sub("", ptx, count=1), 0, 8)), 1)
        unmasked = store.sub(r"\g<1>0\2", ptx)
        self.assertEqual(self.complaints(unmasked, 1, 8), [])
        self.assertIn("is no output here", self.complaints(unmasked, 1, 7)[0])
        moved = store.sub(lambda m: m[0].replace("+ 0", "+ 2"), ptx, count=1)
        self.assertTrue(any("gets the sum of" in c for c in self.complaints(moved, 2, 5)))


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


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig as the CUDA Driver API reference declares it."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class RecordingDriver:
    """Stands in for libcuda: reads what a launch passes, and can refuse the first one."""

    def __init__(self, first_code: int = 0) -> None:
        self.codes = [first_code]
        self.launches: list[tuple[Any, ...]] = []
        self.contexts: list[int | None] = []

    def cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: None) -> int:  # noqa: N802
        c = LaunchConfig.from_address(config)
        places = (ctypes.c_void_p * 6).from_address(parameters)
        pointers = [ctypes.c_uint64.from_address(place).value for place in places[:3]]
        rows = ctypes.c_int32.from_address(places[3]).value
        scratch = [ctypes.c_uint64.from_address(place).value for place in places[4:]]
        size = (list(c.grid), list(c.block), c.shared, c.stream, c.attributes, c.attribute_count)
        self.launches.append((function, size, pointers, rows, scratch))
        return self.codes.pop() if self.codes else 0

    def cuCtxSetCurrent(self, context: ctypes.c_void_p) -> int:  # noqa: N802
        self.contexts.append(context.value)
        return 0

    def cuGetErrorString(self, code: int, text: Any) -> int:  # noqa: N802
        text._obj.value = b"refused"
        return 0


class TestLaunch(unittest.TestCase):
    """What the driver is given for a launch, with the driver faked."""

    ADDRESSES = (1 << 40, 2 << 40, 3 << 40)

    def launch(self, driver: RecordingDriver, rows: int = 5, stream: int = 77) -> None:
        with mock.patch.object(cuda_driver, "driver", lambda: driver):
            function = cuda_driver.Function(0xC0, 0xF0, 3, 32 * FAST.warps, 49152)
            function.launch(*self.ADDRESSES, rows, stream)

    def test_configuration_and_parameters_reach_the_driver(self):
        driver = RecordingDriver()
        self.launch(driver)
        size = ([3, 1, 1], [64, 1, 1], 49152, 77, None, 0)
        self.assertEqual(driver.launches, [(0xF0, size, list(self.ADDRESSES), 5, [0, 0])])

    def test_each_eight_tokens_have_their_programs(self):
        for rows, tiles in ((2, 1), (8, 1), (9, 2), (16, 2), (17, 3), (63, 8)):
            driver = RecordingDriver()
            self.launch(driver, rows)
            self.assertEqual(driver.launches[0][1][0], [3, tiles, 1])

    def test_the_default_stream_is_null(self):
        driver = RecordingDriver()
        self.launch(driver, stream=0)
        self.assertIsNone(driver.launches[0][1][3])

    def test_a_thread_without_a_context_gets_the_device_s(self):
        driver = RecordingDriver(first_code=cuda_driver.INVALID_CONTEXT)
        self.launch(driver)
        self.assertEqual((len(driver.launches), driver.contexts), (2, [0xC0]))
        self.assertEqual(driver.launches[0], driver.launches[1])

    def test_a_refused_launch_raises_with_the_driver_s_reason(self):
        with self.assertRaisesRegex(cuda_driver.DriverError, r"cuLaunchKernelEx: refused .*700"):
            self.launch(RecordingDriver(first_code=700))

    def test_loading_without_cuda_says_why(self):
        refused = self.assertRaisesRegex(GemmUnavailable, "no usable CUDA device")
        with mock.patch("torch.cuda.is_available", lambda: False), refused:
            load(0)


class TestLoadingFails(unittest.TestCase):
    """What is wrong with Triton or the driver is said as GemmUnavailable; the GPU is faked."""

    def setUp(self) -> None:
        for name, value in (
            ("torch.version.cuda", "13.0"),
            ("torch.cuda.is_available", lambda: True),
            ("torch.cuda.init", lambda: None),
            ("torch.cuda.get_device_capability", lambda _index: (12, 0)),
        ):
            patch = mock.patch(name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def test_no_triton(self):
        hidden = {"sm120_ba.compiled": None}
        with mock.patch.dict(sys.modules, hidden):
            self.assertRaisesRegex(GemmUnavailable, "missing or too old", load, 0)

    def test_a_triton_that_cannot_be_imported(self):
        broken = mock.patch("builtins.__import__", side_effect=self.broken_import)
        with mock.patch.dict(sys.modules), broken:
            sys.modules.pop("sm120_ba.compiled")
            self.assertRaisesRegex(GemmUnavailable, "too old: no libtriton", load, 0)

    @staticmethod
    def broken_import(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "sm120_ba.compiled":
            raise AttributeError("no libtriton")
        return importlib.__import__(name, *args, **kwargs)

    def test_a_triton_that_cannot_compile(self):
        refused = mock.patch("sm120_ba.compiled.triton_compile", side_effect=ValueError("sm_120"))
        with refused:
            self.assertRaisesRegex(
                GemmUnavailable, "cannot compile 48 x 5120 for sm_120: sm_120", load, 0
            )

    def test_a_compiler_that_quotes_its_source_is_cut_to_one_sentence(self):
        with (
            mock.patch("sm120_ba.compiled.kernel_form", lambda _shape: REST),
            self.assertRaises(GemmUnavailable) as refused,
        ):
            load(0)
        self.assertRegex(str(refused.exception), r"no multiple of .* \(Triton 3\.\d+\.")
        self.assertNotIn("\n", str(refused.exception))

    def test_a_driver_that_cannot_load(self):
        for error in (OSError("no libcuda"), AttributeError("an old libcuda")):
            with mock.patch.object(cuda_driver, "driver", side_effect=error):
                self.assertRaisesRegex(GemmUnavailable, f"driver cannot load.*{error}", load, 0)


if __name__ == "__main__":
    unittest.main()
