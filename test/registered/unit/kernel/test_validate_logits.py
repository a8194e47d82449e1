"""Teacher-forced logits: a wrong one is found where it is, noise is told from it, NaN never passes.

Branch: `F.linear` and planted implementations of it on the CPU; the shipped kernel is asked once,
where it takes no call.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import planted_linears
import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cpu_ci
from sm120_ba.validate import arms, commands, implementations, logits
from sm120_ba.validate.logits import METRICS, compare, kl_divergence, top_token
from sm120_ba.validate.prompts import Prompt, batches

register_cpu_ci(est_time=7, stage="base-b", runner_config="cpu")

NAN, INF = math.nan, math.inf
torch.set_num_threads(1)  # the model is so small that threads wait for each other
PREFILL = 8


def exact_kl(first: list[float], second: list[float]) -> float:
    """KL(p || q) of two rows of logits with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        a, b = ([Decimal(x).exp() for x in row] for row in (first, second))
        p, q = ([x / sum(row) for x in row] for row in (a, b))
        return float(sum(x * (x / y).ln() for x, y in zip(p, q, strict=True)))


def distances(first: list[list[float]], second: list[list[float]]) -> logits.Distances:
    targets = torch.tensor([0] * (len(first) - 1) + [-1])
    return compare(torch.tensor(first), torch.tensor(second), targets)


class TestDistances(unittest.TestCase):
    """Branch: numbers only."""

    def test_kl_has_the_digits_of_exact_arithmetic(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for scale, step in ((2, 1e-6), (2, 1e-3), (2, 0.5), (2, 5), (20, 1e-2), (40, 30)):
            with self.subTest(scale=scale, step=step):
                a = torch.randn(64, generator=generator, dtype=torch.float64) * scale
                b = a + torch.randn(64, generator=generator, dtype=torch.float64) * step
                found = kl_divergence(a.log_softmax(-1), b.log_softmax(-1)).item()
                wanted = exact_kl(a.tolist(), b.tolist())
                self.assertGreater(found, 0)
                self.assertLess(abs(found / wanted - 1), 1e-8)

    def test_kl_of_edges(self) -> None:
        cases: list[tuple[list[float], list[float], float]] = [
            ([1, 2, 3], [1, 2, 3], 0.0),
            ([0, 0], [math.log(3), 0], math.log(2) - math.log(3) / 2),  # (1/2, 1/2), (3/4, 1/4)
            ([math.log(3), 0], [0, 0], 0.75 * math.log(3) - math.log(2)),  # and the other way
            ([0, 0, -INF], [0, 0, -INF], 0.0),
            ([0, -INF], [0, 0], math.log(2)),
            ([0, 0], [0, -INF], INF),
            ([0, -2000], [0, -2000.5], 0.0),
            ([0, -2000], [-2000, 0], 2000.0),
            ([0, NAN], [0, 0], NAN),
            ([0, 0], [0, NAN], NAN),
            ([INF, 0], [INF, 0], NAN),
        ]
        for first, second, wanted in cases:
            with self.subTest(first=first, second=second):
                a, b = (torch.tensor(row).double().log_softmax(-1) for row in (first, second))
                found = kl_divergence(a, b).item()
                if math.isnan(wanted):
                    self.assertTrue(math.isnan(found))
                else:
                    self.assertTrue(math.isclose(found, wanted, rel_tol=1e-6), found)

    def test_the_top_token_is_the_lowest_of_the_largest(self) -> None:
        rows = [[0.0, 2, 2], [3, 3, 3], [0, NAN, 9], [-INF, -INF, -INF], [0, 1, INF]]
        self.assertEqual(top_token(torch.tensor(rows)).tolist(), [1, 0, -1, 0, 2])

    def test_metrics(self) -> None:
        metrics = distances([[0.0, 0.0], [0, 1]], [[0, math.log(3)], [1, 0]]).metrics()
        self.assertEqual(list(metrics), list(METRICS))
        kl = [math.log(2) - math.log(3) / 2, (math.e - 1) / (math.e + 1)]
        wanted = {
            "max_abs": math.log(3),
            "kl_mean": sum(kl) / 2,
            "kl_p99": max(kl),
            "kl_max": max(kl),
            "nll_mean": math.log(2),  # of the one that has a target: from 1/2 to 1/4
            "nll_max": math.log(2),
            "top1_flips": 2,
        }
        for name, value in wanted.items():
            with self.subTest(name=name):
                self.assertAlmostEqual(metrics[name], value, places=6)

    def test_losses_and_gains_of_the_target_cancel_in_the_mean_alone(self) -> None:
        one, other = [0.0, 0.0], [0.0, math.log(3)]
        metrics = distances([one, other, one], [other, one, one]).metrics()
        self.assertAlmostEqual(metrics["nll_mean"], 0, places=6)
        self.assertAlmostEqual(metrics["nll_max"], math.log(2), places=6)

    def test_the_99th_percentile_is_of_positions(self) -> None:
        rows = [[0.0, 0.0]] * 200
        other = [[0.0, 1.0]] * 2 + [[0.0, 0.5]] + [[0.0, 0.0]] * 197
        metrics = distances(rows, other).metrics()
        self.assertAlmostEqual(metrics["kl_p99"], exact_kl([0, 0], [0, 0.5]), places=6)
        self.assertAlmostEqual(metrics["kl_max"], exact_kl([0, 0], [0, 1.0]), places=6)

    def test_nan_and_infinities(self) -> None:
        same = [[0.0, -INF], [0, 1]]
        self.assertEqual(set(distances(same, same).metrics().values()), {0.0})
        for first, second in (([0, NAN], [0, NAN]), ([0, 0], [NAN, 0])):
            found = distances([first, [0, 1]], [second, [0, 1]])
            metrics = found.metrics()
            for name in ("max_abs", "kl_mean", "kl_p99", "kl_max", "nll_mean", "nll_max"):
                self.assertTrue(math.isnan(metrics[name]), name)
            self.assertEqual(found.different.tolist(), [True, False])


class TestMeasure(unittest.TestCase):
    """Branch: the small model on the CPU; B has the layers' other sign."""

    def test_the_target_is_the_next_token_of_the_prompt(self) -> None:
        model = planted_linears.model("cpu")
        linears = {
            "A": implementations.implementation("torch"),
            "B": implementations.implementation("planted_linears:always_wrong"),
        }
        both = arms.Arms(model, implementations.chosen_layers(model), linears, None)
        prompts = [Prompt("a", (5, 9, 33, 2)), Prompt("b", (1, 1, 40, 7)), Prompt("c", (8, 8, 3))]
        runs = {name: arms.Run(name) for name in arms.ORDER}
        positions, found = logits.measure(both, runs, prompts, 2, 2)
        self.assertEqual(
            positions,
            [
                (prompt.name, i, "extend" if i < 2 else "decode")
                for prompt in prompts
                for i in range(len(prompt.ids))
            ],
        )
        wanted = []
        for batch in batches(prompts, 2):
            ids = torch.tensor([prompt.ids for prompt in batch])
            a, b = (
                logits.forced(both, arms.Run(name), ["p"] * len(batch), ids, 2).double()
                for name in ("A1", "B1")
            )
            following = torch.cat((ids[:, 1:], torch.full((len(batch), 1), -100)), 1).flatten()
            loss = [F.cross_entropy(one, following, reduction="none") for one in (a, b)]
            wanted.append(torch.where(following < 0, torch.nan, loss[1] - loss[0]))
        difference = found["A1", "B1"]
        torch.testing.assert_close(
            difference.nll, torch.cat(wanted), rtol=0, atol=1e-12, equal_nan=True
        )
        self.assertEqual((~difference.has_target).nonzero().flatten().tolist(), [3, 7, 10])
        self.assertGreater(difference.nll[difference.has_target].abs().max(), 0.01)


class TestCommand(unittest.TestCase):
    """Branch: the small model on the CPU, with planted implementations."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def run_command(
        self,
        candidate: str,
        *words: str,
        gate: str = "noise = 10",
        baseline: str = "torch",
        **others: str,
    ) -> tuple[int, dict[str, Any]]:
        gates, report = self.folder / "gates.toml", self.folder / "report.json"
        given = {name: others.get(name, gate) for name in METRICS}
        gates.write_text(
            "[logits]\n" + "".join(f"{name} = {{ {one} }}\n" for name, one in given.items())
        )
        report.unlink(missing_ok=True)
        options = {
            "model": "planted_linears:model",
            "baseline": baseline,
            "candidate": candidate,
            "gates": str(gates),
            "report": str(report),
            "count": "6",
            "length": "12",
            "prefill": str(PREFILL),
        }
        with contextlib.redirect_stdout(io.StringIO()):
            status = commands.main(["logits", *(f"--{k}={v}" for k, v in options.items()), *words])
        return status, json.loads(report.read_text()) if report.exists() else {}

    def test_equal_arms(self) -> None:
        planted_linears.reset()
        status, report = self.run_command("planted_linears:equal")
        self.assertEqual((status, report["compared"], report["failures"]), (0, 72, []))
        self.assertTrue(any("No difference" in note for note in report["notes"]))
        self.assertEqual(len(report["details"]["positions"]), 72)
        calls = {row[0]: row[3] for row in report["tables"][3]["rows"]}
        # Two batches, of four prompts and two: eight tokens of each at once, then one of each.
        self.assertEqual(calls["B1"], "M=2: 12, M=4: 12, M=16: 3, M=32: 3")
        kinds = [batch["kind"] for batch in report["details"]["trajectory"]]
        self.assertEqual(kinds, (["extend"] + ["decode"] * 4) * 2)

    def test_a_wrong_logit_is_found_where_it_is(self) -> None:
        # The second step after the first eight tokens, in the third prompt.
        planted_linears.reset(call=2 * planted_linears.LAYERS + 1, row=2)
        status, report = self.run_command("planted_linears:wrong")
        self.assertEqual(status, 1)
        failed = {failure["where"] for failure in report["failures"]}
        self.assertLessEqual({"gate max_abs", "gate kl_mean", "gate kl_max"}, failed)
        found = report["details"]["distances"]
        where = [
            tuple(position[:2])
            for position, value in zip(
                report["details"]["positions"], found["A1 to B1"]["max_abs"], strict=True
            )
            if value
        ]
        self.assertEqual(where[0], ("seeded-2", PREFILL + 1))
        self.assertEqual({name for name, _ in where}, {"seeded-2"})
        self.assertEqual(set(found["A1 to A2"]["max_abs"]), {0.0})
        listed = report["tables"][2]["rows"]
        self.assertEqual({row[0] for row in listed}, {"seeded-2"})
        by_kind = {row[0]: row[2:4] for row in report["tables"][1]["rows"]}
        self.assertEqual(by_kind, {"extend": [0, 0], "decode": [0, len(where)]})

    def test_another_order_of_the_sum_differs_by_little(self) -> None:
        status, report = self.run_command("split_k", max_abs="limit = 1", top1_flips="limit = inf")
        self.assertEqual(status, 1)
        failed = [failure["where"] for failure in report["failures"]]
        self.assertIn("gate kl_max", failed)
        self.assertNotIn("gate max_abs", failed)
        x = torch.tensor([[[1.0, 2**-8, 2**-8, 2**-8]]]).bfloat16()
        weight, bias = torch.ones(1, 4).bfloat16(), torch.tensor([2.0]).bfloat16()
        found = implementations.implementation("split_k").linear(x, weight, bias)
        # 3 + 1/256 is rounded to 3, and 2/256 is lost when it is added to that.
        self.assertEqual((found.tolist(), found.dtype), ([[[3.0]]], torch.bfloat16))

    def test_a_gate_says_how_much_is_allowed(self) -> None:
        fault = {"call": 2 * planted_linears.LAYERS + 1, "row": 2}
        for gate, wanted in (("limit = inf", 0), ("limit = 0", 1), ("limit = 100", 0)):
            with self.subTest(gate=gate):
                planted_linears.reset(**fault)
                self.assertEqual(self.run_command("planted_linears:wrong", gate=gate)[0], wanted)

    def test_nan_fails_whatever_the_gates_are(self) -> None:
        planted_linears.reset(call=4, row=1)
        status, report = self.run_command("planted_linears:nan", gate="limit = inf")
        self.assertEqual(status, 1)
        failures = {failure["where"]: failure["what"] for failure in report["failures"]}
        self.assertIn("seeded-1, position 8 (decode)", failures["B1"])
        self.assertIn("gate kl_max", failures)
        self.assertNotIn("A2", failures)
        self.assertEqual(report["tables"][2]["rows"][0][0], "seeded-1")

    def test_noise_without_a_difference(self) -> None:
        planted_linears.reset()
        noisy = "planted_linears:noisy"
        # Of a signed mean and of a few flips the repeat may have none by luck.
        status, report = self.run_command(
            noisy, baseline=noisy, nll_mean="limit = 0.01", top1_flips="limit = 10"
        )
        self.assertEqual((status, report["failures"]), (0, []))
        self.assertGreater(report["tables"][0]["rows"][0][1], 0)
        self.assertFalse(any("No difference" in note for note in report["notes"]))
        planted_linears.reset()
        status, report = self.run_command("torch", baseline=noisy, gate="noise = 0.01")
        self.assertEqual(status, 1)

    def test_a_kernel_that_took_no_call_was_not_compared(self) -> None:
        status, report = self.run_command("sm120_ba")
        self.assertEqual((status, report["compared"]), (3, 0))
        answered = {row[0]: row[4] for row in report["tables"][3]["rows"]}
        self.assertEqual(answered, {"A1": "torch", "B1": "NOT_CUDA: 30", "A2": "torch"})

    def test_a_baseline_of_the_kernel_that_took_no_call(self) -> None:
        status, report = self.run_command("planted_linears:equal", baseline="sm120_ba")
        self.assertEqual((status, report["compared"]), (3, 0))

    def test_a_layer_that_no_run_called_is_a_failure(self) -> None:
        words = ("--model=planted_linears:one_not_called", "--count=1", "--length=3")
        status, report = self.run_command("planted_linears:equal", *words)
        self.assertEqual(status, 1)
        self.assertEqual([one["where"] for one in report["failures"]], ["draft.in_proj_ba"])

    def test_prompts_of_a_file_and_their_hash(self) -> None:
        path = self.folder / "prompts.jsonl"
        path.write_text('{"id": "x", "input_ids": [1, 2, 3]}\n[4, 5]\n')
        status, report = self.run_command("planted_linears:equal", f"--prompts={path}")
        self.assertEqual((status, report["compared"]), (0, 5))
        self.assertEqual(report["settings"]["prompt_count"], 2)
        self.assertEqual(len(report["settings"]["prompt_sha256"]), 64)

    def test_files_are_read_before_a_model_is_loaded(self) -> None:
        path = self.folder / "prompts.jsonl"
        path.write_text("[]\n")
        for wrong in ("--gates=there-is-none.toml", f"--prompts={path}", "--candidate=nothing"):
            with self.subTest(wrong=wrong):
                words = (wrong, "--model=planted_linears:never_loaded")
                self.assertEqual(self.run_command("torch", *words), (2, {}))

    def test_wrong_use(self) -> None:
        path = self.folder / "prompts.jsonl"
        path.write_text("[64]\n")
        table = [
            ("planted_linears:equal", f"--prompts={path}"),
            ("planted_linears:equal", "--gates=there-is-none.toml"),
            ("planted_linears:equal", "--layers=nothing"),
            ("planted_linears:equal", "--prefill=0"),
            ("planted_linears:equal", "--batch=0"),
            ("planted_linears:equal", "--device=tpu"),
            ("planted_linears:equal", "--device=cuda:99"),
            ("planted_linears:equal", "--count=0"),
            ("planted_linears:equal", "--model=there-is-none"),
            ("planted_linears:equal", "--model=planted_linears:no_language_model"),
            ("planted_linears:there_is_none", "--count=1"),
            ("there_is_none", "--count=1"),
        ]
        for candidate, words in table:
            with self.subTest(candidate=candidate, words=words):
                self.assertEqual(self.run_command(candidate, words), (2, {}))


if __name__ == "__main__":
    unittest.main()
