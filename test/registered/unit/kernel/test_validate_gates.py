"""Gates are set before a run, for every metric, and nothing that is no number passes one."""

from __future__ import annotations

import hashlib
import math
import tempfile
import unittest
from pathlib import Path

from runci import register_cpu_ci
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.gates import Gate, Gates, Measured, failures, judge, read, table

register_cpu_ci(est_time=2, stage="base-b", runner_config="cpu")

NAN, INF = math.nan, math.inf


class TestJudge(unittest.TestCase):
    """Branch: numbers only."""

    def test_what_passes(self) -> None:
        limit, noise = Gate("kl", "limit", 0.5), Gate("kl", "noise", 3.0)
        opened, zero = Gate("kl", "limit", INF), Gate("kl", "limit", 0.0)
        cases = [
            (limit, 0.0, (0.5, 0.1), True),
            (limit, 0.0, (0.1, 0.51), False),
            (limit, 9.0, (0.51, 0.1), False),
            (noise, 0.1, (0.3, 0.3), True),
            (noise, 0.1, (0.2, 0.31), False),
            (noise, 0.0, (0.0, 0.0), True),
            (noise, 0.0, (0.0, 5e-324), False),
            (noise, INF, (0.0, 0.0), False),
            (noise, NAN, (0.0, 0.0), False),
            (zero, 0.0, (0.0, 0.0), True),
            (opened, 0.0, (1e300, 0.0), True),
            (opened, 0.0, (INF, 0.0), False),
            (opened, 0.0, (0.0, NAN), False),
            (limit, 0.0, (NAN, 0.0), False),
            (limit, 0.0, (0.0, NAN), False),
        ]
        for gate, repeat, differences, passed in cases:
            with self.subTest(gate=gate, repeat=repeat, differences=differences):
                gates, measured = Gates("", (gate,)), Measured("kl", repeat, differences)
                [verdict] = judge(gates, [measured])
                self.assertEqual(verdict.passed, passed)
                self.assertEqual(bool(failures([verdict])), not passed)
                self.assertEqual(len(table([verdict], "Gates").rows), 1)


class TestRead(unittest.TestCase):
    """Branch: files only."""

    def read(self, text: str) -> Gates:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "gates.toml")
            path.write_text(text)
            return read(path, {"logits": ("a", "b")})

    def test_the_gates_of_a_command_and_the_hash_of_the_file(self) -> None:
        text = "[other]\nz = 1\n[logits]\nb = { noise = 2 }\na = { limit = inf }\n"
        found = self.read(text)
        self.assertEqual(found.gates, (Gate("a", "limit", INF), Gate("b", "noise", 2.0)))
        self.assertEqual(found.sha256, hashlib.sha256(text.encode()).hexdigest())
        settings = found.settings()
        self.assertEqual(settings["gates"], {"a": "limit inf", "b": "2 x noise"})

    def test_several_tables(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "gates.toml")
            path.write_text("[x]\na = { limit = 1 }\n[y]\nb = { noise = 2 }\n")
            found = read(path, {"x": ("a",), "y": ("b",)})
            self.assertEqual(found.gates, (Gate("a", "limit", 1.0), Gate("b", "noise", 2.0)))
            with self.assertRaises(UsageError):
                read(path, {"x": ("a",), "z": ("b",)})

    def test_wrong_files(self) -> None:
        good = "a = { limit = 1 }\n"
        table = [
            "",
            "[logits",
            "logits = 1",
            "[logits]\n" + good,
            "[logits]\n" + good + "b = { limit = 1 }\nc = { limit = 1 }\n",
            *(
                f"[logits]\n{good}b = {value}\n"
                for value in (
                    "1",
                    "{}",
                    "{ limit = 1, noise = 1 }",
                    "{ most = 1 }",
                    "{ limit = nan }",
                    "{ limit = -1 }",
                    "{ limit = true }",
                    '{ limit = "1" }',
                    "{ noise = inf }",
                    "{ noise = -1 }",
                    f"{{ limit = 1{400 * '0'} }}",
                )
            ),
        ]
        for text in table:
            with self.subTest(text=text), self.assertRaises(UsageError):
                self.read(text)
        with self.assertRaises(UsageError):
            read(Path("there-is-none.toml"), {"logits": ("a",)})


if __name__ == "__main__":
    unittest.main()
