"""Reports keep every failure; what compared nothing is no success; wrong use says what to do."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from runci import register_cpu_ci
from sm120_ba.validate import commands
from sm120_ba.validate.report import Failure, Report, Table, as_markdown, write

register_cpu_ci(est_time=2, stage="base-b", runner_config="cpu")

FINE = Report("logits", 3, {"model": "small"})


class TestReport(unittest.TestCase):
    """Branch: data only."""

    def test_status(self) -> None:
        table = [
            (FINE, 0),
            (replace(FINE, compared=0), 3),
            (replace(FINE, failures=(Failure("layer", "differs"),)), 1),
            (replace(FINE, void="the self-test saw nothing"), 1),
            (replace(FINE, compared=0, void="the self-test saw nothing"), 1),
        ]
        for report, status in table:
            with self.subTest(report=report):
                self.assertEqual(report.status, status)

    def test_every_failure_is_in_both_forms(self) -> None:
        failures = tuple(Failure(f"layer {i}", f"{i} differ | a\nb") for i in range(30))
        tables = (Table("Layers", ("layer", "share"), (("a|b", 0.25),)),)
        report = replace(FINE, failures=failures, tables=tables)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "new", "report.json")
            write(report, path)
            document = json.loads(path.read_text())
            text = path.with_suffix(".md").read_text()
            self.assertEqual(
                sorted(p.name for p in path.parent.iterdir()), ["report.json", "report.md"]
            )
        self.assertEqual(len(document["failures"]), 30)
        self.assertEqual(document["tables"][0]["rows"], [["a|b", 0.25]])
        self.assertEqual(text, as_markdown(report))
        for i in range(30):
            self.assertIn(f"**layer {i}**: {i} differ \\| a b", text)

    def test_what_is_no_number_stays_and_the_file_is_json(self) -> None:
        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        nan, inf = float("nan"), float("inf")
        tables = (Table("KL", ("mean",), ((nan,), (-inf,))),)
        report = replace(FINE, tables=tables, details={"a": {"b": (1.5, nan)}})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            write(report, path)
            document = json.loads(path.read_text(), parse_constant=refuse)
            self.assertIn("| nan |", path.with_suffix(".md").read_text())
        self.assertEqual(document["tables"][0]["rows"], [["nan"], ["-inf"]])
        self.assertEqual(document["details"], {"a": {"b": [1.5, "nan"]}})


class TestCommand(unittest.TestCase):
    """Branch: the command line."""

    def test_a_report_that_cannot_be_written_is_found_before_anything_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder, "taken.json")
            taken.mkdir()
            file = Path(folder, "file")
            file.touch()
            for path in (taken, file / "x.json", Path(folder, "x.md"), Path(folder, "x")):
                with self.subTest(path):
                    words = ["trajectory", "--baseline", "none", "--candidate", "none"]
                    printed = io.StringIO()
                    with contextlib.redirect_stderr(printed):
                        status = commands.main([*words, "--report", str(path)])
                    self.assertEqual(status, 2)
                    self.assertIn(str(path), printed.getvalue())

    def test_wrong_use_is_2(self) -> None:
        for words in ([], ["nonsense"]):
            with self.subTest(words=words):
                command = [sys.executable, "-m", "sm120_ba", "validate", *words]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
