"""Many seeds, inputs like real activations, and the sanitizers, for the BA kernel on a GPU.

On SM120 the dispatcher's result is compared with `F.linear`; on any other CUDA GPU the kernel is
compared with the frozen form that defines its bits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cuda_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN, K, N, ba_gemm
from sm120_ba.inputs import activation_like, random_operands
from sm120_ba.shapes import SM120_SHAPE, TABLE

register_cuda_ci(est_time=600, suite="nightly-kernel-1-gpu-small", nightly=True)

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM120 = HAS_CUDA and torch.cuda.get_device_capability(0) == (12, 0)
ROWS = range(M_MIN, M_MAX + 1)
SEEDS = range(200)
BATCHES = 1184  # as many as the record of the proposal compared

SANITIZER = shutil.which("compute-sanitizer") or next(
    (str(p) for p in [Path("/usr/local/cuda/bin/compute-sanitizer")] if p.exists()), None
)

LAUNCHES = """
import torch
from sm120_ba.gemm import ba_gemm
from sm120_ba.inputs import random_operands
from sm120_ba.shapes import TABLE
for shape in TABLE:
    for rows in (2, 5 if shape.m_max > 5 else 3, shape.m_max):
        x, w = random_operands(rows, rows, "cuda", shape)
        ba_gemm(x, w)
torch.cuda.synchronize()
print("launched")
"""

TOO_FEW_WEIGHTS = """
import torch
from sm120_ba.gemm import load
from sm120_ba.inputs import random_operands
x, w = random_operands(4, 4, "cuda")
y = torch.empty(4, 48, dtype=torch.bfloat16, device="cuda")
w = w[:40].clone()
load(0).launch(x, w, y, torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
"""


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestNightlyNumerics(unittest.TestCase):
    """Branch on SM120: the dispatcher, counted; elsewhere: the ungated kernel."""

    def setUp(self):
        self.dispatcher = Dispatcher()
        if IS_SM120:
            self.assertIsNone(self.dispatcher.warmup("cuda"))

    def results(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The kernel's result and the one it must equal."""
        from sm120_ba.reference import frozen_gemm

        if IS_SM120:
            return self.dispatcher.linear(x, w), F.linear(x, w)
        return ba_gemm(x, w), frozen_gemm(x, w)

    def assert_all_taken(self, calls: int) -> None:
        if IS_SM120:
            self.assertEqual(self.dispatcher.stats().fast, calls)
            self.assertEqual(self.dispatcher.stats().fallbacks, 0)

    def test_two_hundred_seeds_for_every_row_count(self):
        different = []
        for seed in SEEDS:
            whole, w = random_operands(M_MAX, 1000 + seed, "cuda")
            for rows in ROWS:
                actual, expected = self.results(whole[:rows], w)
                if not torch.equal(actual.view(torch.int16), expected.view(torch.int16)):
                    different.append((seed, rows))
        self.assertEqual(different, [])
        self.assert_all_taken(len(SEEDS) * len(ROWS))

    def test_activations_in_1184_batches(self):
        different = []
        for batch in range(BATCHES):
            rows = ROWS[batch % len(ROWS)]
            x, w = activation_like(rows, batch, "cuda")
            actual, expected = self.results(x, w)
            self.assertEqual(tuple(actual.shape), (rows, N))
            if not torch.equal(actual.view(torch.int16), expected.view(torch.int16)):
                different.append(batch)
        self.assertEqual(different, [])
        self.assert_all_taken(BATCHES)

    def test_equal_rows_stay_equal_in_a_batch(self):
        x, w = activation_like(1, 7, "cuda")
        actual, _ = self.results(x.expand(M_MAX, K).contiguous(), w)
        for row in actual:
            self.assertTrue(torch.equal(row, actual[0]))


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestNightlyProof(unittest.TestCase):
    """Branch: the kernel of every shape, ungated; on SM120 the promised one has to be proved."""

    def test_the_record_of_every_shape_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "proof.json"
            command = [sys.executable, "-m", "sm120_ba", "prove", "--json", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(done.stdout, done.stderr)
            text = path.read_text()
        print(text)
        found = {one["shape"]: one["rows"] for one in json.loads(text)["proofs"]}
        self.assertEqual(len(found), len(TABLE))
        self.assertIn(done.returncode, (0, 1))  # 1: F.linear has other bits for some shape
        for rows in found.values():
            self.assertNotIn("NO_POWER", {row["refused"] for row in rows.values()})
        if IS_SM120:
            promised = found[str(SM120_SHAPE)].values()
            self.assertEqual(sum(sum(row["different"].values()) for row in promised), 0)


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
@unittest.skipUnless(SANITIZER, "compute-sanitizer is not installed")
class TestNightlySanitizer(unittest.TestCase):
    """Branch: the ungated kernel, in a process of its own under compute-sanitizer."""

    def sanitize(self, script: str, *options: str) -> tuple[int, str]:
        command = [SANITIZER, "--error-exitcode", "9", *options, sys.executable, "-c", script]
        # PyTorch's caching allocator would hide an access past the end of a tensor.
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        output = result.stdout + result.stderr
        if "Device not supported" in output:
            self.skipTest("compute-sanitizer does not support this device")
        return result.returncode, output

    def check(self, *options: str) -> None:
        code, output = self.sanitize(LAUNCHES, *options)
        self.assertEqual(code, 0, output[-3000:])
        self.assertIn("launched", output)
        # memcheck: "ERROR SUMMARY: 0 errors"; racecheck: "RACECHECK SUMMARY: 0 hazards ...".
        self.assertRegex(output, r"SUMMARY: 0 (errors|hazards)")

    def test_memcheck_finds_no_error(self):
        self.check("--tool", "memcheck")

    def test_memcheck_finds_a_planted_error(self):
        code, output = self.sanitize(TOO_FEW_WEIGHTS, "--tool", "memcheck")
        self.assertEqual(code, 9, output[-3000:])
        self.assertIn("ba_gemm_kernel", output)

    def test_racecheck_finds_no_hazard(self):
        self.check("--tool", "racecheck", "--racecheck-report", "all")

    def test_synccheck_finds_no_error(self):
        self.check("--tool", "synccheck")


if __name__ == "__main__":
    unittest.main()
