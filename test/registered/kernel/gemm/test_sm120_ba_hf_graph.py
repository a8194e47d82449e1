"""A small random Qwen3-Next on a GPU: what a CUDA graph of its BA projections contains.

Branch: the kernel at 2..8 tokens and `F.linear` at one, read from the captured graph and from the
dispatcher's counts. On a GPU other than SM120 the dispatcher is told that it has one, and the bits
are compared with the ungated kernel; on SM120 it is the shipped one and they are F.linear's.
"""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cuda_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import K, ba_gemm
from sm120_ba.graph_audit import kernel_names
from sm120_ba.huggingface import patch_model, unpatch_model
from sm120_ba.reasons import Reason
from sm120_ba.testing import trusting_dispatcher
from sm120_ba.validate.models import small_model

register_cuda_ci(est_time=60, stage="base-b-kernel-unit", runner_config="1-gpu-small")

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM120 = HAS_CUDA and torch.cuda.get_device_capability(0) == (12, 0)
BA_LAYERS = 3
KERNEL = "ba_gemm_kernel"


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestGraph(unittest.TestCase):
    """The three BA projections of the model, captured together."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = small_model("cuda")

    def setUp(self) -> None:
        self.dispatcher = Dispatcher() if IS_SM120 else trusting_dispatcher()
        for name, function in (
            ("try_linear", self.dispatcher.try_linear),
            ("sm120_ba_linear", self.dispatcher.linear),
        ):
            patch = mock.patch(f"sm120_ba.huggingface.{name}", function)
            patch.start()
            self.addCleanup(patch.stop)
        report = patch_model(self.model)
        self.addCleanup(unpatch_model, self.model)
        self.assertEqual(len(report.patched), BA_LAYERS)
        self.projections = [self.model.get_submodule(name) for name in report.patched]
        self.assertIsNone(self.dispatcher.warmup("cuda"))
        F.linear(torch.ones(1, K, device="cuda"), torch.ones(48, K, device="cuda"))

    def capture(self, batch: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, list[torch.Tensor]]:
        """A graph of one decoding step's projections: (batch, 1, 5120) through each layer."""
        x = torch.randn(batch, 1, K, device="cuda", dtype=torch.bfloat16)
        for projection in self.projections:
            projection(x)
        torch.cuda.synchronize()
        self.dispatcher.reset_stats()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph):
            outputs = [projection(x) for projection in self.projections]
        return graph, x, outputs

    def test_two_to_eight_tokens_capture_the_kernel(self) -> None:
        for batch in range(2, 9):
            with self.subTest(batch=batch):
                graph, x, outputs = self.capture(batch)
                self.assertEqual(kernel_names(graph).count(KERNEL), BA_LAYERS)
                stats = self.dispatcher.stats()
                self.assertEqual((stats.fast, stats.fallbacks), (BA_LAYERS, 0))
                x.copy_(torch.randn_like(x))
                graph.replay()
                reference = F.linear if IS_SM120 else ba_gemm
                for projection, y in zip(self.projections, outputs, strict=True):
                    expected = reference(x.flatten(0, 1), projection.weight)
                    self.assertEqual(y.shape, (batch, 1, 48))
                    self.assertTrue(torch.equal(y.flatten(0, 1), expected))

    def test_one_token_captures_linear(self) -> None:
        graph, x, outputs = self.capture(1)
        self.assertNotIn(KERNEL, kernel_names(graph))
        self.assertEqual(self.dispatcher.stats().fallback, {Reason.ROWS: BA_LAYERS})
        graph.replay()
        for projection, y in zip(self.projections, outputs, strict=True):
            self.assertTrue(torch.equal(y, F.linear(x, projection.weight)))

    def test_generation_takes_the_kernel(self) -> None:
        tokens = torch.randint(64, (4, 3), device="cuda")
        self.dispatcher.reset_stats()
        self.model.eval().generate(tokens, max_new_tokens=3, do_sample=False, pad_token_id=0)
        # The prompt has 12 tokens; each later step has one for each of the four sequences.
        stats = self.dispatcher.stats()
        self.assertEqual((stats.fast, stats.fallback), (2 * BA_LAYERS, {Reason.ROWS: BA_LAYERS}))


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestProved(unittest.TestCase):
    """`=proved` with nothing told: a graph holds the kernel for what was proved, and only for that.

    An H200 proves 64 x 2048 and refuses 48 x 5120, whose bits cuBLAS does not have there.
    """

    def graphs_of(
        self, hidden: int, heads: int
    ) -> tuple[Reason | None, dict[int, int], Dispatcher]:
        """What warm-up says, and the kernel's nodes in a graph of the three layers, by M."""
        model, dispatcher = small_model("cuda", hidden, heads), Dispatcher()
        with (
            mock.patch("sm120_ba.huggingface.try_linear", dispatcher.try_linear),
            mock.patch("sm120_ba.huggingface.sm120_ba_linear", dispatcher.linear),
        ):
            report = patch_model(model)
            self.addCleanup(unpatch_model, model)
            rows = (2, 4, 8)
            said = dispatcher.warmup("cuda", shapes=[(2 * heads, hidden)], rows=rows, mode="proved")
            layers = [model.get_submodule(name) for name in report.patched]
            self.assertEqual(len(layers), BA_LAYERS)
            nodes = {}
            for m in (1, *rows):
                x = torch.randn(m, 1, hidden, device="cuda", dtype=torch.bfloat16)
                expected = [F.linear(x, layer.weight) for layer in layers]
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph(keep_graph=True)
                with torch.cuda.graph(graph):
                    found = [layer(x) for layer in layers]
                nodes[m] = kernel_names(graph).count(KERNEL)
                graph.replay()
                torch.cuda.synchronize()
                for one, other in zip(found, expected, strict=True):
                    self.assertTrue(torch.equal(one, other))
        return said, nodes, dispatcher

    def test_what_is_proved_is_captured_with_the_bits_of_linear(self) -> None:
        for heads, hidden in ((32, 2048), (24, 5120)):
            with self.subTest(shape=(2 * heads, hidden)):
                said, nodes, dispatcher = self.graphs_of(hidden, heads)
                [proof] = dispatcher.proof()["proofs"]
                print(f"{proof['shape']}: {said}, nodes by M: {nodes}", file=sys.stderr)
                # What an earlier run proved is kept, for other M too.
                known = {int(m): row["refused"] is None for m, row in proof["rows"].items()}
                taken = {m: known[m] for m in nodes if m != 1}
                self.assertEqual(nodes, {1: 0} | {m: BA_LAYERS * taken[m] for m in taken})
                self.assertEqual(said is None, all(taken.values()))
                if torch.cuda.get_device_capability(0) == (9, 0):
                    wanted = None if hidden == 2048 else Reason.BITS_DIFFER
                    self.assertEqual(said, wanted)


if __name__ == "__main__":
    unittest.main()
