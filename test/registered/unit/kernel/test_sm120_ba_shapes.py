"""The table of shapes: which sizes the kernel takes, and that its loop over K leaves no rest."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import unittest

from runci import register_cpu_ci
from sm120_ba.shapes import BY_SIZE, COLUMNS, SM120_SHAPE, TABLE, TOKENS, covers

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


class TestTable(unittest.TestCase):
    """Branch: data only."""

    def test_m_max_is_the_last_m_that_cublas_does_not_split(self) -> None:
        for shape in TABLE:
            with self.subTest(str(shape)):
                self.assertLess(shape.m_max * shape.n * shape.k, 2**21)
                self.assertGreaterEqual((shape.m_max + 1) * shape.n * shape.k, 2**21)

    def test_sizes(self) -> None:
        sizes = {(shape.n, shape.k) for shape in TABLE}
        self.assertEqual(len(sizes), len(TABLE))
        expected = {(n, 5120) for n in (24, 48, 96)} | {(n, 2048) for n in (16, 32, 64)}
        expected |= {(n, 3072) for n in (64, 128)} | {(n, 4096) for n in (32, 64, 128)}
        expected |= {(n, 2560) for n in (48, 64, 96)}
        self.assertEqual(sizes, expected)
        self.assertEqual((SM120_SHAPE.n, SM120_SHAPE.k, list(SM120_SHAPE.rows)[-1]), (48, 5120, 8))

    def test_covers(self) -> None:
        cases = [
            (48, 5120, 1, False),
            (48, 5120, 2, True),
            (48, 5120, 8, True),
            (48, 5120, 9, False),
            (48, 5120, 0, False),
            (16, 2048, 63, True),
            (16, 2048, 64, False),
            (5120, 48, 4, False),
            (12, 5120, 4, False),
        ]
        for n, k, m, expected in cases:
            with self.subTest(n=n, k=k, m=m):
                self.assertIs(covers(n, k, m), expected)

    def test_a_loop_that_would_leave_a_rest_is_refused(self) -> None:
        for stages in (3, 8):
            with self.assertRaisesRegex(ValueError, "2560"):
                dataclasses.replace(BY_SIZE[64, 2560], stages=stages)
        self.assertEqual(dataclasses.replace(BY_SIZE[64, 2560], stages=5).stages, 5)

    def test_every_output_has_one_program(self) -> None:
        for shape in TABLE:
            for m in shape.rows:
                columns, rows = shape.grid(m)
                self.assertTrue(0 <= columns * COLUMNS - shape.n < COLUMNS)
                self.assertTrue(0 <= rows * TOKENS - m < TOKENS)

    def test_the_table_needs_neither_torch_nor_triton(self) -> None:
        code = (
            "import sys, sm120_ba.shapes\n"
            "assert not {'torch', 'triton'} & set(sys.modules), 'the table is not cheap'\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
