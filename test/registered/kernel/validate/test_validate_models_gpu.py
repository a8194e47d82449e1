"""Logits, generation, scores and recurrent state on a GPU, with the kernel where it is proved.

Branch: on compute capability 9.0 the kernel at decodes of four, which its counts show; elsewhere
the kernel, or a report that says that nothing was compared.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import planted_linears
import torch

from runci import register_cuda_ci
from sm120_ba.validate import commands

register_cuda_ci(est_time=90, stage="base-b-kernel-unit", runner_config="1-gpu-small")

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM90 = HAS_CUDA and torch.cuda.get_device_capability(0) == (9, 0)
DEVICE = "cuda:0"
GATES = Path(__file__).parents[4] / "examples" / "validation" / "gates.toml"
KERNEL = ("--model=small-2048", "--candidate=sm120_ba", "--mode=proved")
LAYERS = planted_linears.LAYERS


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestCommands(unittest.TestCase):
    """The commands as they are typed, each with its report."""

    def run_command(self, *words: str) -> tuple[int, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            with contextlib.redirect_stdout(io.StringIO()):
                status = commands.main([*words, f"--device={DEVICE}", f"--report={report}"])
            return status, json.loads(report.read_text())

    def assert_equal_or_not_compared(self, status: int, report: dict[str, Any], calls: int) -> None:
        """Where the kernel answered a call every answer is the baseline's; else the status is 3."""
        [table] = [t for t in report["tables"] if t["title"] == "Calls of the chosen layers"]
        answered = {row[0]: row[4] for row in table["rows"]}
        print(f"answered by: {answered}", file=sys.stderr)
        self.assertEqual(report["failures"], [])
        self.assertEqual(status, 0 if "kernel" in answered["B1"] else 3)
        if IS_SM90:
            self.assertIn(f"kernel: {calls}", answered["B1"])

    def test_logits_with_the_kernel(self) -> None:
        status, report = self.run_command("logits", *KERNEL, f"--gates={GATES}")
        # Two batches of four prompts: eight tokens at once, then eight decodes.
        self.assert_equal_or_not_compared(status, report, 2 * 8 * LAYERS)
        found = report["details"]["distances"]["A1 to B1"]
        self.assertEqual(set(found["max_abs"]), {0.0})

    def test_generation_with_the_kernel(self) -> None:
        status, report = self.run_command("generate", *KERNEL, f"--gates={GATES}", "--new=8")
        self.assert_equal_or_not_compared(status, report, 2 * 7 * LAYERS)

    def test_scores_with_the_kernel(self) -> None:
        words = ("--count=1", "--depths=0,0.3,0.6,1", "--new=4")
        status, report = self.run_command("scores", *KERNEL, *words)
        self.assert_equal_or_not_compared(status, report, 3 * LAYERS)

    def test_a_wrong_logit_is_found_where_it_is(self) -> None:
        planted_linears.reset(call=2 * LAYERS + 1, row=2)
        words = ("--model=planted_linears:model", "--candidate=planted_linears:wrong")
        status, report = self.run_command("logits", *words, f"--gates={GATES}")
        self.assertEqual(status, 1)
        found = report["details"]["distances"]
        self.assertEqual(set(found["A1 to A2"]["max_abs"]), {0.0})
        where = [
            tuple(position[:2])
            for position, value in zip(
                report["details"]["positions"], found["A1 to B1"]["max_abs"], strict=True
            )
            if value
        ]
        self.assertEqual(where[0], ("seeded-2", 9))
        self.assertEqual({name for name, _ in where}, {"seeded-2"})

    def test_recurrent_state(self) -> None:
        status, report = self.run_command("state")
        self.assertEqual((status, report["failures"], report["void"]), (0, [], None))
        rows = report["tables"][0]["rows"]
        self.assertEqual({row[4] for row in rows if row[0] == "FP32"}, {0.0})
        self.assertTrue(all(row[4] > 0 for row in rows if row[0] == "BF16"))


if __name__ == "__main__":
    unittest.main()
