"""Loading, graph capture, threads, failures and counts of the BA dispatcher; runs on the CPU.

Only the capability query and what follows it (loading, launching) are faked. Each test asserts the
branch that ran, not only the values.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import unittest
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import BaseTorchDispatchMode

import sm120_ba
from runci import register_cpu_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN, GemmUnavailable, K, N
from sm120_ba.reasons import Reason
from sm120_ba.runtime import cuda_capability
from sm120_ba.testing import RecordingRuntime, fake_dispatcher

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

BF16 = torch.bfloat16


def rows_of(rows: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, K, generator=generator).to(BF16)


class WarmCase(unittest.TestCase):
    """Four rows and a weight, and the dispatcher's warnings."""

    def setUp(self) -> None:
        self.x, self.weight = rows_of(4), rows_of(N)
        warning = mock.patch("sm120_ba.dispatch.logger.warning")
        self.warning = warning.start()
        self.addCleanup(warning.stop)

    def assert_same(self, got: torch.Tensor, expected: torch.Tensor) -> None:
        self.assertEqual((got.shape, got.dtype), (expected.shape, expected.dtype))
        self.assertTrue(torch.equal(got, expected))


class TestWarmState(WarmCase):
    """Loading, graph capture, threads and failures."""

    def test_a_warm_up_in_a_capture_neither_loads_nor_launches(self) -> None:
        runtime = RecordingRuntime(capturing=True)
        dispatcher, _ = fake_dispatcher(runtime=runtime, warm=False)
        self.assert_same(dispatcher.linear(self.x, self.weight), F.linear(self.x, self.weight))
        self.assertIs(dispatcher.warmup("cpu"), Reason.COLD_CAPTURE)
        self.assertEqual((runtime.loads, runtime.gemm.rows), ([], []))
        runtime.capturing = False
        self.assertIsNone(dispatcher.warmup("cpu"))
        self.assertEqual((runtime.loads, runtime.gemm.rows), ([-1], [M_MAX]))

    def test_a_call_before_the_warm_up_neither_loads_nor_launches(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        self.assertIs(dispatcher.why_not(self.x, self.weight), Reason.NOT_PROVED)
        self.assert_same(dispatcher.linear(self.x, self.weight), F.linear(self.x, self.weight))
        self.assertEqual(dispatcher.stats().fallback, {Reason.NOT_PROVED: 1})
        self.assertEqual((runtime.loads, runtime.gemm.rows), ([], []))

    def test_one_warm_up_makes_every_number_of_rows_capturable(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        self.assertIsNone(dispatcher.warmup("cpu"))
        runtime.capturing = True
        runtime.gemm.rows.clear()
        for rows in range(M_MIN, M_MAX + 1):
            x = rows_of(rows)
            self.assert_same(dispatcher.linear(x, self.weight), F.linear(x, self.weight))
        self.assertEqual(runtime.gemm.rows, list(range(M_MIN, M_MAX + 1)))
        self.assertEqual(len(runtime.loads), 1)

    def test_warm_state_is_per_device(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        self.assertIsNone(dispatcher.warmup("cpu"))
        # torch numbers CPU devices too: another key, as a second GPU is.
        self.assertIsNone(dispatcher.warmup("cpu:3"))
        self.assertIsNone(dispatcher.warmup("cpu:3"))
        self.assertEqual(runtime.loads, [-1, 3])

    def test_warmup_says_why_not(self) -> None:
        self.assertIs(Dispatcher().warmup("cpu"), Reason.NOT_CUDA)
        with mock.patch("torch.cuda.is_available", return_value=False):
            for device in (None, 0, "cuda", "cuda:1", torch.device("cuda")):
                self.assertIs(Dispatcher().warmup(device), Reason.NOT_CUDA)
        self.assertIs(fake_dispatcher((12, 1))[0].warmup("cpu"), Reason.NOT_SM120)
        runtime = RecordingRuntime(failure=GemmUnavailable("no"))
        broken, _ = fake_dispatcher(runtime=runtime, warm=False)
        self.assertIs(broken.warmup("cpu"), Reason.UNAVAILABLE)
        self.assertIs(broken.warmup("cpu"), Reason.UNAVAILABLE)
        self.assertEqual(len(runtime.loads), 1)

    def test_warmup_in_a_mode_that_would_see_it_does_nothing(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        with torch._subclasses.FakeTensorMode():
            self.assertIs(dispatcher.warmup("cpu"), Reason.DISPATCH_MODE)
        # Another mode that is on too must not hide it.
        with torch.autocast("cpu"), torch._subclasses.FakeTensorMode():
            self.assertIs(dispatcher.warmup("cpu"), Reason.DISPATCH_MODE)
        self.assertEqual(runtime.loads, [])
        with torch.device("cpu"), torch.autocast("cpu"):
            self.assertIsNone(dispatcher.warmup("cpu"))

    def test_failures_give_the_fallback_and_one_warning(self) -> None:
        for failure in (GemmUnavailable("why"), ImportError("why"), OSError("why")):
            with self.subTest(type(failure).__name__):
                self.warning.reset_mock()
                runtime = RecordingRuntime(failure=failure)
                dispatcher, _ = fake_dispatcher(runtime=runtime, warm=False)
                for _ in range(2):
                    self.assertIs(dispatcher.warmup("cpu"), Reason.UNAVAILABLE)
                for _ in range(3):
                    got = dispatcher.linear(self.x, self.weight)
                    self.assert_same(got, F.linear(self.x, self.weight))
                self.assertEqual(dispatcher.stats().fallback, {Reason.UNAVAILABLE: 3})
                self.assertEqual((len(runtime.loads), self.warning.call_count), (1, 1))
                self.assertIn("why", str(self.warning.call_args))

    def test_a_first_launch_that_fails(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        runtime.gemm.launch = mock.Mock(side_effect=RuntimeError("cuLaunchKernel"))
        self.assertIs(dispatcher.warmup("cpu"), Reason.UNAVAILABLE)
        self.assert_same(dispatcher.linear(self.x, self.weight), F.linear(self.x, self.weight))
        self.assertEqual(dispatcher.stats().fallback, {Reason.UNAVAILABLE: 1})
        self.assertEqual(self.warning.call_count, 1)

    def test_threads_that_start_together_load_once(self) -> None:
        dispatcher, runtime = fake_dispatcher(warm=False)
        threads, results = 8, []
        barrier = threading.Barrier(threads)
        expected = F.linear(self.x, self.weight)

        def work() -> None:
            barrier.wait()
            dispatcher.warmup("cpu")
            got = [dispatcher.linear(self.x, self.weight) for _ in range(200)]
            results.extend(torch.equal(y, expected) for y in got)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual((len(results), all(results)), (threads * 200, True))
        self.assertEqual((runtime.loads, dispatcher.stats().fast), ([-1], threads * 200))

    def test_a_mode_of_another_thread_does_not_count(self) -> None:
        dispatcher, _ = fake_dispatcher()
        seen = []
        with torch.device("cpu"), torch.autocast("cpu"), BaseTorchDispatchMode():
            worker = threading.Thread(
                target=lambda: seen.append(dispatcher.why_not(self.x, self.weight))
            )
            worker.start()
            worker.join()
        self.assertEqual(seen, [None])


class TestStats(WarmCase):
    """Counting."""

    def test_counts_and_reset(self) -> None:
        dispatcher, _ = fake_dispatcher()
        weight = self.weight
        for rows in (1, 1, 4, 8, 9):
            dispatcher.linear(rows_of(rows), weight)
        dispatcher.why_not(self.x, weight)  # asking is not counted
        stats = dispatcher.stats()
        self.assertEqual((stats.fast, stats.fallback, stats.fallbacks), (2, {Reason.ROWS: 3}, 3))
        self.assertIn("ROWS: The number of rows", str(stats))
        dispatcher.reset_stats()
        self.assertEqual((dispatcher.stats().fast, dispatcher.stats().fallback), (0, {}))
        self.assertEqual(stats.fast, 2)  # an earlier answer does not change

    def test_the_public_functions_share_one_dispatcher(self) -> None:
        sm120_ba.reset_stats()
        x, weight = self.x, self.weight
        self.assert_same(sm120_ba.sm120_ba_linear(x, weight), F.linear(x, weight))
        self.assertIs(sm120_ba.why_not(x, weight), Reason.NOT_CUDA)
        self.assertEqual(sm120_ba.stats().fallback, {Reason.NOT_CUDA: 1})
        self.assertIs(sm120_ba.warmup("cpu"), Reason.NOT_CUDA)


class TestWithoutCuda(WarmCase):
    """The CPU never touches CUDA, and nothing that is missing breaks an import."""

    def test_a_cpu_tensor_never_touches_cuda(self) -> None:
        touched = AssertionError("CUDA was touched")
        names = ("_lazy_init", "get_device_capability", "is_available", "current_device", "device")
        with contextlib.ExitStack() as stack:
            # A CPU build of torch would answer before it looks at the device.
            stack.enter_context(mock.patch("torch.version.cuda", "13.0"))
            for name in names:
                stack.enter_context(mock.patch(f"torch.cuda.{name}", side_effect=touched))
            dispatcher = Dispatcher()
            self.assertIs(dispatcher.why_not(self.x, self.weight), Reason.NOT_CUDA)
            dispatcher.linear(self.x, self.weight)
        self.assertEqual(dispatcher.stats().fallback, {Reason.NOT_CUDA: 1})

    def test_rocm_devices_are_not_cuda(self) -> None:
        with (
            mock.patch("torch.version.cuda", None),
            mock.patch("torch.cuda.get_device_capability", return_value=(12, 0)),
        ):
            self.assertIsNone(cuda_capability(torch.device("cuda", 0)))

    def test_the_real_runtime_without_a_gpu(self) -> None:
        with mock.patch("torch.cuda.is_available", return_value=False):
            dispatcher = Dispatcher(lambda _device: (12, 0))
            self.assertIs(dispatcher.warmup("cpu"), Reason.UNAVAILABLE)
            x, weight = self.x, self.weight
            self.assert_same(dispatcher.linear(x, weight), F.linear(x, weight))
        self.assertEqual(dispatcher.stats().fallback, {Reason.UNAVAILABLE: 1})
        self.assertEqual(self.warning.call_count, 1)

    def test_imports_without_triton(self) -> None:
        code = (
            "import sys; sys.modules['triton'] = None\n"
            "import sm120_ba, sm120_ba.sglang_plugin\n"
            "assert 'torch' not in sys.modules, 'the package import is not cheap'\n"
            "import torch\n"
            "x = torch.ones(4, 5120, dtype=torch.bfloat16)\n"
            "w = torch.ones(48, 5120, dtype=torch.bfloat16)\n"
            "assert torch.equal(sm120_ba.sm120_ba_linear(x, w), torch.nn.functional.linear(x, w))\n"
            "assert sm120_ba.why_not(x, w) is sm120_ba.Reason.NOT_CUDA\n"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
