"""The proof at warm-up on a GPU: what it finds, what it costs, what it leaves behind.

Branch: for each shape and M the kernel where it was proved and `F.linear` where it was not, read
from the captured graph. The planted faults are F.linear's product but for the fault, so that they
are found on every GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
import torch.nn.functional as F  # noqa: N812
from planted_kernels import (
    Planted,
    no_nan,
    row_short,
    split_k,
    swapped_mma,
    swapped_operand,
    ulp_off_at_five_rows,
    zero_of_other_sign,
)

from runci import register_cuda_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.graph_audit import kernel_names
from sm120_ba.inputs import random_operands
from sm120_ba.proof import prove
from sm120_ba.proof_store import Store
from sm120_ba.reasons import Reason
from sm120_ba.reference import frozen_gemm, same_bits
from sm120_ba.runtime import CudaRuntime
from sm120_ba.shapes import BY_SIZE, TABLE, Shape

register_cuda_ci(est_time=90, stage="base-b-kernel-unit", runner_config="1-gpu-small")
register_cuda_ci(est_time=90, stage="base-b-kernel-unit", runner_config="1-gpu-large")

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM90 = HAS_CUDA and torch.cuda.get_device_capability(0) == (9, 0)
SMALL = BY_SIZE[64, 2048]
KERNEL = "ba_gemm_kernel"
MILLISECONDS = 20  # an M may take, beside compiling
MEBIBYTE = 2**20


class CountedRuntime(CudaRuntime):
    """The real one, with a kernel of the test's where it has one."""

    def __init__(self, gemm: Planted | None = None) -> None:
        self.gemm = gemm
        self.timed = 0

    def load(self, index: int, shape: Shape):
        return self.gemm or super().load(index, shape)

    def time_pair(self, *arguments):
        self.timed += 1
        return super().time_pair(*arguments)


def dispatcher(gemm: Planted | None = None, store: Store | None = None) -> Dispatcher:
    runtime = CountedRuntime(gemm)
    return Dispatcher(runtime=runtime, prover=prove, store=store or Store(None))


def some_rows(shape: Shape) -> list[int]:
    return sorted({2, min(8, shape.m_max), min(9, shape.m_max), shape.m_max})


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestEveryShape(unittest.TestCase):
    """The table's shapes with the real kernel."""

    def test_the_kernel_has_the_frozen_form_s_bits_for_every_m(self) -> None:
        for shape in TABLE:
            gemm = CudaRuntime().load(torch.cuda.current_device(), shape)
            stream = torch.cuda.current_stream().cuda_stream
            for rows in shape.rows:
                x, w = random_operands(rows, rows, "cuda", shape)
                guarded = torch.full((rows + 4, shape.n), torch.nan, dtype=x.dtype, device="cuda")
                gemm.launch(x, w, guarded[2:-2], stream)
                with self.subTest(shape=str(shape), rows=rows):
                    self.assertTrue(same_bits(guarded[2:-2], frozen_gemm(x, w)))
                    self.assertEqual(int(guarded.isnan().sum()), 4 * shape.n)

    def test_what_was_proved_is_what_a_graph_holds_and_what_linear_computes(self) -> None:
        for shape in TABLE:
            rows = some_rows(shape)
            proved = dispatcher()
            proved.warmup("cuda", shapes=[(shape.n, shape.k)], rows=rows, mode="proved")
            (record,) = proved.proof()["proofs"]
            for m in rows:
                row = record["rows"][str(m)]
                with self.subTest(shape=str(shape), rows=m):
                    self.assertGreater(row["control"], 0.9)
                    self.assertIn(row["refused"], (None, "BITS_DIFFER", "NOT_FASTER"))
                    self.check_graph(proved, shape, m, takes_kernel=row["refused"] is None)
            share = record["rows"]["2"]["different"]["cancelling"]
            print(f"{shape}: {share} of {record['rows']['2']['compared']['cancelling']} differ")

    def check_graph(self, proved: Dispatcher, shape: Shape, m: int, takes_kernel: bool) -> None:
        x, w = random_operands(m, m, "cuda", shape)
        F.linear(x, w)  # cuBLAS has to be warm
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph):
            y = proved.linear(x, w)
        self.assertEqual(kernel_names(graph).count(KERNEL), int(takes_kernel))
        x.copy_(random_operands(m, 99, "cuda", shape)[0])
        graph.replay()
        self.assertTrue(same_bits(y, F.linear(x, w)))

    @unittest.skipUnless(IS_SM90, "recorded on an H200")
    def test_sm90_dispatches_k_2048_and_2560_and_refuses_the_others(self) -> None:
        for shape in TABLE:
            proved = dispatcher()
            reason = proved.warmup(
                "cuda", shapes=[(shape.n, shape.k)], rows=[2, shape.m_max], mode="proved"
            )
            expected = None if shape.k in (2048, 2560) else Reason.BITS_DIFFER
            with self.subTest(shape=str(shape)):
                self.assertIs(reason, expected)


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestPlantedFaults(unittest.TestCase):
    """Each fault is refused on the device, at the M where it is."""

    ROWS = (2, 5, 8)

    def warm(self, fault, mode: str = "proved") -> tuple[Dispatcher, Reason | None]:
        made = dispatcher(Planted(fault))
        sizes = [(SMALL.n, SMALL.k)]
        return made, made.warmup("cuda", shapes=sizes, rows=self.ROWS, mode=mode)

    def test_other_bits(self) -> None:
        everywhere = set(self.ROWS)
        for fault, wrong in (
            (split_k, everywhere),
            (swapped_mma, everywhere),
            (swapped_operand, everywhere),
            (row_short, everywhere),
            (ulp_off_at_five_rows, {5}),
            (zero_of_other_sign, everywhere),
            (no_nan, everywhere),
        ):
            made, reason = self.warm(fault)
            with self.subTest(fault.__name__):
                self.assertIs(reason, Reason.BITS_DIFFER if 2 in wrong else Reason.NOT_FASTER)
                for m in self.ROWS:
                    x, w = random_operands(m, m, "cuda", SMALL)
                    refused = made.why_not(x, w)
                    self.assertIs(refused is Reason.BITS_DIFFER, m in wrong)
                    self.assertIsNotNone(refused)

    def test_right_but_slow(self) -> None:
        made, reason = self.warm(F.linear)  # and a copy, so never faster
        self.assertIs(reason, Reason.NOT_FASTER)
        row = made.proof()["proofs"][0]["rows"]["5"]
        self.assertEqual(sum(row["different"].values()), 0)
        self.assertGreater(row["kernel_us"], row["linear_us"])


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestCost(unittest.TestCase):
    """Time, memory, generators, stream and device."""

    SIZES = ((SMALL.n, SMALL.k),)

    def test_milliseconds_an_m(self) -> None:
        made = dispatcher()
        made.warmup("cuda", shapes=self.SIZES, rows=[2], mode="proved")
        torch.cuda.synchronize()
        rows = range(3, 16)
        start = time.perf_counter()
        made.warmup("cuda", shapes=self.SIZES, rows=rows, mode="proved")
        each = 1000 * (time.perf_counter() - start) / len(rows)
        print(f"{each:.1f} ms an M")
        self.assertLessEqual(each, MILLISECONDS)

    FRESH = """
import json, sys, torch
from sm120_ba.dispatch import Dispatcher
from sm120_ba.proof_store import Store
used = sys.argv[1] == "used"
keep = torch.zeros(3, 1000, 1000, device="cuda")
if used:
    torch.nn.functional.linear(keep[0], keep[1])
def state():
    torch.cuda.synchronize()
    return [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
before = state()
generators = torch.get_rng_state(), torch.cuda.get_rng_state()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    dispatcher = Dispatcher(store=Store(None))
    dispatcher.warmup(0, shapes=[(64, 2048), (128, 4096)], rows=[2, 3], mode="proved")
    same_stream = torch.cuda.current_stream() == stream
after = state()
same = torch.equal(torch.get_rng_state(), generators[0])
same = same and torch.equal(torch.cuda.get_rng_state(), generators[1])
print(json.dumps({"before": before, "after": after, "generators": same, "stream": same_stream,
    "device": torch.cuda.current_device(), "rows": len(dispatcher.proof()["proofs"][1]["rows"])}))
"""

    def test_a_fresh_process_is_left_as_it_was(self) -> None:
        for kind in ("fresh", "used"):  # without and with a workspace of cuBLAS
            command = [sys.executable, "-c", self.FRESH, kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            print(kind, found)
            more = [after - b for after, b in zip(found["after"], found["before"], strict=True)]
            self.assertLess(max(more), MEBIBYTE)
            self.assertEqual((found["generators"], found["stream"]), (True, True))
            self.assertEqual((found["device"], found["rows"]), (0, 2))

    def test_never_inside_a_capture(self) -> None:
        made = dispatcher()
        x = torch.ones(4, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            reason = made.warmup("cuda", shapes=self.SIZES, mode="proved")
            y = x + 1
        graph.replay()
        self.assertIs(reason, Reason.COLD_CAPTURE)
        self.assertEqual(y.tolist(), [2.0] * 4)

    def test_graphs_that_were_captured_before_still_replay(self) -> None:
        x, w = random_operands(4, 4, "cuda", SMALL)
        F.linear(x, w)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = F.linear(x, w)
        made = dispatcher()
        made.warmup("cuda", shapes=self.SIZES, rows=[4], mode="proved")
        x.copy_(random_operands(4, 5, "cuda", SMALL)[0])
        graph.replay()
        self.assertTrue(torch.equal(y, F.linear(x, w)))

    def test_a_second_start_measures_nothing_and_answers_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            answers = []
            for _ in range(2):
                made = dispatcher(store=Store(Path(folder) / "proofs"))
                answers.append(made.warmup("cuda", shapes=self.SIZES, rows=[4, 9], mode="proved"))
                keys = made.proof()["proofs"][0]["keys"]
            self.assertEqual(made._runtime.timed, 0)
            self.assertIs(answers[0], answers[1])
            self.assertRegex(keys["cublas"], r"libcublas \d+\.\d+\.\d+, libcublasLt \d+")
            self.assertTrue(keys["uuid"] and keys["driver"])


if __name__ == "__main__":
    unittest.main()
