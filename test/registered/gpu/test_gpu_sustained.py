"""A projection gives the same bits for as long as it runs: a hot or failing card does not."""

from __future__ import annotations

import time
import unittest

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cuda_ci

register_cuda_ci(est_time=45, stage="extra-a", runner_config="1-gpu-small")

SECONDS = 30.0
LAUNCHES = 200  # between two comparisons, which wait for the GPU


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class TestGpuSustained(unittest.TestCase):
    def test_the_bits_stay_the_same(self) -> None:
        seeded = torch.Generator().manual_seed(11)
        x, weight = (
            torch.randn(size, generator=seeded).bfloat16().cuda()
            for size in ((512, 4096), (4096, 4096))
        )
        first = F.linear(x, weight)
        end = time.monotonic() + SECONDS
        rounds = 0
        while time.monotonic() < end:
            for _ in range(LAUNCHES):
                again = F.linear(x, weight)
            self.assertTrue(torch.equal(first, again), f"other bits in round {rounds}")
            rounds += 1
        self.assertGreater(rounds, 0)


if __name__ == "__main__":
    unittest.main()
