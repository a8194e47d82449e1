"""The BA kernel on a GPU: its bits, its launches, and the dispatcher in front of it.

The arithmetic and the launches are tested on any CUDA GPU against the frozen form that defines the
bits. What only compute capability 12.0 can show (equality with `F.linear`, the real guards) is in
`TestOnSm120`, which is skipped elsewhere with the reason.
"""

from __future__ import annotations

import threading
import unittest

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cuda_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN, K, N, ba_gemm, load
from sm120_ba.graph_audit import kernel_names
from sm120_ba.inputs import activation_like, adversarial_operands, random_operands
from sm120_ba.proof_store import Store
from sm120_ba.reasons import Reason
from sm120_ba.testing import trusting_dispatcher

register_cuda_ci(est_time=60, stage="base-b-kernel-unit", runner_config="1-gpu-small")
register_cuda_ci(est_time=60, stage="base-b-kernel-unit", runner_config="1-gpu-large")
register_cuda_ci(est_time=60, suite="by-hand-kernel-2-gpu-small")

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM120 = HAS_CUDA and torch.cuda.get_device_capability(0) == (12, 0)
ROWS = range(M_MIN, M_MAX + 1)
SEEDS = range(20)
KERNEL_NAME = "ba_gemm_kernel"

needs_cuda = unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
needs_sm120 = unittest.skipUnless(
    IS_SM120, "device 0 is not of compute capability 12.0, so the dispatcher never takes the kernel"
)
needs_second_gpu = unittest.skipUnless(
    HAS_CUDA and torch.cuda.device_count() > 1, "needs a second CUDA GPU"
)


def kernel_nodes(graph: torch.cuda.CUDAGraph) -> int:
    """How many nodes of a captured graph launch the BA kernel; a graph of no kernel is an error."""
    names = kernel_names(graph)
    assert names, "the graph launches nothing"
    return names.count(KERNEL_NAME)


def new_graph() -> torch.cuda.CUDAGraph:
    return torch.cuda.CUDAGraph(keep_graph=True)


class GpuCase(unittest.TestCase):
    """Assertions on bits."""

    def assert_same_bits(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        from sm120_ba.reference import same_bits, ulp_distance

        self.assertEqual((actual.shape, actual.dtype), (expected.shape, torch.bfloat16))
        if not same_bits(actual, expected):
            different = int((actual != expected).sum())
            self.fail(f"{different} outputs differ, by up to {ulp_distance(actual, expected)} ULP")


@needs_cuda
class TestArithmetic(GpuCase):
    """The ungated kernel against the frozen form and FP64; branch: the kernel, always."""

    def test_random_operands_equal_the_frozen_form(self):
        from sm120_ba.reference import frozen_gemm

        for rows in ROWS:
            for seed in SEEDS:
                with self.subTest(rows=rows, seed=seed):
                    x, w = random_operands(rows, seed, "cuda")
                    self.assert_same_bits(ba_gemm(x, w), frozen_gemm(x, w))

    def test_adversarial_operands_equal_the_frozen_form(self):
        from sm120_ba.reference import frozen_gemm

        for rows in ROWS:
            for name, x, w in adversarial_operands(rows, rows, "cuda"):
                with self.subTest(rows=rows, case=name):
                    self.assert_same_bits(ba_gemm(x, w), frozen_gemm(x, w))

    def test_activation_like_operands_equal_the_frozen_form(self):
        from sm120_ba.reference import frozen_gemm

        for rows in ROWS:
            x, w = activation_like(rows, rows, "cuda")
            self.assert_same_bits(ba_gemm(x, w), frozen_gemm(x, w))

    def test_result_is_near_float64(self):
        from sm120_ba.reference import float64_gemm

        for rows in ROWS:
            x, w = random_operands(rows, rows, "cuda")
            exact = float64_gemm(x, w)
            error = (ba_gemm(x, w).double() - exact).norm() / exact.norm()
            # One rounding to eight bits of mantissa; on average it costs well under 2^-9.
            self.assertLess(float(error), 2.0**-9)

    def test_one_hot_rows_give_the_weights_exactly(self):
        cases = {name: (x, w) for name, x, w in adversarial_operands(8, 3, "cuda")}
        x, w = cases["one hot columns"]
        columns = [(row * 731 + 5) % K for row in range(8)]
        self.assertTrue(torch.equal(ba_gemm(x, w), w[:, columns].t().contiguous()))

    def test_a_row_has_the_same_bits_in_every_batch(self):
        x, w = random_operands(M_MAX, 11, "cuda")
        whole = ba_gemm(x, w)
        for rows in ROWS:
            self.assert_same_bits(ba_gemm(x[:rows], w), whole[:rows])
        poisoned = torch.full_like(x, torch.nan)
        for row in range(M_MAX):
            poisoned[row] = x[row]
            self.assert_same_bits(ba_gemm(poisoned, w)[row], whole[row])
            poisoned[row] = torch.nan

    def test_every_output_is_written_and_nothing_else(self):
        gemm = load(torch.cuda.current_device())
        stream = torch.cuda.current_stream().cuda_stream
        for rows in ROWS:
            x, w = random_operands(rows, rows, "cuda")
            before = x.clone(), w.clone()
            guarded = torch.full((16 * N,), torch.nan, dtype=torch.bfloat16, device="cuda")
            y = guarded[4 * N : (4 + rows) * N].view(rows, N)
            gemm.launch(x, w, y, stream)
            self.assertFalse(bool(y.isnan().any()))
            self.assertEqual(int(guarded.isnan().sum()), (16 - rows) * N)
            self.assertTrue(torch.equal(x, before[0]) and torch.equal(w, before[1]))

    def test_repeated_launches_give_the_same_bits(self):
        x, w = random_operands(5, 5, "cuda")
        first = ba_gemm(x, w)
        for _ in range(200):
            self.assertTrue(torch.equal(ba_gemm(x, w), first))

    def test_wrong_operands_are_refused(self):
        x, w = random_operands(4, 0, "cuda")
        wrong = [
            (x[:1], w),
            (x[:, :-8], w),
            (x, w[:-1]),
            (x.float(), w),
            (x.cpu(), w.cpu()),
            (x.cpu(), w),
            (x.t().contiguous().t(), w),
            (torch.empty(4 * K + 1, dtype=x.dtype, device="cuda")[1:].view(4, K), w),
        ]
        for bad_x, bad_w in wrong:
            with self.assertRaises(ValueError):
                ba_gemm(bad_x, bad_w)


@needs_cuda
class TestLaunches(GpuCase):
    """The dispatcher on this GPU, told to take it, against the frozen form; it counts branches."""

    def setUp(self):
        from sm120_ba.reference import frozen_gemm

        self.dispatcher = trusting_dispatcher()
        self.expected = frozen_gemm

    def test_eager_calls_take_the_kernel(self):
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        for rows in ROWS:
            x, w = random_operands(rows, rows, "cuda")
            self.assert_same_bits(self.dispatcher.linear(x, w), self.expected(x, w))
        self.assertEqual(self.dispatcher.stats().fast, len(ROWS))
        self.assertEqual(self.dispatcher.stats().fallbacks, 0)

    def test_cold_capture_falls_back(self):
        x, w = random_operands(4, 1, "cuda")
        F.linear(x, w)  # cuBLAS itself must be warm
        torch.cuda.synchronize()
        graph = new_graph()
        with torch.cuda.graph(graph):
            y = self.dispatcher.linear(x, w)
        graph.replay()
        self.assertEqual(self.dispatcher.stats().fallback, {Reason.NOT_PROVED: 1})
        self.assertEqual(kernel_nodes(graph), 0)
        self.assertTrue(torch.equal(y, F.linear(x, w)))

    def test_warm_replay_follows_its_inputs(self):
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        for rows in ROWS:
            x, w = random_operands(rows, rows, "cuda")
            graph = new_graph()
            with torch.cuda.graph(graph):
                y = self.dispatcher.linear(x, w)
            self.assertEqual(kernel_nodes(graph), 1)
            for seed in range(3):
                new_x, new_w = random_operands(rows, 100 + seed, "cuda")
                x.copy_(new_x)
                w.copy_(new_w)
                graph.replay()
                self.assert_same_bits(y, self.expected(new_x, new_w))
        self.assertEqual(self.dispatcher.stats().fast, len(ROWS))

    def test_one_row_is_captured_without_the_kernel(self):
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        x, w = random_operands(1, 1, "cuda")
        F.linear(x, w)
        torch.cuda.synchronize()
        graph = new_graph()
        with torch.cuda.graph(graph):
            self.dispatcher.linear(x, w)
        self.assertEqual(kernel_nodes(graph), 0)
        self.assertEqual(self.dispatcher.stats().fallback, {Reason.ROWS: 1})

    def test_a_graph_outlives_the_dispatcher(self):
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        x, w = random_operands(4, 4, "cuda")
        graph = new_graph()
        with torch.cuda.graph(graph):
            y = self.dispatcher.linear(x, w)
        self.dispatcher = None
        graph.replay()
        self.assert_same_bits(y, self.expected(x, w))

    def test_each_stream_keeps_its_order(self):
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        _, w = random_operands(2, 0, "cuda")
        torch.cuda.synchronize()
        results = []
        for seed, rows in enumerate(ROWS):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                source, _ = random_operands(rows, seed, "cuda")
                x = torch.empty_like(source)
                torch.cuda._sleep(200_000)  # a launch on another stream would read x too early
                x.copy_(source)
                results.append((source, self.dispatcher.linear(x, w)))
        torch.cuda.synchronize()
        for source, y in results:
            self.assert_same_bits(y, self.expected(source, w))
        self.assertEqual(self.dispatcher.stats().fast, len(ROWS))

    def test_two_threads_share_one_dispatcher(self):
        operands = [random_operands(rows, rows, "cuda") for rows in (3, 8)]
        torch.cuda.synchronize()
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        results: list[list[torch.Tensor]] = [[], []]
        start = threading.Barrier(2)

        def work(index: int) -> None:
            start.wait()
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(200):
                    results[index].append(self.dispatcher.linear(*operands[index]))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
        for (x, w), outputs in zip(operands, results, strict=True):
            self.assertEqual(len(outputs), 200)
            expected = self.expected(x, w)
            for y in outputs:
                self.assert_same_bits(y, expected)
        self.assertEqual(self.dispatcher.stats().fast, 400)

    def test_a_thread_without_a_context_can_launch(self):
        gemm = load(torch.cuda.current_device())
        x, w = random_operands(6, 6, "cuda")
        y = torch.empty(6, N, dtype=torch.bfloat16, device="cuda")
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream().cuda_stream
        thread = threading.Thread(target=gemm.launch, args=(x, w, y, stream))
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        self.assert_same_bits(y, self.expected(x, w))

    @needs_second_gpu
    def test_second_gpu_that_is_not_current(self):
        x, w = random_operands(4, 4, "cuda:1")
        torch.cuda.set_device(0)
        self.assertIsNone(self.dispatcher.warmup("cuda:1"))
        y = self.dispatcher.linear(x, w)
        self.assertEqual((torch.cuda.current_device(), y.device.index), (0, 1))
        torch.cuda.synchronize(1)
        with torch.cuda.device(1):
            self.assert_same_bits(y, self.expected(x, w))
        self.assertEqual(self.dispatcher.stats().fast, 1)


@needs_cuda
class TestGate(unittest.TestCase):
    """The real gate on this GPU: what it is decides the branch."""

    def test_only_compute_capability_12_0_takes_the_kernel(self):
        x, w = random_operands(4, 4, "cuda")
        dispatcher = Dispatcher(store=Store(None))
        refused = dispatcher.warmup("cuda", rows=[4])
        y = dispatcher.linear(x, w)
        if IS_SM120:
            self.assertIsNone(refused)
            self.assertEqual(dispatcher.stats().fast, 1)
        else:
            self.assertEqual(dispatcher.stats().fallback, {Reason.NOT_SM120: 1})
            self.assertTrue(torch.equal(y, F.linear(x, w)))


@needs_sm120
class TestOnSm120(GpuCase):
    """The shipped dispatcher against `F.linear`, exactly; the branch is counted."""

    def setUp(self):
        self.dispatcher = Dispatcher(store=Store(None))
        self.assertIsNone(self.dispatcher.warmup("cuda"))

    def test_sm120_equals_linear_for_every_row_count_and_seed(self):
        for rows in ROWS:
            for seed in SEEDS:
                with self.subTest(rows=rows, seed=seed):
                    x, w = random_operands(rows, seed, "cuda")
                    self.assert_same_bits(self.dispatcher.linear(x, w), F.linear(x, w))
        self.assertEqual(self.dispatcher.stats().fast, len(ROWS) * len(SEEDS))

    def test_sm120_equals_linear_on_adversarial_operands(self):
        for rows in ROWS:
            for name, x, w in adversarial_operands(rows, rows, "cuda"):
                with self.subTest(rows=rows, case=name):
                    self.assert_same_bits(self.dispatcher.linear(x, w), F.linear(x, w))

    def test_sm120_falls_back_with_the_same_values(self):
        x, w = random_operands(4, 4, "cuda")
        bias = torch.zeros(N, dtype=torch.bfloat16, device="cuda")
        one, many = random_operands(1, 1, "cuda")[0], random_operands(9, 9, "cuda")[0]
        odd = torch.empty(4 * K + 1, dtype=x.dtype, device="cuda")[1:].view(4, K).copy_(x)
        cases = [
            (Reason.ROWS, (one, w)),
            (Reason.ROWS, (many, w)),
            (Reason.BIAS, (x, w, bias)),
            (Reason.DTYPE, (x.float(), w.float())),
            (Reason.ALIGNMENT, (odd, w)),
            (Reason.REQUIRES_GRAD, (x, w.clone().requires_grad_())),
        ]
        for reason, arguments in cases:
            with self.subTest(reason=reason):
                dispatcher = Dispatcher()
                self.assertTrue(torch.equal(dispatcher.linear(*arguments), F.linear(*arguments)))
                self.assertEqual(dispatcher.stats().fallback, {reason: 1})

    def test_sm120_replays_what_linear_computes(self):
        x, w = random_operands(8, 8, "cuda")
        graph = new_graph()
        with torch.cuda.graph(graph):
            y = self.dispatcher.linear(x, w)
        self.assertEqual(kernel_nodes(graph), 1)
        for seed in range(3):
            x.copy_(random_operands(8, seed, "cuda")[0])
            graph.replay()
            self.assert_same_bits(y, F.linear(x, w))


if __name__ == "__main__":
    unittest.main()
