"""Free generation: where two arms part first, whose answers flip, and what is only noise.

Branch: `F.linear` and planted implementations of it on the CPU.
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
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import planted_linears
import torch

from runci import register_cpu_ci
from sm120_ba.validate import arms, commands, generation, implementations
from sm120_ba.validate.generation import (
    Answer,
    first_difference,
    flips,
    measure,
    stop_tokens,
    tokens_different,
)
from sm120_ba.validate.prompts import Prompt, seeded

register_cpu_ci(est_time=6, stage="base-b", runner_config="cpu")

torch.set_num_threads(1)  # the model is so small that threads wait for each other
NEW = 8
GATES = """
[generate]
requests_different = { noise = 1 }
tokens_different = { noise = 1 }
[answers]
answer_flips = { noise = 1 }
"""


class TestDifferences(unittest.TestCase):
    """Branch: data only."""

    def test_where_two_answers_part(self) -> None:
        table: list[tuple[tuple[int, ...], tuple[int, ...], int | None, int]] = [
            ((1, 2, 3), (1, 2, 3), None, 0),
            ((1, 2, 3), (1, 9, 3), 1, 1),
            ((1, 2, 3), (1, 2), 2, 1),
            ((), (1, 2), 0, 2),
            ((), (), None, 0),
        ]
        for first, second, place, count in table:
            for one, other in ((first, second), (second, first)):
                with self.subTest(one=one, other=other):
                    self.assertEqual(first_difference(one, other), place)
                    self.assertEqual(tokens_different(one, other), count)

    def test_metrics_of_noise_and_difference(self) -> None:
        def answers(*rows: tuple[int, ...]) -> dict[str, Answer]:
            return {str(i): Answer(row, "") for i, row in enumerate(rows)}

        said = {
            "A1": answers((1, 2), (3, 4)),
            "B1": answers((1, 2), (5, 5)),
            "A2": answers((1, 0), (3, 4)),
        }
        rights = {"A1": {"0": True, "1": True}, "B1": {"0": True, "1": False}}
        rights["A2"] = rights["A1"]
        found = {one.metric: (one.noise, *one.differences) for one in measure(said, rights)}
        wanted = {
            "requests_different": (1, 1, 2),
            "tokens_different": (1, 2, 3),
            "answer_flips": (0, 1, 1),
        }
        self.assertEqual(found, wanted)
        self.assertEqual([one.metric for one in measure(said, None)], list(wanted)[:2])
        self.assertEqual(flips(rights).rows, (("1", "right", "wrong", "right"),))

    def test_stop_tokens(self) -> None:
        for given, wanted in ((None, set()), (3, {3}), ([3, 4], {3, 4}), (0, {0})):
            with self.subTest(given=given):
                model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=given))
                self.assertEqual(stop_tokens(model), wanted)
        self.assertEqual(stop_tokens(SimpleNamespace()), set())


class TestGreedy(unittest.TestCase):
    """Branch: the small model on the CPU."""

    def setUp(self) -> None:
        self.model: Any = planted_linears.model("cpu")
        linear = implementations.implementation("torch")
        layers = implementations.chosen_layers(self.model)
        self.arms = arms.Arms(self.model, layers, {"A": linear, "B": linear}, None)

    def answer(self, prompt: Prompt, stop: int | None = None) -> Answer:
        self.addCleanup(setattr, self.model.generation_config, "eos_token_id", None)
        self.model.generation_config.eos_token_id = stop
        found = generation.generate(self.arms, {"A1": arms.Run("A1")}, [prompt], 4, NEW)
        return found["A1"][prompt.name]

    def test_it_is_what_the_model_generates(self) -> None:
        prompt = Prompt("p", (5, 9, 33, 2))
        wanted = self.model.generate(
            torch.tensor([prompt.ids]), max_new_tokens=NEW, do_sample=False, pad_token_id=0
        )
        found = self.answer(prompt)
        self.assertEqual(list(found.tokens), wanted[0, 4:].tolist())
        self.assertEqual(found.text, " ".join(map(str, found.tokens)))

    def test_an_answer_ends_with_its_stop_token(self) -> None:
        prompt = Prompt("p", (5, 9, 33, 2))
        whole = self.answer(prompt).tokens
        stop = whole[3]
        end = whole.index(stop) + 1
        found = self.answer(prompt, stop)
        self.assertEqual(found.tokens, whole[:end])
        self.assertEqual(found.text, " ".join(map(str, whole[: end - 1])))


class TestCommand(unittest.TestCase):
    """Branch: the small model on the CPU, with planted implementations."""

    def run_command(
        self, candidate: str, *words: str, gates: str = GATES
    ) -> tuple[int, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            Path(folder, "gates.toml").write_text(gates)
            options = {
                "model": "planted_linears:model",
                "candidate": candidate,
                "gates": f"{folder}/gates.toml",
                "report": str(report),
                "count": "6",
                "length": "5",
                "new": str(NEW),
            }
            with contextlib.redirect_stdout(io.StringIO()):
                status = commands.main(
                    ["generate", *(f"--{k}={v}" for k, v in options.items()), *words]
                )
            return status, json.loads(report.read_text()) if report.exists() else {}

    def test_equal_arms(self) -> None:
        status, report = self.run_command("planted_linears:equal")
        self.assertEqual((status, report["compared"], report["failures"]), (0, 6, []))
        self.assertEqual(report["tables"][1]["rows"], [])
        batches = report["details"]["trajectory"]
        self.assertEqual([b["kind"] for b in batches], (["extend"] + ["decode"] * 7) * 2)
        self.assertEqual([b["size"] for b in batches], [4] * 8 + [2] * 8)

    def test_a_planted_fault_changes_one_request_from_its_step_on(self) -> None:
        # The third step computes the fourth token.
        planted_linears.reset(call=3 * planted_linears.LAYERS, row=2)
        status, report = self.run_command("planted_linears:wrong")
        self.assertEqual(status, 1)
        [row] = report["tables"][1]["rows"]
        self.assertEqual((row[0], row[2], row[3]), ("seeded-2", "same", row[4]))
        self.assertGreaterEqual(row[3], 3)
        failed = [failure["where"] for failure in report["failures"]]
        self.assertEqual(failed, ["gate requests_different", "gate tokens_different"])

    def test_answers_that_flip(self) -> None:
        asked = seeded(64, 6, 5)
        _, report = self.run_command("planted_linears:equal")
        right = {name: said["text"] for name, said in report["details"]["answers"]["A1"].items()}
        rows = [
            {"id": one.name, "input_ids": one.ids, "expected": right[one.name]} for one in asked
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "prompts.jsonl")
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            words = ("--checker=planted_linears:is_expected", f"--prompts={path}")
            self.assertEqual(self.run_command("planted_linears:equal", *words)[0], 0)
            planted_linears.reset(call=3 * planted_linears.LAYERS, row=2)
            status, report = self.run_command("planted_linears:wrong", *words)
        self.assertEqual(status, 1)
        [row] = report["tables"][2]["rows"]
        self.assertEqual(row, ["seeded-2", "right", "wrong", "right"])
        self.assertIn("gate answer_flips", [failure["where"] for failure in report["failures"]])

    def test_nan_is_a_failure_though_the_tokens_that_follow_are_some(self) -> None:
        planted_linears.reset(call=3 * planted_linears.LAYERS, row=1)
        opened = GATES.replace("noise = 1", "limit = inf")
        status, report = self.run_command("planted_linears:nan", gates=opened)
        self.assertEqual(status, 1)
        [failure] = report["failures"]
        self.assertEqual(failure["where"], "B1")
        self.assertIn("first of seeded-1, token 3", failure["what"])

    def test_noise_without_a_difference(self) -> None:
        planted_linears.reset()
        noisy = "planted_linears:noisy"
        loose = GATES.replace("noise = 1", "noise = 5")
        status, report = self.run_command(noisy, f"--baseline={noisy}", gates=loose)
        self.assertEqual((status, report["failures"]), (0, []))
        self.assertGreater(report["tables"][0]["rows"][0][1], 0)

    def test_wrong_use(self) -> None:
        table: list[tuple[tuple[str, ...], str]] = [
            (("--new=0",), GATES),
            (("--checker=nothing",), GATES),
            (("--checker=math",), GATES),  # seeded prompts have nothing expected
            (("--checker=planted_linears:is_expected",), GATES.replace("[answers]", "[x]")),
            ((), GATES.replace("[generate]", "[x]")),
        ]
        for words, gates in table:
            with self.subTest(words=words, gates=gates):
                found = self.run_command("planted_linears:equal", *words, gates=gates)
                self.assertEqual(found, (2, {}))


if __name__ == "__main__":
    unittest.main()
