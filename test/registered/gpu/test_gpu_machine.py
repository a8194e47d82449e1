"""The GPU machine is the one that suites.yml says, and computes what it should.

A runner with another card, or one that another process fills, makes every other result worthless.
"""

from __future__ import annotations

import unittest
from pathlib import Path

import torch

from runci import register_cuda_ci
from runci.config.suites import load_taxonomy

register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")

ROOT = Path(__file__).parents[3]
RUNNER = "1-gpu-small"
FREE = 0.9  # of the memory, before a test starts
GIB = 1 << 30


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class TestGpuMachine(unittest.TestCase):
    def setUp(self) -> None:
        config = ROOT / "test" / "suites.yml"
        self.runner = load_taxonomy(config.read_bytes(), str(config)).runners[RUNNER]

    def test_it_is_the_card_of_the_taxonomy(self) -> None:
        self.assertEqual(torch.cuda.device_count(), self.runner.gpus)
        self.assertIn(self.runner.gpu or "?", torch.cuda.get_device_name(0))
        major, minor = torch.cuda.get_device_capability(0)
        self.assertEqual(f"{major}.{minor}", self.runner.compute_capability)

    def test_its_memory_is_there_and_free(self) -> None:
        free, total = torch.cuda.mem_get_info(0)
        self.assertGreater(total, 0.95 * (self.runner.memory_gb or 0) * GIB)
        self.assertGreater(free, FREE * total)

    def test_small_integers_multiply_exactly(self) -> None:
        # BF16 holds integers up to 256 exactly, and FP32 sums of their products up to 2**24.
        seeded = torch.Generator().manual_seed(7)
        a = torch.randint(-8, 9, (512, 1024), generator=seeded)
        b = torch.randint(-8, 9, (1024, 512), generator=seeded)
        found = a.cuda().bfloat16().float() @ b.cuda().bfloat16().float()
        self.assertTrue(torch.equal(found.cpu().long(), a @ b))


if __name__ == "__main__":
    unittest.main()
