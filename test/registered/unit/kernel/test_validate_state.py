"""A state that is handed over as FP32 changes no bit wherever that is; as BF16 it changes some."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

from runci import register_cpu_ci
from sm120_ba.validate import commands
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.recurrent_state import (
    Inputs,
    Outcome,
    differences,
    plans,
    recurrence,
    replay,
    seeded,
)

register_cpu_ci(est_time=8, stage="base-b", runner_config="cpu")

torch.set_num_threads(1)  # the inputs are so small that threads wait for each other
LENGTH, HEADS, SIZE = 12, 2, 8


def inputs() -> Inputs:
    return seeded(LENGTH, HEADS, SIZE)


class TestRecurrence(unittest.TestCase):
    """Branch: FP32 on the CPU."""

    def test_it_is_that_of_transformers(self) -> None:
        given = inputs()
        state = torch.randn(HEADS, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
        wanted, after = torch_recurrent_gated_delta_rule(
            *(value[None] for value in (given.q, given.k, given.v)),
            g=given.g[None],
            beta=given.b[None],
            initial_state=state[None],
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        outputs, found = recurrence(given, state)
        # Both sum in FP32, in their own order; the outputs there are rounded to BF16.
        torch.testing.assert_close(found, after[0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(outputs.bfloat16(), wanted[0], atol=1e-6, rtol=2**-7)

    def test_by_hand(self) -> None:
        one = torch.ones(1, 1, 1).bfloat16()
        given = Inputs(2 * one, 3 * one, 5 * one, 0.5 * one[0], -torch.ones(1, 1))
        outputs, state = recurrence(given, torch.full((1, 1, 1), 2.0))
        decayed = 2 * 2.718281828**-1
        self.assertAlmostEqual(state.item(), decayed + 0.5 * (5 - decayed), places=5)
        self.assertAlmostEqual(outputs.item(), state.item(), places=5)


class TestReplay(unittest.TestCase):
    """Branch: FP32 and BF16 states on the CPU."""

    def test_an_fp32_state_gives_equal_bits_wherever_it_is_cut(self) -> None:
        whole = replay(inputs(), (), torch.float32)
        for cut in range(1, LENGTH):
            for cuts in ((cut,), tuple(range(cut, LENGTH))):
                with self.subTest(cuts=cuts):
                    found = replay(inputs(), cuts, torch.float32)
                    self.assertTrue(torch.equal(found.outputs, whole.outputs))
                    self.assertTrue(torch.equal(found.state, whole.state))

    def test_a_bf16_state_does_not_and_only_behind_the_cut(self) -> None:
        given = seeded(64, 4, 32)
        whole = replay(given, (), torch.bfloat16)
        for cut in (8, 16, 40):
            with self.subTest(cut=cut):
                found = replay(given, (cut,), torch.bfloat16)
                different = (found.outputs != whole.outputs).flatten(1).any(1)
                self.assertFalse(different[:cut].any())
                self.assertTrue(different[cut:].any())

    def test_the_state_is_rounded_to_nearest_even_at_the_cut(self) -> None:
        given = inputs()
        first, after = recurrence(given.piece(0, 5), torch.zeros(HEADS, SIZE, SIZE))
        second, last = recurrence(given.piece(5, LENGTH), after.bfloat16().float())
        found = replay(given, (5,), torch.bfloat16)
        self.assertTrue(torch.equal(found.outputs, torch.cat((first, second)).bfloat16()))
        self.assertTrue(torch.equal(found.state, last.bfloat16()))


class TestDifferences(unittest.TestCase):
    """Branch: data only."""

    def test_what_must_not_be(self) -> None:
        outputs = torch.ones(4, 1, 1).bfloat16()
        state = torch.zeros(1, 1, 1)
        whole = Outcome(outputs, state)
        early, late = outputs.clone(), outputs.clone()
        early[0] += 2**-7
        late[3] += 2**-7
        table = [
            ("FP32", whole, False),
            ("BF16", whole, False),
            ("FP32", replace(whole, outputs=late), True),
            ("BF16", replace(whole, outputs=late), False),
            ("FP32", replace(whole, state=state + 1e-30), True),
            ("BF16", replace(whole, state=state + 1e-30), False),
            ("BF16", replace(whole, outputs=early), True),
        ]
        for name, cut, wrong in table:
            with self.subTest(name=name, cut=cut):
                found = differences(name, "plan", (2,), whole, cut)
                self.assertEqual(found.failure is not None, wrong)
        found = differences("BF16", "plan", (2,), whole, replace(whole, outputs=late))
        self.assertEqual((found.max_abs, found.percent, found.largest_ulp), (2**-7, 25.0, 1))

    def test_plans(self) -> None:
        for length in (2, 3, 16, 17, 128):
            for name, cuts in plans(length).items():
                with self.subTest(length=length, name=name):
                    self.assertTrue(cuts)
                    self.assertEqual(list(cuts), sorted(set(cuts)))
                    self.assertTrue(set(cuts) <= set(range(1, length)))
        self.assertEqual(list(plans(8, [(1, 7)]).values()), [(1, 7)])
        for wrong in ((), (0,), (8,), (3, 3), (4, 3)):
            with self.subTest(wrong=wrong), self.assertRaises(UsageError):
                plans(8, [wrong])


class TestCommand(unittest.TestCase):
    """Branch: FP32 and BF16 states on the CPU."""

    def run_command(self, *words: str) -> tuple[int, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            report = Path(folder, "report.json")
            status = commands.main(["state", *words, f"--report={report}"])
            return status, json.loads(report.read_text()) if report.exists() else {}

    def test_the_table(self) -> None:
        status, report = self.run_command("--length=48", "--heads=2", "--size=16")
        self.assertEqual((status, report["failures"], report["void"]), (0, [], None))
        percent = {(row[0], row[1]): row[4] for row in report["tables"][0]["rows"]}
        self.assertEqual(len(percent), 10)
        self.assertEqual({v for (state, _), v in percent.items() if state == "FP32"}, {0.0})
        self.assertGreater(percent["BF16", "all singly"], percent["BF16", "in halves"])

    def test_an_input_that_shows_nothing_is_void(self) -> None:
        # Of the last token alone, of one element, no bit survives the rounding of the output.
        status, report = self.run_command("--length=2", "--heads=1", "--size=1", "--cuts=1")
        self.assertEqual(status, 1)
        self.assertIn("shows nothing", report["void"])

    def test_wrong_use(self) -> None:
        for words in (
            ["--length=1"],
            ["--heads=0"],
            ["--size=0"],
            ["--cuts=64"],
            ["--cuts=2,1"],
            ["--device=tpu"],
            ["--device=cuda:99"],
        ):
            with self.subTest(words=words):
                self.assertEqual(self.run_command(*words), (2, {}))


if __name__ == "__main__":
    unittest.main()
