"""Scores: a flip in both runs of the candidate is a difference, any other one is noise.

Branch: `F.linear` and planted implementations of it on the CPU, and recorded answers.
"""

from __future__ import annotations

import contextlib
import io
import itertools
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

from runci import register_cpu_ci
from sm120_ba.validate import commands
from sm120_ba.validate.prompts import seeded
from sm120_ba.validate.scores import ORDER, Question

register_cpu_ci(est_time=15, stage="base-b", runner_config="cpu")

torch.set_num_threads(1)  # the model is so small that threads wait for each other


class TestOutcome(unittest.TestCase):
    """Branch: data only."""

    def test_all_sixteen(self) -> None:
        stable = {
            (True, False, True, False): "stable loss",
            (False, True, False, True): "stable gain",
        }
        for rights in itertools.product((True, False), repeat=4):
            with self.subTest(rights=rights):
                question = Question("q", dict(zip(ORDER, rights, strict=True)))
                same = "same" if len(set(rights)) == 1 else "noise"
                self.assertEqual(question.outcome, stable.get(rights, same))

    def test_without_an_answer_nothing_is_said(self) -> None:
        self.assertEqual(Question("q", {"A1": True, "B1": False, "A2": True}).outcome, "incomplete")


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def rows(self, name: str, rows: list[dict[str, Any]]) -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def scores(self, *words: object) -> tuple[int, dict[str, Any]]:
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        with contextlib.redirect_stdout(io.StringIO()):
            status = commands.main(["scores", *map(str, words), f"--report={report}"])
        return status, json.loads(report.read_text()) if report.exists() else {}


class TestRecorded(Files):
    """Branch: answers of a server, no model."""

    def judge(self, *answers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = [{"id": name, "text": f"{name}?", "expected": 4} for name in ("a", "b", "c")]
        runs = [
            self.rows(f"{run}.jsonl", [{"id": k, "answer": v} for k, v in said.items()])
            for run, said in zip(ORDER, answers, strict=True)
        ]
        prompts = self.rows("prompts.jsonl", asked)
        return self.scores("--prompts", prompts, "--checker=math", "--recorded", *runs)

    def test_stable_flips_are_failures_and_noise_is_not(self) -> None:
        good = {"a": "4", "b": "4", "c": "4"}
        bad_b, bad_c = {**good, "b": "5"}, {**good, "c": "5"}
        table: list[tuple[tuple[dict[str, str], ...], int, list[str]]] = [
            ((good, good, good, good), 0, []),
            ((good, bad_b, good, bad_b), 1, ["question b"]),
            ((bad_b, good, bad_b, good), 1, ["question b"]),
            ((good, bad_b, good, good), 0, []),
            ((good, bad_b, good, bad_c), 0, []),
            ((bad_b, bad_b, good, bad_b), 0, []),
        ]
        for answers, status, failed in table:
            with self.subTest(answers=answers):
                found, report = self.judge(*answers)
                self.assertEqual(found, status)
                self.assertEqual([one["where"] for one in report["failures"]], failed)
                listed = {row[0] for row in report["tables"][1]["rows"]}
                differing = {q for q in good if len({said[q] for said in answers}) > 1}
                self.assertEqual(listed, differing)
        counts = report["tables"][0]["rows"]
        self.assertEqual(counts, [["all", 3, 2, 2, 3, 2]])

    def test_a_missing_answer_is_a_failure(self) -> None:
        good = {"a": "4", "b": "4", "c": "4"}
        status, report = self.judge(good, {"a": "4", "b": "4"}, good, good)
        self.assertEqual((status, report["compared"]), (1, 2))
        [failure] = report["failures"]
        self.assertEqual((failure["where"], failure["what"]), ("question c", "no answer in B1"))

    def test_what_is_no_answer_is_wrong_use(self) -> None:
        prompts = self.rows("prompts.jsonl", [{"id": "a", "text": "?", "expected": 4}])
        a1, a2, b2 = (self.rows(f"{run}.jsonl", [{"id": "a", "answer": "4"}]) for run in "123")
        table: list[list[dict[str, Any]]] = [
            [{"id": "z", "answer": "4"}],
            [{"id": "a", "answer": 4}],
            [{"id": "a"}],
            [{"answer": "4"}],
            [{"id": "a", "answer": "4"}, {"id": "a", "answer": "5"}],
            [],
        ]
        for rows in table:
            with self.subTest(rows=rows):
                bad = self.rows("bad.jsonl", rows)
                files = ("--recorded", a1, bad, a2, b2)
                found = self.scores("--prompts", prompts, "--checker=math", *files)
                self.assertEqual(found, (2, {}))
        for files in ((a1, a2, a1, b2), (a1, a1, a2, b2), (a1, b2, a2, self.folder / "." / b2)):
            found = self.scores("--prompts", prompts, "--checker=math", "--recorded", *files)
            self.assertEqual(found, (2, {}), files)

    def test_a_baseline_that_is_all_wrong_can_lose_nothing(self) -> None:
        bad = {"a": "5", "b": "5", "c": "5"}
        status, report = self.judge(bad, bad, bad, bad)
        self.assertEqual(status, 0)
        self.assertTrue(any("no loss could be seen" in note for note in report["notes"]))


class TestInProcess(Files):
    """Branch: the small model on the CPU."""

    def test_retrieval_prompts_are_asked_and_judged(self) -> None:
        words = ("--model=small", "--candidate=torch", "--count=1", "--sentences=2", "--new=3")
        status, report = self.scores(*words)
        self.assertEqual((status, report["compared"], report["failures"]), (0, 5, []))
        depths = [row[0] for row in report["tables"][0]["rows"]]
        self.assertEqual(
            depths, ["all", *(f"depth {d}" for d in ("0", "0.25", "0.5", "0.75", "1"))]
        )
        said = report["details"]["answers"]
        self.assertEqual(said["A1"], said["B2"])
        self.assertEqual({len(text) for text in said["A1"].values()}, {3})

    def test_a_planted_fault_is_a_stable_flip_and_noise_is_noise(self) -> None:
        model = "--model=planted_linears:model"
        asked = [{"id": one.name, "input_ids": one.ids} for one in seeded(64, 6, 5)]
        path = self.rows("prompts.jsonl", [{**row, "expected": ""} for row in asked])
        words = (model, f"--prompts={path}", "--checker=planted_linears:is_expected", "--new=8")
        _, report = self.scores(*words, "--candidate=torch")
        right = report["details"]["answers"]["A1"]
        self.rows("prompts.jsonl", [{**row, "expected": right[row["id"]]} for row in asked])

        status, report = self.scores(*words, "--candidate=planted_linears:always_wrong")
        self.assertEqual(status, 1)
        self.assertEqual({row[5] for row in report["tables"][1]["rows"]}, {"stable loss"})
        self.assertEqual([row[2:] for row in report["tables"][0]["rows"]], [[6, 0, 6, 0]])

        # One call is wrong, so that only one run of the candidate is.
        planted_linears.reset(call=3 * planted_linears.LAYERS, row=2)
        status, report = self.scores(*words, "--candidate=planted_linears:wrong")
        self.assertEqual((status, report["failures"]), (0, []))
        [row] = report["tables"][1]["rows"]
        self.assertEqual(row, ["seeded-2", "right", "wrong", "right", "right", "noise"])

    def test_a_kernel_that_took_no_call_was_not_compared(self) -> None:
        words = ("--count=1", "--sentences=1", "--depths=0,1", "--new=2")
        status, report = self.scores("--model=small", "--candidate=sm120_ba", *words)
        self.assertEqual((status, report["compared"]), (3, 0))

    def test_prompts_are_written_for_a_server(self) -> None:
        path = self.folder / "asked.jsonl"
        status, report = self.scores(f"--write-prompts={path}", "--count=2", "--depths=0.5")
        self.assertEqual((status, report), (0, {}))
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual([row["id"] for row in rows], ["text-0-depth-0.5", "text-1-depth-0.5"])
        self.assertEqual(self.scores(f"--prompts={path}", "--new=1", "--candidate=torch")[0], 0)

    def test_wrong_use(self) -> None:
        rows = [{"id": "a", "text": "1 + 1 = ?"}]
        twice = [{"id": "a", "text": "x", "expected": "x"}] * 2
        table: list[tuple[object, ...]] = [
            ("--prompts=seeded",),
            ("--checker=nothing",),
            (f"--prompts={self.rows('math.jsonl', rows)}", "--checker=math"),
            (f"--prompts={self.rows('twice.jsonl', twice)}",),
            ("--model=planted_linears:model",),  # which has no tokenizer
            ("--new=0",),
            ("--count=0",),
            ("--depths=2",),
        ]
        for words in table:
            with self.subTest(words=words):
                self.assertEqual(self.scores(*words), (2, {}))


if __name__ == "__main__":
    unittest.main()
