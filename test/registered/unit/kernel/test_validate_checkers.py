"""Checkers say whether an answer is right; what they cannot judge is wrong use."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from runci import register_cpu_ci
from sm120_ba.validate.checkers import checker, is_right, retrieval_rows
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.prompts import Characters, from_rows

register_cpu_ci(est_time=2, stage="base-b", runner_config="cpu")


def check(name: str, row: dict[str, Any], answer: str) -> bool:
    return is_right(name, checker(name), "q", row, answer)


class TestMath(unittest.TestCase):
    """Branch: texts only."""

    def test_the_last_number_counts(self) -> None:
        cases: list[tuple[Any, str, bool]] = [
            (12, "5 + 7 = 12", True),
            (12, "12, not 13", False),
            (12, "The answer is 12.", True),
            (12, "**12** apples", True),
            ("12", "12.0", True),
            (12.5, "$12.50", True),
            (0.1, "1/10", True),
            (0.5, ".5", True),
            (0.5, "50%", False),
            (-3, "x = -3", True),
            (-3, "it is \u22123", True),
            (3, "it is +3", True),
            (3, "5-3", True),
            (-3, "5-3", False),
            (3, "(5)-3", True),
            (-3, "(-3)", True),
            (1234, "1,234", True),
            (1234.5, "1,234.5 km", True),
            ("1,234,567", "1234567", True),
            (3, "1,2,3", True),
            (2345, "1,2345", True),
            (23, "1,23", True),
            (1000, "1e3", True),
            (0.015, "1.5e-2", True),
            (1, "1em", True),
            ("3/4", "0.75", True),
            ("3/4", "6/8", True),
            ("3/4", "3 / 4", True),
            ("-3/4", "-3/4", True),
            ("3/4", "\\boxed{\\frac{3}{4}}", True),
            ("-3/4", "-\\dfrac{3}{4}", True),
            ("-3/4", "\\frac{-3}{4}", True),
            ("1/2", "1 1/2", True),
            (1, "1/0", False),
            (4, "x4", True),
            (1, "9" * 10_000, False),
            (1, "1e999999999", False),
            (1, "", False),
            (1, "one", False),
            (10**30 + 1, f"{10**30}", False),
            (10**30 + 1, f"{10**30 + 1}", True),
        ]
        for expected, answer, wanted in cases:
            with self.subTest(expected=expected, answer=answer):
                self.assertEqual(check("math", {"expected": expected}, answer), wanted)

    def test_a_row_without_a_number_is_wrong_use(self) -> None:
        for row in ({}, {"expected": "many"}, {"expected": "1/0"}, {"expected": True}):
            with self.subTest(row=row), self.assertRaisesRegex(UsageError, "prompt q"):
                check("math", row, "1")


class TestStructured(unittest.TestCase):
    """Branch: jsonschema."""

    def test_the_whole_answer_is_valid(self) -> None:
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 1}},
            "required": ["n"],
            "additionalProperties": False,
        }
        cases = [
            ('{"n": 1}', True),
            (' \n{"n": 1}\n', True),
            ('```json\n{"n": 1}\n```', True),
            ('```\n{"n": 1}\n```\n', True),
            ('{"n": 0}', False),
            ('{"n": "1"}', False),
            ('{"n": NaN}', False),
            ('{"n": 0, "n": 1}', False),
            ('{"n": 1, "m": 1}', False),
            ('Here: {"n": 1}', False),
            ('```json\n{"n": 1}\n``` as asked', False),
            ('{"n": 1', False),
            ("[" * 100_000, False),
            ("", False),
        ]
        for answer, wanted in cases:
            with self.subTest(answer=answer[:40]):
                self.assertEqual(check("json", {"schema": schema}, answer), wanted)
        inner = {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a"}
        self.assertTrue(check("json", {"schema": inner}, "1"))
        self.assertFalse(check("json", {"schema": False}, "1"))

    def test_wrong_schemas(self) -> None:
        table: list[dict[str, Any]] = [
            {},
            {"schema": "object"},
            {"schema": {"type": "nothing"}},
            {"schema": {"$ref": "#/$defs/none"}},
        ]
        for row in table:
            with self.subTest(row=row), self.assertRaises(UsageError):
                check("json", row, "1")

    def test_a_schema_fetches_nothing(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"type": "integer"}')
            file.flush()
            schema = {"$ref": Path(file.name).as_uri()}
            with self.assertRaises(UsageError):
                check("json", {"schema": schema}, "1")


class TestRetrieval(unittest.TestCase):
    """Branch: texts only."""

    def test_the_fact_stands_in_the_answer_as_words_of_its_own(self) -> None:
        cases = [
            ("4711", "It is 4711.", True),
            ("4711", "14711", False),
            ("4711", "47111", False),
            ("New York", "in new york, I think", True),
            ("a+b", "a+b", True),
            ("a.b", "axb", False),
            ("4711", "", False),
        ]
        for expected, answer, wanted in cases:
            with self.subTest(expected=expected, answer=answer):
                self.assertEqual(check("retrieval", {"expected": expected}, answer), wanted)
        for row in ({}, {"expected": 4711}, {"expected": " "}):
            with self.subTest(row=row), self.assertRaises(UsageError):
                check("retrieval", row, "4711")

    def test_the_fact_stands_at_its_depth(self) -> None:
        rows = retrieval_rows(2, (0, 0.5, 1), 4)
        self.assertEqual(rows, retrieval_rows(2, (0, 0.5, 1), 4))
        self.assertNotEqual(rows, retrieval_rows(2, (0, 0.5, 1), 4, seed=1))
        self.assertEqual(len({row["id"] for row in rows}), 6)
        for row in rows:
            with self.subTest(row=row["id"]):
                sentences = row["text"].split(". ")
                fact = [i for i, one in enumerate(sentences) if one.endswith(row["expected"])]
                self.assertEqual(fact, [row["depth"] * 4])
                self.assertEqual(row["text"].count(row["expected"]), 1)
        prompts = from_rows([(row["id"], row) for row in rows], Characters())
        self.assertEqual(len({len(prompt.ids) for prompt in prompts[:3]}), 1)

    def test_wrong_use(self) -> None:
        for wrong in ((0, (0,), 4), (1, (), 4), (1, (1.5,), 4), (1, (0,), 0)):
            with self.subTest(wrong=wrong), self.assertRaises(UsageError):
                retrieval_rows(*wrong)


class TestOwn(unittest.TestCase):
    """Branch: functions of others."""

    def test_what_is_no_checker_or_no_verdict_is_wrong_use(self) -> None:
        for name in ("nothing", "there_is_none:f", "math:there_is_none"):
            with self.subTest(name=name), self.assertRaises(UsageError):
                checker(name)
        for function in (lambda row, answer: 1, lambda row, answer: row["x"]):
            with self.assertRaisesRegex(UsageError, "prompt q"):
                is_right("own", function, "q", {}, "")


if __name__ == "__main__":
    unittest.main()
