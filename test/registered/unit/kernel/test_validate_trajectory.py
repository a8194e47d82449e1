"""Two runs are comparable only where their batches are the same; the first that is not is named."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from runci import register_cpu_ci
from sm120_ba.validate import commands
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.trajectory import (
    Batch,
    Recorder,
    counts,
    first_mismatch,
    mismatches,
    read,
    write,
)

register_cpu_ci(est_time=2, stage="base-b", runner_config="cpu")

EXTEND = Batch("extend", ("a", "b"), (5, 4), (5, 1), 2, False)
DECODE = Batch("decode", ("a", "b"), (6, 5), (1, 1), 2, True)
RUN = [EXTEND, DECODE, DECODE]


class TestCompare(unittest.TestCase):
    """Branch: data only."""

    def test_every_field_and_the_number_of_batches_count(self) -> None:
        changes: dict[str, Any] = {
            "kind": "mixed",
            "requests": ("b", "a"),
            "lengths": (6, 6),
            "new": (1, 2),
            "size": 3,
            "graph": False,
        }
        self.assertEqual(list(changes), list(asdict(DECODE)))
        self.assertIsNone(first_mismatch(RUN, list(RUN)))
        for name, value in changes.items():
            with self.subTest(name=name):
                other = [EXTEND, replace(DECODE, **{name: value}), replace(DECODE, size=9)]
                found = first_mismatch(RUN, other)
                assert found is not None
                self.assertEqual((found.batch, found.what, found.second), (1, name, value))
        for first, second in ((RUN, RUN[:2]), (RUN[:2], RUN)):
            found = first_mismatch(first, second)
            assert found is not None
            self.assertEqual((found.batch, found.first, found.second), (2, len(first), len(second)))

    def test_each_run_is_compared_with_the_first(self) -> None:
        self.assertEqual(mismatches({"A1": RUN, "B1": RUN, "A2": RUN}), ())
        found = mismatches({"A1": RUN, "B1": RUN[:1], "A2": RUN})
        self.assertEqual([failure.where for failure in found], ["trajectory A1 and B1"])

    def test_counts_by_kind_size_and_graph(self) -> None:
        table = counts({"A1": RUN, "B1": RUN[:1]})
        self.assertEqual(table.rows, (("decode", 2, "graph", 2, 0), ("extend", 2, "eager", 1, 1)))

    def test_a_recorder_tells_extend_from_decode(self) -> None:
        recorder = Recorder()
        for past, new in ((0, 4), (4, 1), (5, 2), (0, 1)):
            recorder.record(("a", "b"), past, new)
        kinds = [batch.kind for batch in recorder.batches]
        self.assertEqual(kinds, ["extend", "decode", "extend", "extend"])
        wanted = Batch("decode", ("a", "b"), (5, 5), (1, 1), 2, False)
        self.assertEqual(recorder.batches[1], wanted)


class TestFiles(unittest.TestCase):
    """Branch: JSONL as a server writes it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "batches.jsonl")

    def test_what_was_written_is_read(self) -> None:
        write(RUN, self.path)
        self.assertEqual(read(self.path), RUN)

    def test_what_is_no_batch_names_its_line(self) -> None:
        good = asdict(EXTEND)
        table: list[dict[str, Any]] = [
            {},
            good | {"more": 1},
            {name: value for name, value in good.items() if name != "graph"},
            good | {"graph": 1},
            good | {"size": True},
            good | {"size": 3},
            good | {"kind": 1},
            good | {"requests": "ab"},
            good | {"requests": ["a", 1]},
            good | {"lengths": [1]},
            good | {"new": [1, 1.0]},
        ]
        for wrong in table:
            with self.subTest(wrong=wrong):
                self.path.write_text(json.dumps(good) + "\n" + json.dumps(wrong) + "\n")
                with self.assertRaisesRegex(UsageError, r"jsonl:2"):
                    read(self.path)

    def test_the_command(self) -> None:
        other, report = self.path.with_name("other.jsonl"), self.path.with_name("report.json")
        write(RUN, self.path)
        words = ["--baseline", str(self.path), "--candidate", str(other), "--report", str(report)]
        for batches, status in ((RUN, 0), ([EXTEND, replace(DECODE, graph=False)], 1), ([], 2)):
            with self.subTest(status=status), contextlib.redirect_stdout(io.StringIO()):
                write(batches, other)
                self.assertEqual(commands.main(["trajectory", *words]), status)
        [failure] = json.loads(report.read_text())["failures"]
        self.assertIn("batch 1: graph is True and False", failure["what"])


if __name__ == "__main__":
    unittest.main()
