"""What the comparison with other implementations says of its figures; on the CPU."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

from runci import register_cpu_ci

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FOLDER = Path(__file__).parents[4] / "kernel" / "benchmark"


def setUpModule() -> None:
    sys.path.insert(0, str(FOLDER))
    unittest.addModuleCleanup(sys.path.remove, str(FOLDER))


class TestFastest(unittest.TestCase):
    """Branch: arithmetic only."""

    def test_of_all_and_of_those_with_equal_bits(self):
        from compare_alternatives import fastest

        times = {0: 6.0, 1: 3.0, 2: 5.0, 3: 5.0}
        for equal, expected in (
            ({0, 2, 3}, (1, 2)),
            ({0, 1}, (1, 1)),
            ({0}, (1, 0)),
            (set(), (1, None)),
            ({9}, (1, None)),  # refused, so never timed
        ):
            with self.subTest(equal=equal):
                self.assertEqual(fastest(times, equal), expected)

    def test_nothing_offered(self):
        from compare_alternatives import fastest

        self.assertEqual(fastest({}, set()), (None, None))


class TestLine(unittest.TestCase):
    """Branch: made-up figures."""

    def cells(self, **given) -> list[str]:
        from compare_alternatives import Line

        usual = {"from_linear": (0.0,) * 3, "from_frozen": (0.0,) * 3, "rows_agree": True}
        line = Line("theirs", (1.0, 2.0, 3.456), error=1.6549e-3, **usual | given)
        return [cell.strip() for cell in line.markdown().strip("|").split("|")]

    def test_times_bits_and_error(self):
        self.assertEqual(self.cells(), ["theirs", "1.00, 2.00, 3.46", "0", "0", "1.65e-3", "no"])

    def test_shares_are_ranges_and_a_single_bit_is_never_said_to_be_none(self):
        cells = self.cells(from_linear=(1.0, 0.998, 1.0), from_frozen=(0.0, 0.0, 1 / 3072))
        self.assertEqual(cells[2:4], ["99.8 to 100 %", "0 to 0.0326 %"])

    def test_rows_whose_bits_depend_on_m_stand_out(self):
        self.assertEqual(self.cells(rows_agree=False)[-1], "**yes**")


class TestSplitOfN(unittest.TestCase):
    """Branch: SGLang's rule, as its tiny_gemm.py of 0.5.23 has it."""

    def test_the_fewest_columns_that_fit_the_gpu_at_once(self):
        from ba_foreign import n_split

        for n, k, sm_count, expected in (
            (48, 5120, 132, 1),
            (48, 5120, 48, 1),
            (48, 5120, 47, 2),
            (64, 2048, 132, 1),
            (256, 2048, 132, 2),
            (512, 512, 8, 2),  # more blocks than the GPU takes: k // 16 // 16 is the most
            (7, 2048, 4, 7),
        ):
            with self.subTest(n=n, k=k, sm_count=sm_count):
                self.assertEqual(n_split(n, k, sm_count), expected)


if __name__ == "__main__":
    unittest.main()
