"""The BA kernel is faster than `F.linear` where the dispatcher takes it: on SM120.

The time is that of a graph of 100 calls, medians of shuffled repetitions. Elsewhere this is
skipped: cuBLAS splits K on other GPUs, so a comparison there would say nothing.
"""

from __future__ import annotations

import unittest

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cuda_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN
from sm120_ba.inputs import random_operands
from sm120_ba.timing import measure

register_cuda_ci(est_time=60, stage="base-b-kernel-benchmark", runner_config="1-gpu-small")

IS_SM120 = torch.cuda.is_available() and torch.cuda.get_device_capability(0) == (12, 0)
CALLS = 100


@unittest.skipUnless(IS_SM120, "device 0 is not of compute capability 12.0")
class BenchSm120BaGemm(unittest.TestCase):
    """Branch: the kernel, through the dispatcher; its count is asserted."""

    def test_sm120_kernel_is_faster_than_linear(self):
        dispatcher = Dispatcher()
        self.assertIsNone(dispatcher.warmup("cuda"))
        cases = {}
        for rows in range(M_MIN, M_MAX + 1):
            x, w = random_operands(rows, rows, "cuda")
            ours = lambda _i, x=x, w=w: dispatcher.linear(x, w)  # noqa: E731
            theirs = lambda _i, x=x, w=w: F.linear(x, w)  # noqa: E731
            cases["kernel", rows] = (ours, CALLS)
            cases["F.linear", rows] = (theirs, CALLS)
        samples = measure(cases)
        self.assertEqual(dispatcher.stats().fallbacks, 0)
        self.assertEqual(dispatcher.stats().fast, (CALLS + 1) * (M_MAX - M_MIN + 1))
        for rows in range(M_MIN, M_MAX + 1):
            ours, theirs = samples["kernel", rows].median, samples["F.linear", rows].median
            print(f"M={rows}: kernel {ours:.2f} µs, F.linear {theirs:.2f} µs")
            with self.subTest(rows=rows):
                self.assertLess(ours, theirs)


if __name__ == "__main__":
    unittest.main()
